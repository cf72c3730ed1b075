"""The records that a compaction keeps: by single rules, and by a model of random logs."""

import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.storage.batches import PARTITION, START_MS, marker
from kafkapy.platform.files import Descriptor, Files
from kafkapy.records.batch import read_header
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_legacy
from kafkapy.storage.compaction.compaction import Compaction, CompactionRequest, grouped
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import AppendedRange
from tests.storage.compacting import (
    COMPACT,
    DAY_MS,
    World,
    append,
    close_segment,
    finished,
    names_of,
    records_in,
    values_in,
)
from tests.storage.support import contents

BIG = replace(COMPACT, segment_bytes=100_000)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield (world := World(tmp_path))
    world.cleaner.stop()


def offsets(log: Log) -> list[int]:
    return [record.offset for record in records_in(log)]


def horizons(log: Log) -> list[int | None]:
    return [
        header.delete_horizon_ms
        for segment in log.segments
        for _, header, _ in segment.batches(0, segment.size)
    ]  # fmt: skip


def test_the_newest_record_of_each_key_stays_at_its_offset(world: World) -> None:
    log = world.log(BIG)
    append(log, (b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"a", b"4"))
    append(log, (b"c", b"5"), (b"b", None))
    close_segment(log)
    append(log, (b"a", b"6"))
    world.compact()
    assert values_in(log) == {3: (b"a", b"4"), 4: (b"c", b"5"), 5: (b"b", None), 6: (b"a", b"6")}
    assert log.log_end_offset == 7
    assert log.log_start_offset == 0


def test_segments_that_fit_become_one(world: World) -> None:
    log = world.log(replace(COMPACT, segment_bytes=900))
    for number in range(6):
        append(log, (b"k%d" % (number % 4), b"v" * 200))
        close_segment(log)
    before = len(log.segments)
    world.compact()
    assert offsets(log) == [2, 3, 4, 5]
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert before == 7
    assert not names_of(log, ".cleaned", ".swap")


def test_tombstones_are_removed_after_their_retention(world: World) -> None:
    log = world.log(replace(BIG, delete_retention_ms=60_000))
    append(log, (b"a", b"1"), (b"b", b"2"))
    append(log, (b"a", None))
    close_segment(log, age_ms=3 * DAY_MS)
    world.compact()
    horizon_ms = world.pool.requests[0]["now_ms"] + 60_000
    assert START_MS + 60_000 <= horizon_ms <= world.clock.now_ms() + 60_000
    assert offsets(log) == [1, 2]
    assert horizons(log) == [None, horizon_ms], "it counts from the first compaction, however old the record is"
    world.clock.advance(horizon_ms - world.clock.now_ms() - 1001)
    append(log, (b"c", b"3"))
    close_segment(log)
    world.compact()
    assert offsets(log) == [1, 2, 3]
    assert horizons(log) == [None, horizon_ms, None]
    world.clock.advance(1)
    append(log, (b"d", b"4"))
    close_segment(log)
    world.compact()
    assert offsets(log) == [1, 3, 4]


def test_tombstones_of_message_sets_go_by_the_age_of_their_segment(world: World) -> None:
    log = world.log(replace(BIG, delete_retention_ms=DAY_MS))
    sets = (Record(b"a", b"1", START_MS, (), 0), Record(b"a", None, START_MS, (), 1))
    log.append_as_follower(encode_legacy(sets, 1))
    log.update_high_watermark(2)
    close_segment(log, age_ms=3 * DAY_MS)
    world.compact()
    assert offsets(log) == [1], "it stays in a part that was dirty until now"
    append(log, (b"c", b"3"))
    close_segment(log, age_ms=2 * DAY_MS)
    world.compact()
    assert offsets(log) == [1, 2], "the clean part is no older than the tombstone's own"
    append(log, (b"d", b"4"))
    close_segment(log, age_ms=0)
    world.compact()
    assert offsets(log) == [1, 2, 3], "files are as old as what they were made from"
    append(log, (b"e", b"5"))
    log.update_config(replace(BIG, delete_retention_ms=0))
    close_segment(log)
    world.compact()
    assert offsets(log) == [2, 3, 4]


