"""Log lines for people and for machines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kafkapy.server import logs


@pytest.fixture(autouse=True)
def _restored_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


def _logged(level: str, *, as_json: bool) -> str:
    stream = io.StringIO()
    logs.configure(level, as_json=as_json, stream=stream)
    log = logging.getLogger("kafkapy.some.part")
    log.debug("small")
    log.info("größer %s", 1)
    try:
        int("broken")
    except ValueError:
        log.exception("failed")
    return stream.getvalue()


def test_lines_for_people_say_time_level_part_and_message() -> None:
    lines = _logged("info", as_json=False).splitlines()
    assert lines[0].endswith(" INFO    kafkapy.some.part: größer 1")
    assert "Traceback (most recent call last):" in lines[2]


def test_a_json_line_is_one_object() -> None:
    first, second = (json.loads(line) for line in _logged("info", as_json=True).splitlines())
    assert first.pop("time_ms") > 1_600_000_000_000
    assert first == {"level": "info", "logger": "kafkapy.some.part", "message": "größer 1"}
    assert second["error"].endswith("invalid literal for int() with base 10: 'broken'")


def test_the_level_decides() -> None:
    assert len(_logged("debug", as_json=True).splitlines()) == 3
    assert len(_logged("error", as_json=True).splitlines()) == 1
