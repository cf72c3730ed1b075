"""The loops of compaction, interpreted and compiled."""

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.records import compact
from kafkapy.records.batch import HEADER_SIZE, read_header
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.records.varint import write_varint

from .conftest import module_as

SLOTS = 64


@pytest.fixture(params=["interpreted", "compiled"], scope="module")
def either(request: pytest.FixtureRequest) -> ModuleType:
    return module(request.param)


def module(kind: str) -> ModuleType:
    return module_as("compact", kind)


def body(listed: list[Record], base_offset: int = 0) -> bytes:
    return encode_batch(listed, base_offset=base_offset, keep_offsets=True)[HEADER_SIZE:]


def tables(slots: int = SLOTS, most: int | None = None) -> tuple[memoryview, memoryview]:
    state = memoryview(bytearray(8 * compact.STATE_WORDS)).cast("q")
    state[compact.MOST_ENTRIES] = slots - 1 if most is None else most
    state[compact.LATEST] = -1
    return memoryview(bytearray(24 * slots)).cast("q"), state


def listed(*keys: bytes | None, start: int = 0, value: bytes | None = b"v") -> list[Record]:
    return [Record(key, value, 1000 + place, (), start + place) for place, key in enumerate(keys)]


def test_the_table_knows_the_last_offset_of_each_key(either: ModuleType) -> None:
    table, state = tables()
    content = body(listed(b"a", b"b", None, b"a", b""))
    assert either.put_keys(content, 5, 0, 0, table, state) == len(content)
    assert [either.find(key, table) for key in (b"a", b"b", b"", b"c")] == [3, 1, 4, -1]
    assert (state[compact.ENTRIES], state[compact.LATEST], state[compact.FULL]) == (3, 4, 0)


def test_the_search_for_a_slot_continues_at_the_beginning_of_the_table(either: ModuleType) -> None:
    table, _ = tables(2)
    in_last_slot = [key for key in (b"%d" % at for at in range(200)) if hash(key) % 2 == 1][:2]
    assert [either.put(key, at, table) for at, key in enumerate(in_last_slot)] == [1, 1]
    assert [either.find(key, table) for key in in_last_slot] == [0, 1]


def test_keys_below_the_start_are_left_out(either: ModuleType) -> None:
    table, state = tables()
    either.put_keys(body(listed(b"a", b"b", b"c", start=100), 100), 3, 100, 101, table, state)
    assert [either.find(key, table) for key in (b"a", b"b", b"c")] == [-1, 101, 102]


def test_a_full_table_stops_noting_after_the_last_key_with_room(either: ModuleType) -> None:
    table, state = tables(most=2)
    either.put_keys(body(listed(b"a", b"b", b"a", b"c")), 4, 0, 0, table, state)
    assert (state[compact.FULL], state[compact.LATEST], state[compact.ENTRIES]) == (1, 1, 2)


@pytest.mark.parametrize("slots", [3, 7])
def test_a_crowded_table_keeps_its_keys_apart(either: ModuleType, slots: int) -> None:
    table, _ = tables(slots)
    keys = [b"%d" % number for number in range(slots - 1)]
    assert [either.put(key, place, table) for place, key in enumerate(keys)] == [1] * len(keys)
    assert [either.put(key, place + 10, table) for place, key in enumerate(keys)] == [0] * len(keys)
    assert [either.find(key, table) for key in keys] == list(range(10, 10 + len(keys)))
    assert either.find(b"missing", table) == -1


def marks_of(
    either: ModuleType, content: bytes, count: int, table: memoryview, state: memoryview, *, retain: bool = True
) -> tuple[int, list[int]]:
    marks = memoryview(bytearray(count))
    return either.mark(content, marks, 0, retain, table, state), list(marks)


def test_only_the_last_record_of_a_key_stays(either: ModuleType) -> None:
    table, state = tables()
    content = body(listed(b"a", b"b", None, b"a", b"c"))
    either.put_keys(content, 5, 0, 0, table, state)
    assert marks_of(either, content, 5, table, state) == (3, [0, 1, 0, 1, 1])
    assert (state[compact.FIRST_DELTA], state[compact.LARGEST_DELTA], state[compact.LAST_DELTA]) == (1, 4, 4)


def test_tombstones_stay_only_with_retain_deletes(either: ModuleType) -> None:
    table, state = tables()
    content = body([*listed(b"a"), *listed(b"a", b"b", start=1, value=None)])
    either.put_keys(content, 3, 0, 0, table, state)
    assert marks_of(either, content, 3, table, state) == (2, [0, 1, 1])
    assert state[compact.TOMBSTONES] == 1
    assert marks_of(either, content, 3, table, state, retain=False) == (0, [0, 0, 0])
    assert state[compact.TOMBSTONES] == 0
    state[compact.LATEST] = 0
    assert marks_of(either, content, 3, table, state) == (2, [0, 1, 1])
    assert state[compact.TOMBSTONES] == 0, "above the latest offset they don't count"