@pytest.mark.parametrize("magic", [1, 2])
def test_a_reader_comes_to_the_end_of_a_log_of_which_all_is_removed(world: World, magic: int) -> None:
    """A topic that had records without keys is compacted, and its active segment is empty."""
    log = world.log(BIG)
    append(log, (b"a", b"1"))
    append(log, (None, b"2"), (None, b"3"))
    if magic < 2:
        log.append_as_follower(encode_legacy([Record(None, b"4", START_MS, (), 3)], magic))
        log.update_high_watermark(4)
    end_offset = log.log_end_offset
    close_segment(log)
    world.compact()
    assert values_in(log) == {0: (b"a", b"1")}
    headers = [header for segment in log.segments for _, header, _ in segment.batches(0, segment.size)]
    assert [(header.record_count, header.next_offset) for header in headers] == [(1, 1), (0, end_offset)]
    assert log.has_batch_from(1)
    append(log, (b"b", b"5"))
    close_segment(log)
    world.compact()
    headers = [header for segment in log.segments for _, header, _ in segment.batches(0, segment.size)]
    assert [header.record_count for header in headers] == [1, 1], "the empty one is not needed any more"
    world.cleaner.stop()
    world.logs.shutdown()
    again = World(world.directory, BIG)
    assert again.log(BIG).log_end_offset == end_offset + 1


