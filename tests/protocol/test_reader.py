"""Reading primitives: the wire's grammar, and values that are refused before memory is allocated."""

from collections.abc import Callable
from contextlib import nullcontext
from struct import Struct
from typing import Any
from uuid import UUID

import pytest

from kafkapy.protocol.primitives import (
    ZERO_UUID,
    InvalidValue,
    LimitExceeded,
    Message,
    ProtocolError,
    Reader,
    Truncated,
)
from kafkapy.protocol.reader import BYTES_OF_A_SLOT, NUMBERS_AT_ONCE, PIECE_SIZE

Read = Callable[[Reader], Any]

SOME_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")

VALUES: list[tuple[str, Read, Any]] = [
    ("01", Reader.read_bool, True),
    ("00", Reader.read_bool, False),
    ("80", Reader.read_int8, -128),
    ("7f", Reader.read_int8, 127),
    ("8000", Reader.read_int16, -32768),
    ("ffff", Reader.read_uint16, 65535),
    ("fffffffe", Reader.read_int32, -2),
    ("8000000000000000", Reader.read_int64, -(2**63)),
    ("3ff8000000000000", Reader.read_float64, 1.5),
    ("00112233445566778899aabbccddeeff", Reader.read_uuid, SOME_UUID),
    ("00" * 16, Reader.read_uuid, ZERO_UUID),
    ("7f", Reader.read_unsigned_varint, 127),
    ("8001", Reader.read_unsigned_varint, 128),
    ("ffffffff0f", Reader.read_unsigned_varint, 2**32 - 1),
    ("0002c3bc", Reader.read_string, "ü"),
    ("0002c341", Reader.read_string, "\ufffdA"),
    ("ffff", Reader.read_nullable_string, None),
    ("000161", Reader.read_nullable_string, "a"),
    ("03c3bc", Reader.read_compact_string, "ü"),
    ("00", Reader.read_compact_nullable_string, None),
    ("ffffffff0f", Reader.read_compact_nullable_string, None),
    ("0261", Reader.read_compact_nullable_string, "a"),
    ("000000026162", Reader.read_bytes, b"ab"),
    ("ffffffff", Reader.read_nullable_bytes, None),
    ("000000026162", Reader.read_nullable_bytes, b"ab"),
    ("036162", Reader.read_compact_bytes, b"ab"),
    ("00", Reader.read_compact_nullable_bytes, None),
    ("ffffffff0f", Reader.read_compact_nullable_bytes, None),
    ("036162", Reader.read_compact_nullable_bytes, b"ab"),
    ("000000026162", Reader.read_records, b"ab"),
    ("ffffffff", Reader.read_nullable_records, None),
    ("000000026162", Reader.read_nullable_records, b"ab"),
    ("036162", Reader.read_compact_records, b"ab"),
    ("00", Reader.read_compact_nullable_records, None),
    ("ffffffff0f", Reader.read_compact_nullable_records, None),
    ("036162", Reader.read_compact_nullable_records, b"ab"),
    ("00000002", Reader.read_count, 2),
    ("ffffffff", Reader.read_nullable_count, -1),
    ("03", Reader.read_compact_count, 2),
    ("00", Reader.read_compact_nullable_count, -1),
    ("ffffffff0f", Reader.read_compact_nullable_count, -1),
    ("00000001ffffffff", lambda reader: reader.read_numbers("i", 4, 2), [1, -1]),
    ("0001610000", lambda reader: reader.read_strings(2), ["a", ""]),
    ("026101", lambda reader: reader.read_compact_strings(2), ["a", ""]),
    ("00" * 16, lambda reader: reader.read_uuids(1), [ZERO_UUID]),
    ("0205026162090100", Reader.read_unknown_tagged_fields, [(5, b"ab"), (9, b"\x00")]),
    ("00", Reader.read_unknown_tagged_fields, None),
    ("0205000300", lambda reader: reader.read_unknown_tagged_fields(in_any_order=True), [(5, b""), (3, b"")]),
    ("8080808008", Reader.read_unknown_tagged_fields, None),  # negative to Java
    ("ffffffff0f", Reader.read_unknown_tagged_fields, None),
]


