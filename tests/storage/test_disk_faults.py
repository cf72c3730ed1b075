"""A disk that fails at any one moment: refused batches can be sent again, and no record is lost or doubled."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.config.own_keys import FLUSH_BEFORE_ACK
from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files
from kafkapy.records.batch import assign
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.producer_state import decode_snapshot
from kafkapy.storage.log.retention import delete_old_segments
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.storage.recovery.recovery import load
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.simulation.disk import Fault, SimulatedDisk
from tests.simulation.durable import Survival
from tests.storage.support import Failures, fill, open_log, reopen

BATCHES = 40
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=0)


class FailingFiles(Files):
    """Counts the changes of the disk; the ``fail_at``-th and the next ``times - 1`` fail, a write after half of it."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.fail_at = 0
        self.times = 1

    def _due(self) -> bool:
        self.changes += 1
        return self.fail_at <= self.changes < self.fail_at + self.times

    def _refuse(self) -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        if self._due():
            super().write_at(descriptor, memoryview(data)[: len(data) // 2], position)
            raise self._refuse()
        super().write_at(descriptor, data, position)

    def create(self, path: str) -> None:
        if self._due():
            raise self._refuse()
        super().create(path)

    def rename(self, path: str, target: str) -> None:
        if self._due():
            raise self._refuse()
        super().rename(path, target)

    def sync(self, descriptor: Descriptor) -> None:
        if self._due():
            raise self._refuse()
        super().sync(descriptor)


def _values(log: Log) -> list[tuple[int, bytes | None]]:
    found = []
    for segment in log.segments:
        for _, header, content in segment.batches(0, segment.size):
            found += [(record.offset, record.value) for record in read_records(content, header)]
    return found


def _write_all(log: Log) -> int:
    """Send forty batches as an idempotent producer does, again and again until each is taken; count the refusals."""
    refusals = 0
    for sequence in range(BATCHES):
        for attempt in range(20):
            try:
                result = log.append_as_leader(produced(sequence, value=b"%d" % sequence), 3)
            except KafkaStorageError:
                refusals += 1
                assert log.log_end_offset == sequence
                assert attempt < 19
            else:
                assert result.first_offset == sequence
                break
        log.update_high_watermark(log.log_end_offset)
        assert log.read(sequence, 10_000).records
    return refusals


def _moments() -> Iterator[int]:
    """The numbers of the disk's changes in the scenario, and a few more."""
    return iter(range(1, 130))


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("clean", [True, False])
def test_a_full_disk_at_any_moment_loses_and_doubles_nothing(tmp_path: Path, *, times: int, clean: bool) -> None:
    refusals = 0
    for moment in _moments():
        files = FailingFiles()
        directory = tmp_path / str(moment)
        log = open_log(directory, CONFIG, storage=Storage(ManualClock(START_MS), files))
        files.changes, files.fail_at, files.times = 0, moment, times
        refusals += _write_all(log)
        expected = [(offset, b"%d" % offset) for offset in range(BATCHES)]
        assert _values(log) == expected, moment
        files.fail_at = 0
        if clean:
            log.close()
        again = Log(PARTITION, log.directory, CONFIG, Storage(ManualClock(START_MS)))
        load(again, Checkpointed(clean, log.recovery_point, 0, log.high_watermark))
        assert _values(again) == expected, moment
        assert again.append_as_leader(produced(BATCHES - 1, value=b"again"), 3).duplicate
        assert again.append_as_leader(produced(BATCHES), 3).first_offset == BATCHES
    assert refusals > 40


def test_a_disk_that_can_not_be_read_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    log = open_log(tmp_path, CONFIG, storage=Storage(ManualClock(START_MS), files))
    _write_all(log)

    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "read_at", broken)
    with pytest.raises(KafkaStorageError, match="can't be read"):
        log.read(1, 10_000)
    with pytest.raises(KafkaStorageError, match="can't be read"):
        log.lookup_timestamp(START_MS)


def test_a_new_log_that_the_disk_refuses_is_a_storage_error(tmp_path: Path) -> None:
    files = FailingFiles()
    manager = LogManager([str(tmp_path)], CONFIG, ManualClock(START_MS), storage=Storage(ManualClock(START_MS), files))
    load_logs(manager)
    files.fail_at = files.changes + 1
    with pytest.raises(KafkaStorageError, match="can't be opened"):
        manager.get_or_create(PARTITION)
    assert manager.get(PARTITION) is None
    assert manager.get_or_create(PARTITION).log_end_offset == 0
    manager.shutdown()


def test_a_follower_writes_nothing_if_it_can_not_write_the_epoch(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, CONFIG, storage=Storage(ManualClock(START_MS), disk))
    batch = encode_batch([Record(b"k", b"v", START_MS)], producer_id=7, producer_epoch=0, base_sequence=0)
    disk.fail(Fault(frozenset({"rename"}), code=errno.ENOSPC))
    content = bytearray(batch)
    assign(content, 0, 0, 4)
    with pytest.raises(KafkaStorageError, match="can't be written"):
        log.append_as_follower(content)
    assert (log.log_end_offset, log.producer_state.producers) == (0, {})
    log.append_as_follower(content)
    assert log.leader_epochs.entries == [(4, 0)]


def test_a_log_start_that_can_not_be_written_hides_no_records(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, CONFIG, storage=Storage(ManualClock(START_MS), disk))
    _write_all(log)
    disk.fail(Fault(frozenset({"rename"}), code=errno.EIO))
    with pytest.raises(KafkaStorageError, match="can't be trimmed"):
        log.advance_log_start_offset(5)
    assert log.log_start_offset == 0
    log.advance_log_start_offset(5)
    assert log.log_start_offset == 5


@pytest.mark.parametrize("retention_bytes", [-1, 0])
@pytest.mark.parametrize("crash", [False, True])
def test_trimming_frees_space_on_a_full_disk(tmp_path: Path, *, retention_bytes: int, crash: bool) -> None:
    """By DeleteRecords, and by retention although the active segment can't be rolled; no write succeeds meanwhile."""
    files = FailingFiles()
    config = replace(CONFIG, cleanup_policy=("delete",), retention_bytes=retention_bytes)
    clock = ManualClock(START_MS)
    log = open_log(tmp_path, config, storage=Storage(clock, files))
    _write_all(log)
    files.fail_at, files.times = 1, 10**9
    real_rename = Files.rename
    files.rename = lambda path, target: real_rename(files, path, target)  # type: ignore[method-assign]  # this one works
    active = log.segments.active.base_offset
    if retention_bytes < 0:
        log.advance_log_start_offset(active + 1)
    assert finish(delete_old_segments(log)) == 1
    assert [segment.base_offset for segment in log.segments] == [active]
    assert log.log_start_offset == (active + 1 if retention_bytes < 0 else active)
    assert log.leader_epochs.entries == [(3, log.log_start_offset)]
    clock.advance(60_000)
    assert not list(tmp_path.rglob("*.deleted"))
    files.times = 0
    again = reopen(log, clean=not crash)
    assert again.leader_epochs.entries == [(3, log.log_start_offset)]
    assert "3 0" not in (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text()
    if retention_bytes == 0:
        assert finish(delete_old_segments(again)) == 1
        assert again.log_start_offset == BATCHES


def test_deleting_records_does_not_raise_the_recovery_point(tmp_path: Path) -> None:
    """Apache Kafka raises the recovery point: a start after a power failure would then trust garbage."""
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), disk))
    _write_all(log)
    log.advance_log_start_offset(20)
    assert log.recovery_point == 0


