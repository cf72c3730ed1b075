import errno
import os
from pathlib import Path

import pytest

from kafkapy.platform.errors import LogDirectoryLockedError
from tests.simulation.disk import READS, SPACE_TAKING, Crashed, Fault, SimulatedDisk
from tests.simulation.durable import Survival


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedDisk:
    return SimulatedDisk(str(tmp_path), seed=1)


def test_fsynced_changes_stay_and_others_are_lost(disk: SimulatedDisk, tmp_path: Path) -> None:
    disk.write(f"{tmp_path}/a", b"synced", sync=True)
    disk.replace(f"{tmp_path}/checkpoint", b"new")  # fsyncs the folder too
    disk.write(f"{tmp_path}/a", b"not", position=6)
    disk.write(f"{tmp_path}/b", b"no name", sync=True)
    disk.replace(f"{tmp_path}/c", b"nothing", sync=False)
    disk.truncate(f"{tmp_path}/checkpoint", 0)
    assert disk.read(f"{tmp_path}/a") == b"syncednot"
    disk.cut_power(Survival.NOTHING)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"synced", "checkpoint": b"new"}


def test_truncating_is_a_change_of_the_bytes(disk: SimulatedDisk, tmp_path: Path) -> None:
    disk.replace(f"{tmp_path}/a", b"content")
    disk.create(f"{tmp_path}/a")
    assert disk.size(f"{tmp_path}/a") == 0
    disk.cut_power(Survival.NOTHING)
    assert disk.read(f"{tmp_path}/a") == b"content"


def test_folders_can_be_created_and_removed(disk: SimulatedDisk, tmp_path: Path) -> None:
    disk.make_directory(f"{tmp_path}/one/two")
    disk.sync_path(str(tmp_path))
    disk.sync_path(f"{tmp_path}/one")
    disk.make_directory(f"{tmp_path}/one/three")
    disk.write(f"{tmp_path}/one/two/file", b"x")
    disk.make_directory(f"{tmp_path}/one")
    disk.remove(f"{tmp_path}/nothing")
    disk.remove_directory(f"{tmp_path}/nothing")
    assert [name for _, name in disk.history if "two" in name] == [f"{tmp_path}/one/two", f"{tmp_path}/one/two/file"]
    disk.remove_directory(f"{tmp_path}/one")
    assert list(tmp_path.iterdir()) == []
    disk.cut_power(Survival.NOTHING)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["two"]
    assert list((tmp_path / "one" / "two").iterdir()) == []


def test_a_fault_fails_the_right_operation_and_writes_a_part(disk: SimulatedDisk, tmp_path: Path) -> None:
    descriptor = disk.open(f"{tmp_path}/a", os.O_RDWR | os.O_CREAT)
    disk.fail(Fault(SPACE_TAKING, after=1, times=2, code=errno.ENOSPC))
    disk.write_at(descriptor, b"good", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            disk.write_at(descriptor, b"x" * 1000, 4)
    assert 4 <= disk.size(f"{tmp_path}/a") < 1004
    disk.write_at(descriptor, b"again", 4)
    assert disk.read_at(descriptor, 9, 0) == b"goodagain"


def test_reads_can_fail(disk: SimulatedDisk, tmp_path: Path) -> None:
    disk.write(f"{tmp_path}/a", b"x")
    disk.fail(Fault(READS, times=2))
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            disk.read(f"{tmp_path}/a")
    assert disk.read(f"{tmp_path}/a") == b"x"


def test_bytes_of_a_failed_fsync_are_lost(disk: SimulatedDisk, tmp_path: Path) -> None:
    disk.replace(f"{tmp_path}/a", b"")
    disk.write(f"{tmp_path}/a", b"lost")
    disk.fail(Fault(frozenset({"sync"})))
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_path(f"{tmp_path}/a")
    disk.sync_path(f"{tmp_path}/a")
    disk.cut_power(Survival.NOTHING)
    assert disk.read(f"{tmp_path}/a") == bytes(4)


def test_faults_also_apply_outside_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    disk = SimulatedDisk(str(tmp_path / "root"))
    (tmp_path / "other").write_bytes(b"other")
    descriptor = disk.open(f"{tmp_path}/other")
    disk.write_at(descriptor, b"X", 0)
    disk.fail(Fault())
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync(descriptor)
    disk.sync(descriptor)
    assert disk.read(f"{tmp_path}/other") == b"Xther"


@pytest.mark.parametrize("changes", range(8))
def test_a_crash_ends_the_process_until_it_is_started_again(tmp_path: Path, changes: int) -> None:
    left = set()
    for seed in range(20):
        root = tmp_path / str(seed)
        root.mkdir()
        disk = SimulatedDisk(str(root), seed)
        disk.crash_after(changes)
        with pytest.raises(Crashed):  # noqa: PT012  # any of them
            disk.make_directory(f"{root}/folder")
            disk.replace(f"{root}/folder/a", b"content")
            disk.truncate(f"{root}/folder/a", 3)
            disk.remove(f"{root}/folder/a")
        with pytest.raises(Crashed):
            disk.write(f"{root}/after", b"x")
        with pytest.raises(Crashed):
            disk.read(str(root))
        disk.restart()
        left.add(tuple(sorted((path.name, path.stat().st_size) for path in root.rglob("a*"))))
        disk.write(f"{root}/after", b"x")
        assert disk.read(f"{root}/after") == b"x"
    assert left


def test_a_crash_comes_before_after_and_within_a_write(tmp_path: Path) -> None:
    sizes = set()
    for seed in range(60):
        disk = SimulatedDisk(str(tmp_path), seed)
        disk.create(f"{tmp_path}/{seed}")
        disk.crash_after(0)
        with pytest.raises(Crashed):
            disk.write(f"{tmp_path}/{seed}", b"abc")
        sizes.add(os.path.getsize(tmp_path / str(seed)))
    assert sizes == {0, 1, 2, 3}


def test_the_lock_is_a_file_like_others(disk: SimulatedDisk, tmp_path: Path) -> None:
    locked = disk.lock(f"{tmp_path}/.lock")
    with pytest.raises(LogDirectoryLockedError):
        disk.lock(f"{tmp_path}/.lock")
    del locked
    disk.lock(f"{tmp_path}/.lock")
    disk.cut_power(Survival.NOTHING)
    assert list(tmp_path.iterdir()) == []