def test_records_above_the_latest_noted_offset_stay(either: ModuleType) -> None:
    table, state = tables(most=2)
    content = body([*listed(b"a", b"a", b"b"), *listed(b"c", start=3, value=None), *listed(None, start=4)])
    either.put_keys(content, 5, 0, 0, table, state)
    assert marks_of(either, content, 5, table, state, retain=False) == (4, [0, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("content", "count", "fault"),
    [
        (b"", 1, -1), (b"\x80", 1, -1), (b"\x00", 1, -1), (b"\x0c\x00\x00", 1, -1), (b"\x02\x00", 1, -3),
        (b"\x08\x00\x00\x00\x0a", 1, -3), (b"\x06\x00\x00\x80", 1, -3), (b"\x18\x00" + b"\x80" * 11, 1, -3),
    ],
)  # fmt: skip
def test_malformed_records_are_a_fault(either: ModuleType, content: bytes, count: int, fault: int) -> None:
    table, state = tables()
    assert either.put_keys(content, count, 0, 0, table, state) == fault
    assert marks_of(either, content, count, table, state)[0] == fault


def test_a_record_that_ends_before_its_value_stays(either: ModuleType) -> None:
    table, state = tables()
    state[compact.LATEST] = 9
    assert marks_of(either, b"\x08\x00\x00\x00\x00", 1, table, state, retain=False) == (1, [1])
    assert marks_of(either, b"\x0a\x00\x00\x00\x00\x00\x00", 1, table, state, retain=False)[0] == -2


KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"key" * 50]))
TIMES = st.integers(-(2**62), 2**62 - 1)  # their difference fits into 64 bits
RECORDS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=200)), TIMES, st.booleans()), max_size=8)


@pytest.mark.parametrize("kind", ["interpreted", "compiled"])
@settings(max_examples=60, deadline=None)
@given(RECORDS, st.booleans())
def test_the_rewritten_records_are_the_marked_ones(
    kind: str, fields: list[tuple[bytes | None, bytes | None, int, bool]], stamped: bool
) -> None:
    either = module(kind)
    records = [
        Record(key, value, time, (("h", b"x"), ("", None)) if headed else (), place)
        for place, (key, value, time, headed) in enumerate(fields)
    ]  # fmt: skip
    content = body(records)
    table, state = tables()
    assert either.put_keys(content, len(records), 0, 0, table, state) == len(content)
    state[compact.LATEST] = len(records)
    count, marks = marks_of(either, content, len(records), table, state, retain=False)
    last = {record.key: record.offset for record in records}
    kept = [r for r in records if r.key is not None and r.value is not None and last[r.key] == r.offset]
    assert [record.offset for record, mark in zip(records, marks, strict=True) if mark] == [r.offset for r in kept]
    assert count == len(kept)
    if kept:
        first = records[0].timestamp
        assert state[compact.FIRST_DELTA] == kept[0].timestamp - first
        assert state[compact.LARGEST_DELTA] == max(r.timestamp for r in kept) - first
        assert state[compact.SMALLEST_DELTA] == min(r.timestamp for r in kept) - first
        assert state[compact.LAST_DELTA] == kept[-1].offset
    output = memoryview(bytearray(len(content) + 10 * len(records)))
    shift = 0 if stamped else state[compact.FIRST_DELTA]
    size = either.rewrite(content, memoryview(bytearray(marks)), output, shift, stamped)
    expected = [r._replace(timestamp=7) for r in kept] if stamped else kept
    assert bytes(output[:size]) == body(expected)


def test_longer_encodings_of_a_number_are_copied(either: ModuleType) -> None:
    """Offset deltas and lengths are copied byte by byte, also if they are longer than necessary; the key is found."""
    record = bytearray(b"\x00\x00\x80\x00")  # attributes, timestamp 0, offset 0 in two bytes
    for length, field in ((1, b"k"), (1, b"v")):
        write_varint(record, length)
        record += field
    record += b"\x00"
    content = bytes([len(record) * 2]) + bytes(record)
    table, state = tables()
    assert either.put_keys(content, 1, 5, 0, table, state) == len(content)
    assert either.find(b"k", table) == 5
    output = memoryview(bytearray(len(content) + 10))
    assert either.rewrite(content, memoryview(b"\x01"), output, 0, False) == len(content)
    assert bytes(output[: len(content)]) == content


@pytest.mark.parametrize("later", [63, 64, 8192, 2**62])
def test_timestamps_far_from_the_first_take_as_many_bytes_as_they_need(either: ModuleType, later: int) -> None:
    records = [Record(b"a", b"v", 0, (), 0), Record(b"b", b"v", later, (), 1)]
    content = body(records)
    output = memoryview(bytearray(len(content) + 20))
    size = either.rewrite(content, memoryview(b"\x01\x01"), output, 0, False)
    assert bytes(output[:size]) == content


@pytest.mark.parametrize("shift", [-(2**62), -1, 0, 5, 2**62])
def test_timestamps_of_stamped_batches_count_from_what_the_caller_says(either: ModuleType, shift: int) -> None:
    content = body([Record(b"a", b"v", 3, (), 0), Record(b"b", b"v", 9, (), 1)])
    output = memoryview(bytearray(len(content) + 20))
    size = either.rewrite(content, memoryview(b"\x01\x01"), output, shift, True)
    header = read_header(encode_batch(listed(b"a", b"b")))._replace(base_timestamp=shift, size=HEADER_SIZE + size)
    again = read_records(bytes(HEADER_SIZE) + bytes(output[:size]), header)
    assert [record.timestamp for record in again] == [0, 0]


def test_a_batch_of_rewritten_records_can_be_read(either: ModuleType) -> None:
    batch = encode_batch(listed(b"a", b"b", b"c"))
    output = memoryview(bytearray(1000))
    size = either.rewrite(batch[HEADER_SIZE:], memoryview(b"\x00\x01\x01"), output, 1, False)
    header = read_header(batch)._replace(base_timestamp=1001, record_count=2, size=HEADER_SIZE + size)
    again = read_records(bytes(batch[:HEADER_SIZE]) + bytes(output[:size]), header)
    assert [(record.offset, record.key, record.timestamp) for record in again] == [(1, b"b", 1001), (2, b"c", 1002)]
