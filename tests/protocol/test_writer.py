"""Writing primitives: the reverse of reading; bodies stay unchanged."""

from typing import Any
from uuid import UUID

import pytest

from kafkapy.protocol.primitives import InvalidValue, Writer
from kafkapy.protocol.writer import TooManyStructs


class Slice:
    """A body without bytes in memory, like a slice of a file."""

    def __len__(self) -> int:
        return 300


@pytest.mark.parametrize(
    ("method", "arguments", "data"),
    [
        ("write_unsigned_varint", (127,), "7f"),
        ("write_unsigned_varint", (2**32 - 1,), "ffffffff0f"),
        ("write_uuid", (UUID(int=1),), "00" * 15 + "01"),
        ("write_string", ("ü",), "0002c3bc"),
        ("write_nullable_string", (None,), "ffff"),
        ("write_nullable_string", ("a",), "000161"),
        ("write_compact_string", ("ü",), "03c3bc"),
        ("write_compact_string", ("a" * 200,), "c901" + "61" * 200),
        ("write_compact_nullable_string", (None,), "00"),
        ("write_compact_nullable_string", ("a",), "0261"),
        ("write_bytes", (b"ab",), "000000026162"),
        ("write_nullable_bytes", (None,), "ffffffff"),
        ("write_nullable_bytes", (b"ab",), "000000026162"),
        ("write_compact_bytes", (b"ab",), "036162"),
        ("write_compact_nullable_bytes", (None,), "00"),
        ("write_compact_nullable_bytes", (b"ab",), "036162"),
        ("write_records", (None,), "ffffffff"),
        ("write_records", (memoryview(b"ab"),), "000000026162"),
        ("write_compact_records", (None,), "00"),
        ("write_compact_records", (b"ab",), "036162"),
        ("write_count", (-1,), "ffffffff"),
        ("write_compact_count", (-1,), "00"),
        ("write_compact_count", (200,), "c901"),
        ("write_numbers", ("h", [1, -1]), "0001ffff"),
        ("write_strings", (["a", ""],), "0001610000"),
        ("write_compact_strings", (["a", ""],), "026101"),
        ("write_uuids", ([UUID(int=0)],), "00" * 16),
        ("write_unknown_tagged_fields", (None,), "00"),
        ("write_unknown_tagged_fields", ([(9, b"x"), (5, b"")],), "02050009" + "0178"),
        ("write_tagged_fields", ([(1, b"b")], [(0, b"a")]), "02000161010162"),
    ],
)
def test_values(method: str, arguments: tuple[Any, ...], data: str) -> None:
    writer = Writer()
    getattr(writer, method)(*arguments)
    assert writer.getvalue() == bytes.fromhex(data)
    assert writer.size() == len(data) // 2


def test_bodies_are_separate_parts_in_order() -> None:
    body, large = Slice(), bytes(10_000)
    writer = Writer()
    writer.write_records(body)
    writer.write_records(b"small")
    writer.write_compact_records(large)
    parts = writer.parts()
    assert parts[1] is body
    assert parts[3] is large
    assert [parts[0], parts[2]] == [bytes.fromhex("0000012c"), b"\x00\x00\x00\x05small\x91\x4e"]
    assert len(parts) == 4
    assert writer.size() == 4 + 300 + 11 + 10_000
    with pytest.raises(InvalidValue):
        writer.getvalue()


def test_a_frame_begins_with_the_size_of_what_follows() -> None:
    writer = Writer(bytes(4))
    writer.write_string("ab")
    assert writer.frame() == [b"\x00\x00\x00\x04\x00\x02ab"]
    writer.write_records(bytes(5000))
    writer.write_count(1)
    first, body, last = writer.frame()
    assert (int.from_bytes(first[:4]), len(first) + len(body) + len(last)) == (5012, 5016)


def test_an_unused_writer_has_one_empty_part() -> None:
    assert Writer().parts() == [b""]


@pytest.mark.parametrize("text", ["\ud800", "x" * 32768])
def test_strings_that_can_not_be_encoded_are_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Writer().write_string(text)
    with pytest.raises(InvalidValue):
        Writer().write_compact_string(text)


def test_a_tag_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Writer().write_tagged_fields([(1, b"")], [(1, b"")])


@pytest.mark.parametrize("method", ["write_string", "write_compact_string", "write_bytes", "write_compact_bytes"])
def test_long_fields_count_as_structs(method: str) -> None:
    unit = "x" if "string" in method else b"x"
    writer = Writer(max_structs=10)
    write = getattr(writer, method)
    for _ in range(100):
        write(unit * 64)
    write(unit * 640)
    with pytest.raises(TooManyStructs):
        write(unit * 65)


@pytest.mark.parametrize(("letter", "size"), [("b", 1), ("h", 2), ("i", 4), ("q", 8)])
def test_long_arrays_of_numbers_count_as_structs(letter: str, size: int) -> None:
    writer = Writer(max_structs=10)
    for _ in range(100):
        writer.write_numbers(letter, [1] * (64 // size))
    writer.write_numbers(letter, [1] * (640 // size))
    with pytest.raises(TooManyStructs):
        writer.write_numbers(letter, [1] * (64 // size + 1))