@pytest.mark.parametrize("end", ["roll", "close"])
def test_the_last_entry_of_a_time_index_is_on_the_disk_though_its_records_were_before(tmp_path: Path, end: str) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, LogConfig(), storage=Storage(ManualClock(START_MS), disk))
    _write_all(log)
    log.flush()
    getattr(log, end)()
    disk.cut_power(Survival.NOTHING)
    again = Log(PARTITION, log.directory, LogConfig(), Storage(ManualClock(START_MS)))
    load(again, Checkpointed(False, log.recovery_point, 0, BATCHES))
    assert again.segments.first.max_timestamp == START_MS


@pytest.mark.parametrize("can_be_removed", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_failed_roll_hides_no_later_records(tmp_path: Path, *, clean: bool, can_be_removed: bool) -> None:
    """A small batch still fits into the old segment: its offset is the base of the segment that the disk refused."""
    for after in range(4):
        (tmp_path / str(after)).mkdir()
        disk = SimulatedDisk(str(tmp_path / str(after)))
        log = open_log(
            tmp_path / str(after), LogConfig(segment_bytes=500), storage=Storage(ManualClock(START_MS), disk)
        )
        log.append_as_leader(produced(0, value=b"x" * 200), 0)
        disk.fail(Fault(after=after, code=errno.ENOSPC))
        if not can_be_removed:
            disk.fail(Fault(frozenset({"remove"}), times=9))
        with pytest.raises(KafkaStorageError):
            log.append_as_leader(produced(1, value=b"y" * 300), 0)
        disk.faults = []
        log.append_as_leader(produced(1), 0)
        log.append_as_leader(produced(2), 0)
        assert log.log_end_offset == 3
        again = reopen(log, clean=clean)
        assert [segment.base_offset for segment in again.segments] == [0]
        assert again.log_end_offset == 3
        assert again.append_as_leader(produced(2), 0).duplicate
        again.close()


@pytest.mark.parametrize("clean", [False, True])
def test_epochs_that_a_truncation_on_a_full_disk_has_dropped_do_not_come_back(tmp_path: Path, *, clean: bool) -> None:
    files = FailingFiles()
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), files))
    for epoch in (1, 1, 2, 2):
        log.append_as_leader(batch(), epoch)
    log.flush()
    files.changes, files.fail_at, files.times = 0, 1, 10**9
    log.truncate_to(1)
    files.times = 0
    for _ in range(5):
        log.append_as_follower(encode_batch([Record(b"k", b"v", START_MS)], base_offset=log.log_end_offset,
                                            partition_leader_epoch=1))  # fmt: skip
    log.flush()
    again = reopen(log, clean=clean)
    assert again.leader_epochs.entries == [(1, 0)]


