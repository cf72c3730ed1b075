"""The substitutes of POSIX calls."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.platform import portable
from kafkapy.platform.files import Descriptor, Files


def test_bytes_are_read_and_written_at_a_position(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    number = os.open(path, os.O_RDWR)
    for read_at in (portable.read_at, portable.seek_and_read):
        assert read_at(number, 3, 4) == b"456"
        assert read_at(number, 9, 8) == b"89"
    assert portable.write_at(number, b"ab", 1) == 2
    assert portable.seek_and_write(number, memoryview(b"XY"), 3) == 2
    assert path.read_bytes() == b"0abXY56789"
    os.close(number)


def test_a_file_gets_its_space_or_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, files = tmp_path / "reserve", Files()
    path.write_bytes(b"abc")
    for allocate, size in ((portable.write_zeros, 200_000), (portable.allocate, 300_000), (portable.allocate, 1_000)):
        monkeypatch.setattr(portable, "allocate", allocate)
        files.allocate(f"{path}", size)
        content = path.read_bytes()
        assert len(content) == max(size, 200_000) or size == 1_000
        assert content.strip(b"\0") == b"abc"
        assert path.stat().st_blocks * 512 >= len(content), "its space is taken"

    def full(number: int, position: int, size: int) -> None:
        portable.write_zeros(number, position, size // 2)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(portable, "allocate", full)
    with pytest.raises(OSError, match="No space left"):
        files.allocate(f"{path}", 500_000)
    assert path.stat().st_size == 300_000


def test_folders_are_not_fsynced_where_that_is_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    class Noting(Files):
        def open(self, path: str, flags: int = os.O_RDWR) -> Descriptor:
            synced.append(path)
            return super().open(path, flags)

    file = tmp_path / "f"
    file.write_bytes(b"")
    for syncs in (True, False):
        monkeypatch.setattr(portable, "SYNCS_DIRECTORIES", syncs)
        for path in (file, tmp_path):
            Noting().sync_path(str(path))
    assert synced == [str(file), str(tmp_path), str(file)]


def test_a_missing_module_is_none() -> None:
    assert portable.module_or_none("os") is os
    assert portable.module_or_none("no_such_module") is None


def test_a_file_is_copied_where_no_link_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("a privilege is not held")

    (tmp_path / "f").write_bytes(b"x")
    portable.link_or_copy(str(tmp_path / "f"), str(tmp_path / "link"))
    monkeypatch.setattr(os, "symlink", refuse)
    portable.link_or_copy(str(tmp_path / "f"), str(tmp_path / "copy"))
    assert [(tmp_path / name).is_symlink() for name in ("link", "copy")] == [True, False]
    assert [(tmp_path / name).read_bytes() for name in ("link", "copy")] == [b"x", b"x"]


def test_the_substitute_of_os_nice_returns_0() -> None:
    assert portable.nice_unsupported(10) == 0


@pytest.mark.parametrize("drop", [portable.fadvise_dontneed, portable.fadvise_unsupported])
def test_bytes_dropped_from_the_cache_are_read_again(drop: Callable[[int, int, int], None], tmp_path: Path) -> None:
    with (tmp_path / "f").open("w+b") as file:
        file.write(b"0123456789")
        file.flush()
        drop(file.fileno(), 0, 10)
        file.seek(0)
        assert file.read() == b"0123456789"
    reader, writer = os.pipe()
    drop(reader, 0, 10)  # posix_fadvise fails on a pipe: the error is ignored
    os.close(reader)
    os.close(writer)


TAKEN_AWAY = """
import os
for name in ("pread", "pwrite", "nice", "O_DIRECTORY", "O_CLOEXEC", "sched_setscheduler", "posix_fadvise"):
    delattr(os, name)
from kafkapy.platform import portable
assert portable.read_at is portable.seek_and_read
assert portable.write_at is portable.seek_and_write
assert portable.be_nice is portable.nice_unsupported
assert portable.drop_cached is portable.fadvise_unsupported
assert portable.become_idle is portable.sched_idle_unsupported
assert not portable.SYNCS_DIRECTORIES
assert portable.OPEN_FLAGS == 0
"""


def test_substitutes_are_used_where_the_system_lacks_the_call() -> None:
    subprocess.run([sys.executable, "-c", TAKEN_AWAY], check=True)
    assert portable.read_at is os.pread
    assert portable.write_at is os.pwrite
    assert portable.be_nice is os.nice


class Linux:
    """Fakes a thread's statistics, and records the policy that was set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, statistics: bytes, *, forbids: bool = False) -> None:
        self.policies: list[int] = []
        self._forbids = forbids
        path = Path(os.path.realpath("/dev/null"))
        real_open = os.open
        monkeypatch.setattr(os, "open", lambda name, flags: self.opened(real_open(path, flags), name))
        monkeypatch.setattr(os, "pread", lambda *_: statistics)
        monkeypatch.setattr(os, "SCHED_IDLE", 5, raising=False)
        monkeypatch.setattr(os, "sched_param", lambda priority: priority, raising=False)
        monkeypatch.setattr(os, "sched_yield", lambda: None, raising=False)
        monkeypatch.setattr(os, "sched_setscheduler", self._set, raising=False)

    def opened(self, number: int, name: str) -> int:
        assert name == "/proc/thread-self/schedstat"
        self.number = number
        return number

    def _set(self, thread: int, policy: int, priority: int) -> None:
        if self._forbids:
            raise PermissionError("not here")
        assert (thread, priority) == (0, 0)
        self.policies.append(policy)

    def is_open(self) -> bool:
        try:
            os.fstat(self.number)
        except OSError:
            return False
        return True


def test_a_thread_becomes_idle_and_measures_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    linux = Linux(monkeypatch, b"12345 678 9\n")
    times = portable.sched_idle_linux()
    assert times is not None
    assert times() == (12345, 678)
    assert linux.policies == [5]
    os.close(linux.number)


@pytest.mark.parametrize(
    ("statistics", "forbids"), [(b"0 0 0\n", False), (b"1 0 1\n", True)], ids=["blind", "forbidden"]
)
def test_a_thread_that_can_not_be_measured_does_not_become_idle(
    statistics: bytes, forbids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    linux = Linux(monkeypatch, statistics, forbids=forbids)
    assert portable.sched_idle_linux() is None
    assert linux.policies == []
    assert not linux.is_open()


def test_a_thread_does_not_become_idle_without_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", missing)
    assert portable.sched_idle_linux() is None
    assert portable.sched_idle_unsupported() is None
