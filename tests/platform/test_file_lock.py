"""Locks of a data directory, of both kinds."""

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kafkapy.platform import file_lock
from kafkapy.platform.descriptors import locked_here
from tests.platform.lock_holder import held_by_another

KINDS = ["record lock", "database lock"]
ATTEMPT = """
import sys
from kafkapy.platform import file_lock
if sys.argv[2] == "database lock":
    file_lock.fcntl = None
try:
    file_lock.take(sys.argv[1])
except BlockingIOError:
    sys.exit(3)
"""


def attempt(path: Path, kind: str) -> int:
    """The exit code of another process that takes the lock: 0, or 3 when it is refused."""
    return subprocess.run([sys.executable, "-c", ATTEMPT, str(path), kind], check=False).returncode


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "database lock":
        monkeypatch.setattr(file_lock, "fcntl", None)
    return str(request.param)


@pytest.mark.parametrize("other", KINDS)
def test_both_kinds_of_locks_exclude_each_other(tmp_path: Path, kind: str, other: str) -> None:
    path = tmp_path / ".lock"
    held = file_lock.take(str(path))
    assert attempt(path, other) == 3
    assert file_lock.identity_of(str(path)) in locked_here
    del held
    assert file_lock.identity_of(str(path)) not in locked_here
    assert attempt(path, other) == 0
    assert [each.name for each in tmp_path.iterdir()] == [".lock"]
    assert path.read_bytes() == b""


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_whether_another_process_holds_it(
    tmp_path: Path, kind: str, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".lock"
    path.write_bytes(b"")
    monkeypatch.setattr(file_lock.sys, "platform", platform)
    with held_by_another(path):
        assert file_lock.is_taken(str(path))
        with pytest.raises(BlockingIOError):
            file_lock.take(str(path))
    assert not file_lock.is_taken(str(path))
    assert file_lock.identity_of(str(path)) not in locked_here


def test_other_errors_of_the_system_are_raised(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        if kind == "database lock":
            raise sqlite3.OperationalError("unable to open database file")
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(
        sqlite3 if kind == "database lock" else file_lock.fcntl,
        "connect" if kind == "database lock" else "lockf",
        refuse,
    )
    with pytest.raises(OSError, match=r"No locks|unable to open") as refused:
        file_lock.take(str(tmp_path / ".lock"))
    assert not isinstance(refused.value, BlockingIOError)


def test_a_system_without_record_locks_takes_the_other_kind() -> None:
    program = "import sys; sys.modules['fcntl'] = None; from kafkapy.platform import file_lock; print(file_lock.fcntl)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "None\n"
