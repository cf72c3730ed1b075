"""Log lines for people and for machines."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.client import Client
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.record import Record, encode_batch
from kafkapy.server.lifecycle import logs
from tests.server.harness import run, running_broker


@pytest.fixture(autouse=True)
def _restored_root() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("kafkapy")
    handlers, level, own_handlers = list(root.handlers), root.level, list(own.handlers)
    own.handlers.clear()
    yield
    root.handlers[:], root.level, own.handlers[:] = handlers, level, own_handlers


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


def test_a_line_for_people_has_time_level_logger_and_message() -> None:
    lines = _logged("info", as_json=False).splitlines()
    assert lines[0].endswith(" INFO    kafkapy.some.part: größer 1")
    assert "Traceback (most recent call last):" in lines[2]


def test_a_json_line_is_one_object() -> None:
    first, second = (json.loads(line) for line in _logged("info", as_json=True).splitlines())
    assert first.pop("time_ms") > 1_600_000_000_000
    assert first == {"level": "info", "logger": "kafkapy.some.part", "message": "größer 1"}
    assert second["error"].endswith("invalid literal for int() with base 10: 'broken'")


def test_records_below_the_level_are_not_written() -> None:
    assert len(_logged("debug", as_json=True).splitlines()) == 3
    assert len(_logged("error", as_json=True).splitlines()) == 1


HOSTILE = "a\nb\x1b[2J\x9b\u2028\u202e\ud800"
ESCAPED = r"a\nb\x1b[2J\x9b\u2028\u202e\ud800"
LOGGERS = ["kafkapy.some.part", "another.library"]


def _logged_by(log: Callable[[logging.Logger], None], *, as_json: bool = False, name: str = "kafkapy.x") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    logs.configure("info", as_json=as_json, stream=stream)
    log(logging.getLogger(name))
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]  # it is the BytesIO above


@pytest.mark.parametrize("name", LOGGERS)
def test_a_message_is_one_line_with_any_values(name: str) -> None:
    line = _logged_by(lambda log: log.info("no topic %s of %d at %.1f", HOSTILE, 5, 0.25), name=name)
    assert line.endswith(f": no topic {ESCAPED} of 5 at 0.2\n")
    assert _logged_by(lambda log: log.info(HOSTILE), name=name).endswith(f": {ESCAPED}\n")
    assert _logged_by(lambda log: log.info("in %(name)s", {"name": HOSTILE})).endswith(f": in {ESCAPED}\n")
    (line,) = _logged_by(lambda log: log.info("in %s", HOSTILE), as_json=True, name=name).splitlines()
    assert json.loads(line)["message"] == f"in {ESCAPED}"
    assert line.isprintable()


def _raise(error: Exception, cause: Exception | None = None) -> None:
    try:
        if cause is not None:
            _raise(cause)
    except ValueError:
        raise error from cause
    raise error


def _log_error(log: logging.Logger, error: Exception, cause: Exception | None = None) -> None:
    try:
        _raise(error, cause)
    except Exception:
        log.exception("failed", stack_info=True)


def _log_failure(log: logging.Logger) -> None:
    _log_error(log, RuntimeError("outer"), ValueError(f"{HOSTILE}\nforged line"))


@pytest.mark.parametrize("name", LOGGERS)
def test_a_traceback_keeps_its_own_lines_alone(name: str) -> None:
    text = _logged_by(_log_failure, name=name)
    lines = text.splitlines()
    assert f"ValueError: {ESCAPED}\\nforged line" in lines
    assert "RuntimeError: outer" in lines
    assert "The above exception was the direct cause of the following exception:" in lines
    assert sum(line.startswith('  File "') for line in lines) > 3
    assert all(line.isprintable() for line in lines)
    (line,) = _logged_by(_log_failure, as_json=True, name=name).splitlines()
    assert f"ValueError: {ESCAPED}\\nforged line" in json.loads(line)["error"].splitlines()


def test_line_feeds_in_the_texts_of_grouped_exceptions_are_escaped() -> None:
    group = ExceptionGroup("several", [ValueError("a\nforged"), TypeError("b")])
    lines = _logged_by(lambda log: _log_error(log, group)).splitlines()
    assert not any(line.strip(" |").startswith("forged") for line in lines)
    assert any(r"ValueError: a\n" in line for line in lines)


def test_a_record_without_an_exception_has_no_error() -> None:
    assert _logged_by(lambda log: log.error("failed", exc_info=True)).endswith(": failed\nNoneType: None\n")


def test_long_values_are_shortened() -> None:
    line = _logged_by(lambda log: log.info("of %s: %r is wrong", "n" * 32_000, ValueError("v" * 32_000)))
    assert len(line) < 2 * logs.LONGEST_VALUE + 200
    assert "…(32000 characters)…" in line
    assert "vvv') is wrong" in line
    assert len(_logged_by(lambda log: log.info("n" * 99_000))) < logs.LONGEST_MESSAGE + 200
    text = _logged_by(lambda log: _log_error(log, ValueError("v" * 32_000)))
    assert text.count("v" * 100) < 2 * logs.LONGEST_VALUE / 100


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@pytest.fixture
def users_handler() -> _Kept:
    handler, root = _Kept(), logging.getLogger()
    root.handlers[:] = [handler]
    return handler


def test_in_a_users_process_its_handlers_get_safe_records(users_handler: _Kept) -> None:
    logs.protect()
    logs.protect()
    log = logging.getLogger("kafkapy.some.part")
    log.warning("no topic %s", HOSTILE)
    _log_failure(log)
    assert users_handler.texts[0] == f"no topic {ESCAPED}"
    assert f"ValueError: {ESCAPED}\\nforged line" in users_handler.texts[1].splitlines()
    assert len(users_handler.texts) == 2


def test_a_record_without_anything_hostile_keeps_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    logs.protect()
    logging.getLogger("kafkapy.some.part").warning("%s of %d", "a", 5)
    assert caplog.records[-1].args == ("a", 5)


def test_without_any_handler_warnings_go_to_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    last_resort = _Kept()
    last_resort.setLevel(logging.WARNING)
    monkeypatch.setattr(logging, "lastResort", last_resort)
    logging.getLogger().handlers.clear()
    logs.protect()
    log = logging.getLogger("kafkapy.some.part")
    log.info("small")
    log.warning("no topic %s", HOSTILE)
    assert last_resort.texts == [f"no topic {ESCAPED}"]


def test_a_running_broker_protects_its_loggers(tmp_path: Path, users_handler: _Kept) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            without_id = PartitionProduceData(0, bytes(encode_batch([Record(b"", b"v")], is_transactional=True)))
            await client.ask(CreateTopicsRequest([CreatableTopic("bad\ntopic\x1b[2J", 1, 1)]), 4)
            topics = [TopicProduceData("t\r\n\x1b[31mforged", partition_data=[without_id])]
            await client.ask(ProduceRequest(None, 1, 1000, topics), 8)

    logging.getLogger("kafkapy").setLevel(logging.INFO)
    try:
        run(scenario())
    finally:
        logging.getLogger("kafkapy").setLevel(logging.NOTSET)
    refused = [text for text in users_handler.texts if text.startswith("Refused ")]
    assert len(refused) == 2
    assert all(text.isprintable() for text in users_handler.texts)
    assert r"t\r\n\x1b[31mforged-0" in refused[1]