def test_a_clean_start_works_on_a_full_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.leader_epochs.assign(1, 0)
    fill(log, 3)
    empty = Log(TopicPartition("empty", 0), str(tmp_path / "empty-0"), LogConfig(), log.storage)
    load(empty, Checkpointed())
    empty.leader_epochs.assign(1, 0)
    log.close()
    empty.close()
    files = FailingFiles()
    files.fail_at, files.times = 1, 10**9
    for each in (log, empty):
        again = Log(each.topic_partition, each.directory, LogConfig(), Storage(ManualClock(START_MS), files))
        load(again, Checkpointed(True, each.log_end_offset, 0, each.log_end_offset))
        assert again.log_end_offset == each.log_end_offset
        assert again.read(0, 1000) is not None


@pytest.mark.parametrize("after", range(3))
def test_the_last_index_entries_and_the_snapshot_are_written_again_after_a_failed_fsync(
    tmp_path: Path, after: int
) -> None:
    """All its batches were on the disk before; its last index entries and the producers' snapshot were not."""
    disk = SimulatedDisk(str(tmp_path))
    config = LogConfig(flush_messages=1, index_interval_bytes=0)
    log = open_log(tmp_path, config, storage=Storage(ManualClock(START_MS), disk))
    _write_all(log)
    assert log.recovery_point == BATCHES
    disk.fail(Fault(frozenset({"sync"}), after))
    log.roll()
    log.durability.resume()
    disk.cut_power(Survival.NOTHING)
    assert decode_snapshot(disk.read(f"{log.directory}/{BATCHES:020d}.snapshot"))
    again = Log(PARTITION, log.directory, config, Storage(ManualClock(START_MS)))
    load(again, Checkpointed(False, log.recovery_point, 0, BATCHES))
    assert again.segments.first.max_timestamp == START_MS
    assert again.segments.first.offset_index.entries == BATCHES - 1


