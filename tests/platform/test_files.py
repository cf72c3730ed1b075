import errno
import gc
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kafkapy.platform import portable
from kafkapy.platform.errors import LogDirectoryLockedError
from kafkapy.platform.files import UNCACHED_SIZE, Descriptor, Files, disk_space
from kafkapy.storage.log.log_file import LogFile
from tests.platform.lock_holder import held_by_another


class ShortWrites(Files):
    """Writes at most three bytes in one system call."""

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        for start in range(0, len(data), 3):
            super().write_at(descriptor, memoryview(data)[start : start + 3], position + start)


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(portable, "write_at", lambda fd, data, at: pwrite(fd, memoryview(data)[:4], at))
    Files().write(str(tmp_path / "f"), b"0123456789", 2)
    assert (tmp_path / "f").read_bytes() == b"\0\x000123456789"


def test_files_can_be_replaced_by_a_subclass(tmp_path: Path) -> None:
    files = ShortWrites()
    log = LogFile(files, str(tmp_path / "f"))
    files.create(log.path)
    log.write_at(b"0123456789", 0)
    assert log.read_at(20, 0) == b"0123456789"


@pytest.mark.parametrize("sync", [True, False])
def test_replace_leaves_the_old_or_the_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    path = tmp_path / "f"
    files = Files()
    files.replace(str(path), b"old", sync=sync)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("power failed")))
    with pytest.raises(OSError, match="power"):
        files.replace(str(path), b"new", sync=sync)
    assert path.read_bytes() == b"old"


def test_whole_files(tmp_path: Path) -> None:
    files = Files()
    path = str(tmp_path / "f")
    files.write(path, b"0123456789", sync=True)
    assert files.read(path) == b"0123456789"
    assert files.read(path, 3, 2) == b"234"
    files.truncate(path, 4)
    assert files.size(path) == 4
    files.make_directory(str(tmp_path / "d" / "e"))
    assert files.list_directory(str(tmp_path)) == [("d", -1), ("f", 4)]
    files.remove(path)
    files.remove(path)
    files.remove_directory(str(tmp_path / "d"))
    assert files.list_directory(str(tmp_path)) == []


def test_small_or_missing_files_are_not_uncached(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(bytes(UNCACHED_SIZE))
    for name in ("small", "gone"):
        assert list(Files().uncache(str(tmp_path / name))) == []


def test_another_process_cannot_have_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    script = "import sys; from kafkapy.platform.files import Files; Files().lock(sys.argv[1])"
    attempt = [sys.executable, "-c", script, path]
    lock = Files().lock(path)
    refused = subprocess.run(attempt, capture_output=True, text=True, check=False)
    assert "is in use by another process" in refused.stderr
    del lock
    assert subprocess.run(attempt, check=False).returncode == 0


def test_a_refused_lock_has_an_error_class_and_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> None:
        def lockf(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("fcntl.lockf", lockf)

    refuse(errno.EAGAIN)
    with pytest.raises(LogDirectoryLockedError, match="stop it, or choose another directory"):
        Files().lock(str(tmp_path / ".lock"))
    refuse(errno.ENOLCK)
    with pytest.raises(OSError, match="No locks available"):
        Files().lock(str(tmp_path / ".lock"))


def test_another_broker_of_this_process_cannot_have_the_lock_either(tmp_path: Path) -> None:
    """Record locks don't conflict within a process, and closing another descriptor of the file would end this one."""
    path = str(tmp_path / ".lock")
    script = "import sys; from kafkapy.platform.files import Files; Files().lock(sys.argv[1])"
    lock = Files().lock(path)
    with pytest.raises(LogDirectoryLockedError, match="another broker of this process"):
        Files().lock(path)
    refused = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert "is in use by another process" in refused.stderr
    del lock
    assert Files().lock(path).number >= 0


def test_without_descriptors_the_logs_give_up_theirs(tmp_path: Path) -> None:
    files = Files()
    logs = [LogFile(files, str(tmp_path / str(number))) for number in range(60)]
    for log in logs:
        files.create(log.path)
    gc.collect()  # what earlier tests left in cycles would be given back meanwhile
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 30, hard))
    try:
        for log in logs:
            log.write_at(b"x", 0)
        assert [log.read_at(1, 0) for log in logs] == [b"x"] * 60
        taken = [files.open(logs[0].path) for _ in range(20)]
        with pytest.raises(OSError, match="Too many open files"):
            taken += [files.open(logs[0].path) for _ in range(30)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_is_locked_finds_the_lock(tmp_path: Path) -> None:
    files = Files()
    path = str(tmp_path / ".lock")
    assert not files.is_locked(path)
    assert not os.path.exists(path)
    held = files.lock(path)
    assert files.is_locked(path)
    del held
    assert not files.is_locked(path)
    with held_by_another(Path(path)):
        assert files.is_locked(path)
    assert not files.is_locked(path)


def test_the_space_of_a_file_system(tmp_path: Path) -> None:
    total, free = disk_space(str(tmp_path))
    assert 0 < free <= total
    assert disk_space(str(tmp_path / "missing")) == (-1, -1)
