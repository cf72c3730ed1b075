"""The versions that the table of clients names."""

import re

import pytest

from compat_tests.clients import versions
from compat_tests.clients.agents import AGENTS, LONG_AGENTS
from compat_tests.clients.versions import PYTHON, version_of


@pytest.mark.parametrize("client", [*PYTHON, *LONG_AGENTS, *(name for name in AGENTS if not name.startswith("java-"))])
def test_every_library_has_one(client: str) -> None:
    assert re.fullmatch(r"\d+(\.\d+)+", version_of(client))


def test_a_client_that_is_named_by_its_version_has_no_other() -> None:
    assert version_of("java-2.7.2") == ""


def test_a_missing_client_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PYTHON", ("no-such-package",))
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert version_of("no-such-package") == version_of("kcat") == ""
