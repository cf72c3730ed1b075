from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.files import Files
from kafkapy.storage.log.durability import Rewriting
from kafkapy.storage.log.log import Log, Storage
from kafkapy.testing.clock import ManualClock
from tests.storage.support import contents, fill, open_log

STEM = "orders-0/00000000000000000000"


class Writes(Files):
    """Counts the bytes that were written."""

    written = 0

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        super().write_at(descriptor, data, position)
        self.written += len(data)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    config = LogConfig(segment_bytes=20 * len(batch(value=b"v" * 100)), index_interval_bytes=0)
    log = open_log(tmp_path, config, storage=Storage(ManualClock(START_MS), Writes()))
    for sequence in range(3):
        log.append_as_leader(produced(sequence, transactional=True), 0)
        log.append_as_leader(marker(commit=False), 0, from_client=False)
    fill(log, 30)
    return log


def _writes(log: Log) -> Writes:
    files = log.storage.files
    assert isinstance(files, Writes)
    return files


def test_everything_is_written_again_as_it_was(log: Log, tmp_path: Path) -> None:
    rewriting = Rewriting(log, log.storage.files, 0, log.log_end_offset)
    before = contents(tmp_path)
    _writes(log).written = 0
    rewriting.run()
    assert contents(tmp_path) == before
    parts = (".log", "index")
    assert _writes(log).written == sum(len(content) for name, content in before.items() if name.endswith(parts))


def test_only_bytes_from_the_offset_on_are_written(log: Log) -> None:
    last = log.log_end_offset - 1
    rewriting = Rewriting(log, log.storage.files, last, log.log_end_offset)
    _writes(log).written = 0
    rewriting.run()
    active = log.segments.active
    indexes = active.offset_index.entries * 8 + active.time_index.entries * 12
    assert _writes(log).written == len(batch(value=b"v" * 100)) + indexes


def test_a_cancelled_rewriting_writes_nothing(log: Log) -> None:
    rewriting = Rewriting(log, log.storage.files, 0, log.log_end_offset)
    rewriting.cancel()
    _writes(log).written = 0
    rewriting.run()
    assert _writes(log).written == 0


@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("way", ["zeros", "shorter", "not whole"])
def test_lost_bytes_raise(log: Log, tmp_path: Path, kind: str, way: str) -> None:
    rewriting = Rewriting(log, log.storage.files, 0, log.log_end_offset)
    path = tmp_path / f"{STEM}{kind}"
    content = path.read_bytes()
    if way == "zeros":
        path.write_bytes(content[: len(content) // 3] + bytes(len(content) - len(content) // 3))
    elif way == "shorter":
        path.write_bytes(content[:-1])
    else:
        path.write_bytes(content[:-7] + b"\xff" * 7)
        if kind in {".index", ".timeindex", ".txnindex"}:
            path.write_bytes(content[:-12] + content[:12])
    with pytest.raises(OSError, match="can't be read any more"):
        rewriting.run()


def test_batches_out_of_order_are_noticed(log: Log, tmp_path: Path) -> None:
    first = log.segments.first
    header = next(header for _, header, _ in first.batches(0, first.size))
    rewriting = Rewriting(log, log.storage.files, 0, log.log_end_offset)
    path = tmp_path / f"{STEM}.log"
    content = bytearray(path.read_bytes())
    content[0:8] = (7).to_bytes(8)
    path.write_bytes(content)
    assert header.base_offset == 0
    with pytest.raises(OSError, match="can't be read any more"):
        rewriting.run()


def test_an_index_that_was_never_written_whole_is_noticed(log: Log, tmp_path: Path) -> None:
    with (tmp_path / f"{STEM}.txnindex").open("ab") as file:
        file.write(b"1")
    with pytest.raises(OSError, match="can't be read any more"):
        Rewriting(log, log.storage.files, 0, log.log_end_offset).run()


def test_zeros_before_the_first_batch_to_write_are_noticed(log: Log, tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(OSError, match="can't be read any more"):
        Rewriting(log, log.storage.files, 7, log.log_end_offset)


def test_named_snapshots_and_indexes_of_earlier_segments_are_written_again(log: Log) -> None:
    log.flush()
    first, snapshot = log.segments.first, log.producer_state.snapshot_path(log.producer_state.snapshot_offsets[-1])
    end = log.log_end_offset
    rewriting = Rewriting(
        log, log.storage.files, end, end, [first.time_index.path, snapshot, log.producer_state.snapshot_path(0)]
    )
    _writes(log).written = 0
    rewriting.run()
    files = log.storage.files
    paths = [first.offset_index.path, first.time_index.path, first.transaction_index.path, snapshot]
    active = log.segments.active
    paths += [active.offset_index.path, active.time_index.path]
    assert _writes(log).written == sum(map(files.size, paths))


def test_a_snapshot_that_was_lost_is_noticed(log: Log) -> None:
    path = log.producer_state.snapshot_path(log.producer_state.snapshot_offsets[-1])
    Path(path).write_bytes(bytes(Path(path).stat().st_size))
    with pytest.raises(OSError, match="can't be read any more"):
        Rewriting(log, log.storage.files, log.log_end_offset, log.log_end_offset, [path]).run()
