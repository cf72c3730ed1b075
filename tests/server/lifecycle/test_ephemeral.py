"""Temporary data directories."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kafkapy.clock import SystemClock
from kafkapy.platform.files import Files
from kafkapy.server.lifecycle import ephemeral
from kafkapy.testing.clock import ManualClock


@pytest.fixture
def gone() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def later() -> ManualClock:
    return ManualClock(SystemClock().now_ms() + ephemeral.LEFT_AFTER_MS + 60_000)


def test_a_temporary_directory_is_made_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = Path(ephemeral.make_directory())
    assert path.parent == tmp_path
    assert path.name.startswith(f"kafkapy-{os.getpid()}-")
    (path / "t-0").mkdir()
    ephemeral.remove_directory(str(path))
    assert not path.exists()
    ephemeral.remove_directory(str(path))


def test_the_temporary_root_is_that_of_tempfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (tmp_path, tmp_path / "missing", Path("relative")):
        monkeypatch.setenv("TMPDIR", str(given))
        monkeypatch.setattr(tempfile, "tempdir", None)
        expected = tempfile.gettempdir()
        assert ephemeral.temporary_root() == expected
        with monkeypatch.context() as without:
            without.delitem(sys.modules, "tempfile")
            assert ephemeral.temporary_root() == expected


def test_the_directory_of_a_killed_broker_is_removed_after_an_hour(tmp_path: Path, gone: int) -> None:
    left = tmp_path / f"kafkapy-{gone}-abc"
    (left / "t-0").mkdir(parents=True)
    ephemeral.remove_left_over(str(tmp_path), SystemClock())
    assert left.exists()
    ephemeral.remove_left_over(str(tmp_path), later())
    assert not left.exists()


def test_a_directory_that_may_be_in_use_is_kept(tmp_path: Path, gone: int) -> None:
    names = [f"kafkapy-{os.getpid()}-abc", f"kafkapy-{gone}-locked", "kafkapy-notes", f"other-{gone}-x", "kafkapy-1-x"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / f"kafkapy-{gone}-file").write_text("")
    lock = Files().lock(str(tmp_path / names[1] / ".lock"))
    ephemeral.remove_left_over(str(tmp_path), later())
    assert {path.name for path in tmp_path.iterdir()} == {*names, f"kafkapy-{gone}-file"}
    del lock


def test_another_users_process_is_alive(tmp_path: Path, gone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    (tmp_path / f"kafkapy-{gone}-abc").mkdir()
    monkeypatch.setattr(os, "kill", refuse)
    ephemeral.remove_left_over(str(tmp_path), later())
    assert list(tmp_path.iterdir())


def test_every_process_counts_as_alive_where_os_kill_would_end_it(
    tmp_path: Path, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"kafkapy-{gone}-abc").mkdir()
    monkeypatch.setattr(ephemeral.os, "name", "nt")
    monkeypatch.setattr(os, "kill", None)
    ephemeral.remove_left_over(str(tmp_path), later())
    monkeypatch.undo()
    assert list(tmp_path.iterdir())