def transactional(log: Log, sequence: int, key: bytes, producer_id: int = 7) -> None:
    append(log, (key, b"t"), producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def end(log: Log, *, commit: bool, producer_id: int = 7) -> None:
    log.append_as_leader(marker(commit=commit, producer_id=producer_id), 0, from_client=False)
    log.update_high_watermark(log.log_end_offset)


def test_aborted_records_are_removed_and_committed_ones_stay(world: World) -> None:
    log = world.log(BIG)
    append(log, (b"a", b"1"))
    transactional(log, 0, b"a")
    end(log, commit=False)
    transactional(log, 1, b"b")
    end(log, commit=True)
    transactional(log, 2, b"c")
    end(log, commit=False)
    close_segment(log)
    world.compact()
    assert [(record.offset, record.key) for record in records_in(log) if record.value == b"t"] == [(3, b"b")]
    assert offsets(log) == [0, 2, 3, 4, 6], "markers of what was there a moment ago stay"
    empty = [h for s in log.segments for _, h, _ in s.batches(0, s.size) if h.record_count == 0]
    assert [(header.base_offset, header.last_sequence) for header in empty] == [(5, 2)], "the producer's last batch"
    assert log.aborted_transactions(0, 7) == [(7, 1), (7, 5)]
    append(log, (b"d", b"1"))
    close_segment(log)
    world.compact()
    assert offsets(log) == [0, 2, 3, 4, 6, 7], "a marker gets its delete horizon when its data are gone"
    assert log.aborted_transactions(0, 7) == [(7, 5)], "of the other nothing is left to skip"
    append(log, (b"e", b"1"))
    close_segment(log)
    world.compact()
    assert offsets(log) == [0, 3, 4, 6, 7, 8], "and goes when that is reached"
    assert log.aborted_transactions(0, 7) == [(7, 5)]


def test_an_abort_that_comes_in_the_active_segment_is_known(world: World) -> None:
    log = world.log(BIG)
    append(log, (b"a", b"1"))
    transactional(log, 0, b"a")
    close_segment(log)
    end(log, commit=False)
    transactional(log, 1, b"z")
    end(log, commit=True)
    world.compact()
    assert [request["later_segments"] for request in world.pool.requests] == [[2]]
    assert values_in(log)[0] == (b"a", b"1")
    assert 1 not in values_in(log)


def test_an_abort_below_the_log_start_is_ignored(world: World) -> None:
    log = world.log(BIG)
    transactional(log, 0, b"a")
    end(log, commit=False)
    append(log, (b"b", b"1"))
    transactional(log, 1, b"c")
    end(log, commit=False)
    append(log, (b"b", b"2"))
    log.advance_log_start_offset(2)
    close_segment(log)
    world.compact()
    assert [(record.offset, record.key) for record in records_in(log) if record.offset >= 2][-1] == (5, b"b")
    assert 3 not in values_in(log), "an abort above it does"
    assert log.aborted_transactions(2, 6) == [(7, 3)]


def test_open_transactions_are_not_touched(world: World) -> None:
    log = world.log(BIG)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    close_segment(log)
    transactional(log, 0, b"a")
    close_segment(log)
    append(log, (b"a", b"3"))
    world.compact()
    assert offsets(log) == [1, 2, 3]


def test_a_full_map_cleans_up_to_its_last_key(world: World) -> None:
    log = world.log(BIG)
    world.cleaner.settings = world.cleaner.settings._replace(map_bytes=24 * 10, load_factor=0.5)
    for first in range(0, 40, 4):
        append(log, *((b"k%d" % (number % 8), b"%d" % number) for number in range(first, first + 4)))
    close_segment(log)
    world.compact()
    assert all(values_in(log)[offset] == (b"k%d" % (offset % 8), b"%d" % offset) for offset in values_in(log))
    assert world.pool.requests[0]["first_dirty_offset"] == 0
    assert world.pool.requests[1]["first_dirty_offset"] == 5, "the next one begins where there was no more room"
    assert offsets(log)[-5:] == [35, 36, 37, 38, 39]
    assert len(offsets(log)) < 16


def test_chunks_grow_for_large_batches(world: World) -> None:
    log = world.log(BIG)
    world.cleaner.settings = world.cleaner.settings._replace(chunk_bytes=100)
    append(log, (b"a", b"x" * 5000))
    append(log, (b"a", b"y" * 900), (b"b", b"z"))
    close_segment(log)
    world.compact()
    assert offsets(log) == [1, 2]


def test_message_sets_are_compacted(world: World) -> None:
    log = world.log(BIG)
    segment = log.segments.active
    for first, magic, codec in ((0, 0, 0), (3, 1, 1), (6, 0, 1)):
        records = [Record(b"k%d" % (n % 2), b"%d" % (first + n), START_MS, (), first + n) for n in range(3)]
        content = encode_legacy(records, magic, compression=codec)
        segment.append(content, AppendedRange(first, first + 2, START_MS, first + 2, len(content)), 4096)
    log.log_end_offset = 9
    log.update_high_watermark(9)
    close_segment(log)
    world.compact()
    assert values_in(log) == {7: (b"k1", b"7"), 8: (b"k0", b"8")}


def test_a_full_map_leaves_the_rest_of_a_message_set(world: World) -> None:
    log = world.log(BIG)
    world.cleaner.settings = world.cleaner.settings._replace(map_bytes=24 * 3, load_factor=1.0)
    records = [Record(key, b"v", START_MS, (), place) for place, key in enumerate([b"a", None, b"a", b"b", b"c"])]
    content = encode_legacy(records, 1, compression=1)
    log.segments.active.append(content, AppendedRange(0, 4, START_MS, 4, len(content)), 4096)
    log.log_end_offset = 5
    log.update_high_watermark(5)
    close_segment(log)
    world.cleaner.start()
    world.clock.advance(0)
    assert world.pool.requests[0]["first_dirty_offset"] == 0
    world.run_posted()
    assert offsets(log) == [2, 3, 4]


@pytest.mark.parametrize("damage", ["cut", "crc", "offsets", "length"])
def test_a_damaged_log_is_not_compacted(world: World, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    log = world.log(BIG)
    append(log, (b"a", b"1" * 300))
    append(log, (b"a", b"2"))
    close_segment(log)
    path = Path(log.segments.first.log.path)
    content = bytearray(path.read_bytes())
    if damage == "offsets":
        content[:8] = (2**31 - 1).to_bytes(8, "big")
        second = read_header(content).size
        content[second : second + 8] = (2**31).to_bytes(8, "big")
    if damage == "length":
        content[8:12] = (2**30).to_bytes(4, "big")
    path.write_bytes(content[:-5] if damage == "cut" else content)
    if damage == "crc":
        path.write_bytes(content[:-5] + b"X" + content[-4:])
    before = contents(Path(log.directory))
    world.compact()
    assert contents(Path(log.directory)) == before
    assert "left alone until the next start" in caplog.text
    world.compact()
    assert len(world.pool.requests) == 1
    assert world.cleaner.uncleanable == {PARTITION: log}


class FakeIndex:
    class ENTRY:
        size = 8

    def __init__(self, entries: int) -> None:
        self.entries = entries


class FakeSegment:
    def __init__(self, base_offset: int, size: int, entries: int = 0, times: int = 0) -> None:
        self.base_offset = base_offset
        self.size = size
        self.offset_index = FakeIndex(entries)
        self.time_index = FakeIndex(times)


@pytest.mark.parametrize(
    ("segments", "groups"),
    [
        ([], []),
        ([(0, 50), (10, 50), (20, 1)], [[0, 10], [20]]),
        ([(0, 150), (10, 50), (20, 50)], [[0], [10, 20]]),
        ([(0, 1, 3, 0), (10, 1, 2, 0), (20, 1, 1, 0)], [[0], [10, 20]]),
        ([(0, 1, 0, 3), (10, 1, 0, 2), (20, 1, 0, 1)], [[0], [10, 20]]),
        ([(0, 1), (10, 1), (2**31, 1), (2**31 + 5, 1)], [[0, 10], [2**31, 2**31 + 5]]),
        ([(0, 1), (10, 1), (2**31, 1)], [[0, 10], [2**31]]),
        ([(0, 1), (2**31, 0)], [[0, 2**31]]),
    ],
)
def test_segments_are_grouped_by_size_index_and_offsets(segments: list[Any], groups: list[list[int]]) -> None:
    end = segments[-1][0] + 1 if segments else 0
    request = CompactionRequest("", [], [], 0, end, 0, [], 100, 32, 0, 0, 0, 0, 0, 0.9, 1, 1.0)
    found = grouped([FakeSegment(*fields) for fields in segments], request)  # type: ignore[misc]  # a stand-in for Segment
    assert [[segment.base_offset for segment in group] for group in found] == groups


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", None])
PAIRS = st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), PAIRS, st.integers(0, 4)),
        st.tuples(st.just("transaction"), PAIRS, st.booleans()),
        st.tuples(st.just("roll"), st.just([]), st.just(0)),
        st.tuples(st.just("compact"), st.just([]), st.just(0)),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_random_logs_against_a_model(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """Below the dirty end: the last value of each key; above: everything. Offsets never change, nothing comes back."""
    world = World(tmp_path_factory.mktemp("model"), replace(COMPACT, segment_bytes=2000))
    log = world.log(replace(COMPACT, segment_bytes=2000))
    written: dict[int, tuple[bytes | None, bytes | None]] = {}
    sequence = 0
    for kind, pairs, extra in steps:
        listed = [(key, None if gone else b"v%d" % place) for place, (key, gone) in enumerate(pairs)]
        if kind == "roll":
            close_segment(log)
        elif kind == "compact":
            world.compact()
        elif kind == "plain":
            first = append(log, *listed, compression=extra)
            written.update({first + place: pair for place, pair in enumerate(listed)})
        else:
            fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
            first = append(log, *listed, **fields)
            sequence += len(listed)
            if extra:
                written.update({first + place: pair for place, pair in enumerate(listed)})
            control = ControlType.COMMIT if extra else ControlType.ABORT
            log.append_as_leader(bytearray(encode_marker(control, Marker(7, 0, 0), START_MS)), 0, from_client=False)
            log.update_high_watermark(log.log_end_offset)
    close_segment(log)
    append(log, (b"last", b"v"))
    world.compact()
    clean_to = world.cleaner._clean_to.get(PARTITION, 0)
    newest = {key: offset for offset, (key, _) in written.items() if offset < clean_to}
    must = {o: pair for o, pair in written.items() if o >= clean_to or (newest[pair[0]] == o and None not in pair)}
    may = {o: pair for o, pair in written.items() if o >= clean_to or (newest[pair[0]] == o and pair[0] is not None)}
    found = {o: pair for o, pair in values_in(log).items() if pair[0] not in (b"\0\0\0\0", b"\0\0\0\1", b"last")}
    assert must.items() <= found.items() <= may.items()
    assert not log.producer_state.producers or log.producer_state.producers[7].last_sequence == sequence - 1
    world.cleaner.stop()
    world.logs.shutdown()
    again = World(world.directory, replace(COMPACT, segment_bytes=2000))
    reopened = again.log(replace(COMPACT, segment_bytes=2000))
    assert {o: pair for o, pair in values_in(reopened).items() if o in written} == found
    assert reopened.log_end_offset == log.log_end_offset


class Reads(Files):
    """Remembers the largest read, and which files are open."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        self.largest = max(self.largest, size)
        return super().read_at(descriptor, size, position)


def test_a_damaged_length_does_not_read_the_segment_into_memory(world: World) -> None:
    log = world.log(BIG)
    for _ in range(20):
        append(log, (b"a", b"x" * 4000))
    close_segment(log)
    world.pool.is_held = True
    world.compact()
    path = Path(log.segments.first.log.path)
    content = bytearray(path.read_bytes())
    content[8:12] = (2**30).to_bytes(4, "big")
    path.write_bytes(content)
    files = Reads()
    arguments = {**world.pool.requests[0], "chunk_bytes": 100, "max_message_bytes": 5000}
    with pytest.raises(CorruptRecordError, match="holds a batch of 1073741836 bytes, more than are left"):
        finished(Compaction(CompactionRequest(**arguments), world.pool.jobs[0].context, files).run())
    assert files.largest == 5000


def test_a_batch_larger_than_the_topic_allows_now_is_read(world: World) -> None:
    log = world.log(BIG)
    append(log, (b"a", b"x" * 5000))
    append(log, (b"a", b"y"))
    close_segment(log)
    world.pool.is_held = True
    world.compact()
    arguments = {**world.pool.requests[0], "chunk_bytes": 7, "max_message_bytes": 0}
    files = Reads()
    facts = finished(Compaction(CompactionRequest(**arguments), world.pool.jobs[0].context, files).run())
    assert (facts["end_offset"], facts["records_kept"]) == (2, 1)
    assert files.largest == log.segments.first.batch_size(0)


def test_a_segment_that_was_copied_is_not_kept_open(world: World) -> None:
    """Its bytes would stay on the disk as long as the worker runs."""
    log = world.log(replace(COMPACT, segment_bytes=900))
    for number in range(6):
        append(log, (b"k%d" % (number % 4), b"v" * 200))
        close_segment(log)
    world.pool.is_held = True
    world.compact()
    open_at: list[set[str]] = []

    def look(_facts: object) -> None:
        names = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
        open_at.append({Path(name).name for name in names if name.startswith(log.directory)})

    log.release()
    context = world.pool.jobs[0].context
    context.progress = look  # type: ignore[method-assign,assignment]  # looks in the middle
    finished(Compaction(CompactionRequest(**world.pool.requests[0]), context).run())
    look({})
    assert len(open_at) == 3
    assert not open_at[0] & {f"{base:020d}.log" for base in (0, 1, 2)}
    assert open_at[-1] == set()


def test_a_compaction_takes_the_memory_of_the_map_and_two_buffers(tmp_path: Path) -> None:
    """However many keys there are: those without room are compacted the next time."""
    map_bytes, chunk_bytes = 1_080_000, 16_384
    sizes = {"log.cleaner.dedupe.buffer.size": str(map_bytes), "log.cleaner.io.buffer.size": str(2 * chunk_bytes)}
    world = World(tmp_path, **sizes)
    world.pool.is_held = True
    log = world.log(replace(COMPACT, segment_bytes=500_000))
    for start in range(0, 70_000, 500):
        append(log, *[(b"%d" % number, b"v") for number in range(start, start + 500)])
    world.compact()
    (request,) = world.pool.requests
    assert (request["map_bytes"], request["chunk_bytes"]) == (map_bytes, chunk_bytes)
    tracemalloc.start()
    try:
        world.pool.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert world.pool.jobs[0].future.result()["keys"] == int(0.9 * map_bytes / 24)
    assert map_bytes < peak < map_bytes + 12 * chunk_bytes
    world.cleaner.stop()