@pytest.mark.parametrize(("data", "read", "value"), VALUES, ids=range(len(VALUES)))
def test_values_are_read_whole_and_with_more_bytes_and_refused_when_cut(data: str, read: Read, value: Any) -> None:
    raw = bytes.fromhex(data)
    reader = Reader(raw)
    assert read(reader) == value
    assert reader.remaining == 0
    reader.expect_end()
    longer = Reader(raw + b"\x55")
    assert read(longer) == value
    assert longer.remaining == 1
    with pytest.raises(InvalidValue):
        longer.expect_end()
    for size in range(len(raw)):
        with pytest.raises((Truncated, LimitExceeded)):
            read(Reader(raw[:size]))


@pytest.mark.parametrize(
    ("data", "read", "error"),
    [
        ("ffff", Reader.read_string, InvalidValue),
        ("00", Reader.read_compact_string, InvalidValue),
        ("ffffffff", Reader.read_bytes, InvalidValue),
        ("00", Reader.read_compact_bytes, InvalidValue),
        ("ffffffff", Reader.read_records, InvalidValue),
        ("00", Reader.read_compact_records, InvalidValue),
        ("ffffffff", Reader.read_count, InvalidValue),
        ("00", Reader.read_compact_count, InvalidValue),
        ("ffffffffffff", Reader.read_unsigned_varint, InvalidValue),
        ("818002" + "61" * 40000, Reader.read_compact_string, LimitExceeded),
        ("", lambda reader: reader.read_numbers("q", 8, 2**31 - 1), LimitExceeded),
        ("", lambda reader: reader.read_strings(2**31 - 1), LimitExceeded),
        ("", lambda reader: reader.read_compact_strings(2**31 - 1), LimitExceeded),
        ("", lambda reader: reader.read_uuids(2**31 - 1), LimitExceeded),
        ("", lambda reader: reader.read_structs(Message, 2**31 - 1, 0), LimitExceeded),
        ("0105ff01", Reader.read_unknown_tagged_fields, Truncated),
        ("ffffffff07", Reader.read_unknown_tagged_fields, Truncated),
        ("0205000500", Reader.read_unknown_tagged_fields, InvalidValue),
        ("0205000300", Reader.read_unknown_tagged_fields, InvalidValue),
        ("01808080800800", Reader.read_unknown_tagged_fields, InvalidValue),
    ],
)
def test_malformed_values_are_refused(data: str, read: Read, error: type[ProtocolError]) -> None:
    with pytest.raises(error):
        read(Reader(bytes.fromhex(data)))


def test_the_budget_limits_values() -> None:
    assert Reader(bytes(8), budget=4).read_numbers("h", 2, 4) == [0, 0, 0, 0]
    with pytest.raises(LimitExceeded):
        Reader(bytes(8), budget=3).read_numbers("h", 2, 4)
    reader = Reader(bytes(8), budget=5)
    reader.read_numbers("b", 1, 4)
    with pytest.raises(LimitExceeded):
        reader.read_compact_strings(2)


def test_records_are_a_view_into_the_frame() -> None:
    frame = bytearray.fromhex("000000026162")
    records = Reader(frame).read_nullable_records()
    assert records is not None
    records[0] = 0x7A
    assert frame[4:] == b"zb"


def test_a_known_tag_must_fill_its_size() -> None:
    reader = Reader(bytes.fromhex("0402aabb"))
    tag, end = reader.read_tag()
    assert (tag, end) == (4, 4)
    reader.read_int8()
    with pytest.raises(InvalidValue):
        reader.expect_tag_end(tag, end)
    reader.read_int8()
    reader.expect_tag_end(tag, end)


def test_many_numbers_are_read_in_pieces() -> None:
    numbers = list(range(-5, 2 * NUMBERS_AT_ONCE + 7))
    reader = Reader(b"x" + Struct(f">{len(numbers)}i").pack(*numbers) + b"y")
    reader.position = 1
    assert reader.read_numbers("i", 4, len(numbers)) == numbers
    assert reader.remaining == 1


@pytest.mark.parametrize("size", [PIECE_SIZE, PIECE_SIZE + 1, 3 * PIECE_SIZE + 7])
def test_long_bytes_are_copied_whole_and_count_as_values(size: int) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    reader = Reader(size.to_bytes(4) + content)
    budget = reader.budget
    assert reader.read_bytes() == content
    assert budget - reader.budget == (0 if size == PIECE_SIZE else size // BYTES_OF_A_SLOT)
    reader.expect_end()
    with pytest.raises(LimitExceeded) if size > PIECE_SIZE else nullcontext():
        Reader(size.to_bytes(4) + content, 1).read_bytes()
    with pytest.raises(Truncated):
        Reader(size.to_bytes(4) + content[:-1]).read_nullable_bytes()
