"""Checks that hold for a log at any moment, however its indexes and its state in memory were made."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kafkapy.records.batch import MAGIC, crc_is_valid
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.producer_state import BATCHES_TO_KEEP, ProducerEntry
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.recovery.recovery import load
from kafkapy.testing.clock import ManualClock
from kafkapy.types import NO_EPOCH, NO_OFFSET

if TYPE_CHECKING:
    from tests.simulation.model import Stored


def check_indexes(log: Log) -> None:
    """Every index entry is true."""
    for segment in log.segments:
        check_segment(segment)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == sorted(set(bases))
    assert bases[0] <= log.log_start_offset


def check_segment(segment: Segment) -> None:
    """The offset index has batches; no record before a time index's entry has a later timestamp; CRCs are right."""
    batches = {}
    largest: list[tuple[int, int]] = []  # last offset, largest timestamp up to and with it
    top = -1
    for position, header, content in segment.batches(0, segment.size):
        assert crc_is_valid(content, 0, header), (segment.log.path, position)
        assert header.base_offset >= segment.base_offset
        batches[position] = header
        top = max(top, header.max_timestamp)
        largest.append((header.last_offset, top))
    index = segment.offset_index
    entries = [index.entry(slot) for slot in range(index.entries)]
    assert [entry[0] for entry in entries] == sorted({entry[0] for entry in entries})
    for relative_offset, position in entries:
        # The entry of an append of several batches has its last offset and its first byte.
        assert position in batches, (segment.log.path, position)
        assert batches[position].base_offset <= segment.base_offset + relative_offset
    times = [segment.time_index.entry(slot) for slot in range(segment.time_index.entries)]
    assert [entry[0] for entry in times] == sorted({entry[0] for entry in times})
    for timestamp, relative_offset in times:
        offset = segment.base_offset + relative_offset
        before = [until for last_offset, until in largest if last_offset < offset]
        assert not before or before[-1] <= timestamp, (segment.log.path, timestamp, offset)
    assert segment.max_timestamp >= top, (segment.log.path, segment.max_timestamp, top)


def _remembered(entry: ProducerEntry, *, is_compacted: bool) -> tuple[object, ...]:
    """The part of a producer's state that a snapshot keeps, and after compaction the part that this must keep."""
    last = entry.batches[-1][:3] if entry.batches else None
    if is_compacted:
        return entry.producer_epoch if last else None, entry.current_txn_first_offset, last
    return entry.producer_epoch, entry.coordinator_epoch, entry.current_txn_first_offset, entry.last_timestamp, last


def check_against_rebuild(log: Log, *, has_lost_beginning: bool, is_compacted: bool) -> None:
    """A log that is opened from the ``.log`` files alone, in another folder, is the same."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "orders-0"
        directory.mkdir()
        for segment in log.segments:
            path = Path(segment.log.path)
            # The disk may have refused a write and the cut after it: then there are bytes after the last batch.
            (directory / f"{segment.base_offset:020d}.log").write_bytes(path.read_bytes()[: segment.size])
        again = Log(log.topic_partition, str(directory), log.config, Storage(ManualClock(log.storage.clock.now_ms())))
        # With kafkapy.flush=ack a gap above the recovery point ends a log that is not compacted. This one's is higher.
        load(again, Checkpointed(False, 0, log.log_start_offset, log.high_watermark, was_compacted=True))
        try:
            _compare(log, again)
            if not has_lost_beginning and not log.log_start_offset:
                _compare_producers(log, again, is_compacted=is_compacted)
        finally:
            again.release()


def _compare(log: Log, again: Log) -> None:
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)
    assert [(each.base_offset, each.size) for each in again.segments] == [
        (each.base_offset, each.size) for each in log.segments
    ]


def _compare_producers(log: Log, again: Log, *, is_compacted: bool) -> None:
    known, replayed = (
        {
            producer: _remembered(entry, is_compacted=is_compacted)
            for producer, entry in each.producer_state.producers.items()
            if entry.batches or not is_compacted
        }
        for each in (log, again)
    )
    assert known == replayed
    aborted, seen = ([list(segment.transaction_index) for segment in each.segments] for each in (log, again))
    if not is_compacted:
        assert aborted == seen
    for of_segment, seen_in_segment in zip(aborted, seen, strict=True):
        # A marker may stay longer than the records that it has aborted.
        markers = {(entry.producer_id, entry.last_offset) for entry in seen_in_segment}
        assert {(entry.producer_id, entry.last_offset) for entry in of_segment} <= markers


def check_memory(log: Log, *, has_old_formats: bool) -> None:
    """Check the order of the offsets, the leader epochs and the open transactions."""
    assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark
    assert log.recovery_point <= log.log_end_offset
    entries = log.leader_epochs.entries
    assert [entry.epoch for entry in entries] == sorted({entry.epoch for entry in entries})
    assert [entry.start_offset for entry in entries] == sorted({entry.start_offset for entry in entries})
    for segment in log.segments:
        for _, header, _ in segment.batches(0, segment.size):
            if header.last_offset >= log.log_start_offset:
                offset = max(header.base_offset, log.log_start_offset)
                epoch = log.leader_epochs.epoch_for(offset)
                is_forgotten = has_old_formats and (epoch == NO_EPOCH or header.magic < MAGIC)
                assert is_forgotten or epoch == header.partition_leader_epoch, (header, entries)
    open_first = [
        entry.current_txn_first_offset
        for entry in log.producer_state.producers.values()
        if entry.current_txn_first_offset != NO_OFFSET
    ]
    unstable = log.producer_state.first_unstable_offset
    if open_first:
        assert unstable is not None
        assert unstable <= min(open_first)


def check_resent(log: Log, batches: "list[Stored]") -> None:
    """A producer without responses to its last five batches sends them again: each is a duplicate at its offset."""
    for producer_id, entry in log.producer_state.producers.items():
        sent = [
            each.header
            for each in batches
            if each.header.producer_id == producer_id
            and each.header.producer_epoch == entry.producer_epoch
            and not each.header.is_control
            and each.header.base_offset >= log.log_start_offset
        ]
        following = 0
        for header in sent[-1 : -BATCHES_TO_KEEP - 1 : -1]:
            if following and header.last_sequence + 1 != following:
                break  # compaction has removed batches, or the producer has a new epoch
            following = header.base_sequence
            if [each.base_sequence for each in sent].count(following) > 1:
                break  # a new epoch
            known = log.producer_state.check(header, from_client=True)
            assert known is not None, (header, entry.batches)
            assert known.first_offset == header.base_offset
