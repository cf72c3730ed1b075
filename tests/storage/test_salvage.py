from pathlib import Path

import pytest

from harness.storage.batches import batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import iterate_headers
from kafkapy.storage.log import salvage
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.salvage import Damage
from kafkapy.turns import Steps
from tests.storage.support import fill, open_log

BATCHES = 12


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=300))
    fill(log, BATCHES)
    return log


def path_of(log: Log) -> Path:
    return Path(log.segments.first.log.path)


def position_of(log: Log, offset: int) -> int:
    return {header.base_offset: at for at, header in iterate_headers(path_of(log).read_bytes())}[offset]


def overwrite(log: Log, position: int, content: bytes) -> None:
    with path_of(log).open("r+b") as file:
        file.seek(position)
        file.write(content)


def salvaged(log: Log, offset: int = 0) -> tuple[list[int], list[Damage], int]:
    """The base offsets of the batches found, the damage, and the offset where the next segment begins."""
    found: list[int] = []
    damaged: list[Damage] = []

    def take(run: bytes) -> Steps[None]:
        found.extend(header.base_offset for _, header in iterate_headers(run))
        yield

    steps = log.salvage(offset, take, damaged.append)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return found, damaged, end.value


@pytest.mark.parametrize("offset", [0, 3, BATCHES - 1])
def test_a_segment_without_damage(log: Log, offset: int) -> None:
    assert salvaged(log, offset) == (list(range(offset, BATCHES)), [], BATCHES)


@pytest.mark.parametrize("size", [0, 5, 61])
@pytest.mark.parametrize("offset", [0, 4, BATCHES - 1])
def test_a_damaged_byte_loses_only_its_batch(log: Log, offset: int, size: int) -> None:
    start = position_of(log, offset)
    content = path_of(log).read_bytes()
    length = next(iterate_headers(content[start:]))[1].size
    for at in range(start, start + length - size):
        if at in range(start + 12, start + 16):
            continue  # the leader epoch is not covered by the CRC, and is not used here
        changed = bytes(each ^ 0x55 for each in content[at : at + max(size, 1)])
        overwrite(log, at, changed)
        found, damaged, limit = salvaged(log)
        assert found == [each for each in range(BATCHES) if each != offset], at - start
        assert (len(damaged), limit) == (1, BATCHES)
        assert (damaged[0].path, damaged[0].position, damaged[0].size) == (str(path_of(log)), start, length)
        assert (damaged[0].offset, damaged[0].next_offset) == (offset, offset + 1)
        overwrite(log, start, content[start : start + length])


def test_a_batch_inside_a_damaged_batch_is_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    inner = bytes(batch(base_offset=1))
    for value in (b"v", inner, b"v"):
        log.append_as_leader(batch(value=value), 0)
    overwrite(log, position_of(log, 1) + 17, b"\0")  # its CRC
    assert salvaged(log)[0] == [0, 2]


def test_a_long_stretch_without_a_batch_is_searched_in_steps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in (b"v", b"\2" * 3 * salvage.RUN_BYTES, b"v"):
        log.append_as_leader(batch(value=value), 0)
    overwrite(log, position_of(log, 1) + 8, b"\x7f")  # its length
    steps = log.salvage(0, lambda _: iter(()), lambda _: None)  # type: ignore[arg-type,return-value]  # what is taken is not looked at
    assert sum(1 for _ in steps) > 3 * salvage.RUN_BYTES / salvage.CANDIDATES


def test_damage_up_to_the_end_and_the_next_segment(log: Log) -> None:
    log.roll()
    fill(log, 2)
    overwrite(log, position_of(log, 10), b"\xff" * 1000)
    found, damaged, limit = salvaged(log)
    assert (found, limit) == (list(range(10)), BATCHES)
    assert [(each.offset, each.next_offset) for each in damaged] == [(10, BATCHES)]
    assert salvaged(log, BATCHES)[0] == [BATCHES, BATCHES + 1]


def test_bytes_that_are_too_few_for_a_batch(log: Log) -> None:
    segment = log.segments.first
    with path_of(log).open("ab") as file:
        file.write(b"\0\0\0")
    segment.size += 3
    found, (damage,), _ = salvaged(log)
    assert (len(found), damage.size) == (BATCHES, 3)


def test_runs_are_of_a_moderate_size(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 10, value=b"v" * 20_000)
    sizes: list[int] = []

    def take(run: bytes) -> Steps[None]:
        sizes.append(len(run))
        yield

    for _ in log.salvage(0, take, pytest.fail):
        pass
    assert len(sizes) == 3
    assert max(sizes) < salvage.RUN_BYTES + 30_000


def test_an_error_of_the_disk_is_a_storage_error(log: Log) -> None:
    path_of(log).unlink()
    log.segments.first.log.close()
    with pytest.raises(KafkaStorageError):
        salvaged(log)