def test_a_start_writes_again_what_a_refused_fsync_before_it_may_have_lost(tmp_path: Path) -> None:
    """With an fsync before each acknowledgement no batch may be acknowledged after a hole in the log."""
    disk = SimulatedDisk(str(tmp_path))
    config = LogConfig(kafkapy_flush=FLUSH_BEFORE_ACK)
    log = open_log(tmp_path, config, storage=Storage(ManualClock(START_MS), disk))
    disk.fail(Fault(frozenset({"sync"})))
    log.append_as_leader(produced(0), 3)
    assert not log.durability.data_offset
    log.release()
    again = open_log(tmp_path, config, Checkpointed(clean=False), storage=Storage(ManualClock(START_MS), disk))
    again.append_as_leader(produced(1), 3)
    assert again.durability.is_settled(2)
    disk.cut_power(Survival.NOTHING)
    last = open_log(tmp_path, config, Checkpointed(clean=False))
    assert last.log_end_offset == 2


def test_records_are_deleted_although_a_snapshot_can_not_be_removed(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, CONFIG, storage=Storage(ManualClock(START_MS), disk))
    _write_all(log)
    oldest = log.producer_state.snapshot_offsets[0]
    disk.fail(Fault(frozenset({"remove"})))
    log.advance_log_start_offset(BATCHES)
    assert (log.log_start_offset, log.producer_state.snapshot_offsets[0]) == (BATCHES, oldest)
    log.producer_state.log_start_moved(BATCHES)
    assert oldest not in log.producer_state.snapshot_offsets
    assert not disk.exists(log.producer_state.snapshot_path(oldest))


def _refused_beyond_a_gap(log: Log, disk: SimulatedDisk) -> None:
    log.append_as_leader(produced(0), 0)
    far = produced(1)
    assign(far, 0, 2**32, 0)
    disk.fail(Fault(frozenset({"write"}), after=2, code=errno.ENOSPC))  # the time index, the snapshot, the batch
    with pytest.raises(KafkaStorageError):
        log.append_as_follower(far)
    disk.faults = []


def test_a_failed_append_after_a_gap_removes_the_segment_that_it_began(tmp_path: Path) -> None:
    """Otherwise the next batch, within the gap, would be in a segment with a higher base offset."""
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), disk))
    _refused_beyond_a_gap(log, disk)
    assert (len(log.segments), log.recovery_point, log.durability.data_offset) == (1, 1, 1)
    near = produced(1)
    assign(near, 0, 7, 0)
    log.append_as_follower(near)
    log.flush()
    for again in (log, reopen(log)):
        assert _values(again) == [(0, b"v"), (7, b"v")]
        assert again.append_as_leader(produced(1), 0).duplicate


def test_a_segment_after_a_gap_that_can_not_be_removed_stops_writes(tmp_path: Path) -> None:
    failures = []
    disk = SimulatedDisk(str(tmp_path))
    storage = Storage(ManualClock(START_MS), disk, owner=Failures(failures))
    log = open_log(tmp_path, storage=storage)
    disk.fail(Fault(frozenset({"remove"}), times=9))
    _refused_beyond_a_gap(log, disk)
    assert failures == [(log.directory, errno.EIO)]


def test_bytes_that_could_not_be_cut_off_hide_no_later_segment(tmp_path: Path) -> None:
    """A full disk may refuse even a truncation, if its file system copies on write."""
    disk = SimulatedDisk(str(tmp_path), seed=1)
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), disk))
    log.append_as_leader(produced(0), 3)
    disk.fail(Fault(frozenset({"write", "truncate"}), times=2, code=errno.ENOSPC))
    with pytest.raises(KafkaStorageError):
        log.append_as_leader(produced(1, value=b"x" * 1000), 3)
    log.append_as_leader(produced(1), 3)
    assert disk.size(log.segments.active.log.path) > log.segments.active.size
    log.roll()
    log.append_as_leader(produced(2), 3)
    again = reopen(log, clean=False)
    assert _values(again) == [(offset, b"v") for offset in range(3)]
