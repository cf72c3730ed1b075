import gc
import os
from pathlib import Path

import pytest

from kafkapy.platform.files import Files
from kafkapy.storage.log.log_file import LogFile


def _open_descriptors() -> int:
    gc.collect()  # what earlier tests left in cycles is not this one's
    return len(os.listdir("/proc/self/fd"))


def test_a_slice_survives_the_descriptor_cache_and_the_file(tmp_path: Path) -> None:
    files = Files(max_open_files=1)
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        files.write(path, path[-1:].encode() * 10)
    first, second = (LogFile(files, path) for path in paths)
    part = first.slice(2, 5)
    second.read_at(1, 0)
    os.unlink(paths[0])
    assert len(part) == part.size == 5
    assert part.read() == b"aaaaa"
    assert os.pread(part.fileno(), 5, part.position) == b"aaaaa"


def test_descriptors_are_closed_when_no_object_refers_to_them(tmp_path: Path) -> None:
    files = Files(max_open_files=2)
    before = _open_descriptors()
    logs = []
    for number in range(10):
        path = str(tmp_path / str(number))
        files.create(path)
        logs.append(LogFile(files, path))
        logs[-1].write_at(b"x", 0)
    assert _open_descriptors() - before == 2
    part = logs[0].slice(0, 1)
    part.release()
    part.release()
    for log in logs:
        log.close()
        log.close()
    assert _open_descriptors() == before
    with pytest.raises(AssertionError):
        part.fileno()


def test_a_file_in_use_stays_open_longer(tmp_path: Path) -> None:
    files = Files(max_open_files=2)
    logs = [LogFile(files, str(tmp_path / name)) for name in "abc"]
    for log in logs:
        files.create(log.path)
    logs[0].read_at(1, 0)
    logs[0].used = False
    logs[1].read_at(1, 0)
    before = _open_descriptors()
    logs[2].read_at(1, 0)
    assert _open_descriptors() == before
    assert logs[1].descriptor() is logs[1].descriptor()
    assert _open_descriptors() == before
    assert logs[0].read_at(1, 0) == b""


def test_slices_of_slow_clients_share_a_descriptor(tmp_path: Path) -> None:
    files = Files(max_open_files=1)
    logs = [LogFile(files, str(tmp_path / name)) for name in "ab"]
    for log in logs:
        files.create(log.path)
        log.write_at(b"text", 0)
    before = _open_descriptors()
    slices = [log.slice(0, 4) for _ in range(20) for log in logs]
    assert _open_descriptors() == before + 1
    assert {part.read() for part in slices} == {b"text"}
    del slices
    assert _open_descriptors() == before
    part = logs[0].slice(0, 4)
    logs[0].close()
    files.rename(logs[0].path, logs[0].path + ".deleted")
    files.create(logs[0].path)
    assert logs[0].slice(0, 4).read() == b""
    assert part.read() == b"text"
