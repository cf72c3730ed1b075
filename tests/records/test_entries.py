"""The loops over messages of the old formats, interpreted and compiled."""

import importlib
import struct
from types import ModuleType
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkapy.records.batch import HEADER_SIZE
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_entries
from kafkapy.records.scanner import interpreted_module

from .conftest import module_as

NOW = 1_000_000
THREE = [Record(b"k", b"v", NOW - 5), Record(None, b"w" * 200, NOW), Record(b"", None, NOW - 1)]
BAD = (-1, 0, 0, 0, 0, False, 0)
times = st.integers(-(2**62), 2**62 - 1)  # their difference fits into 64 bits
messages = st.lists(
    st.builds(Record, st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200), times, st.just(())),
    max_size=5,
)


@pytest.fixture(params=["interpreted", "compiled"], scope="module")
def either(request: pytest.FixtureRequest) -> ModuleType:
    return module_as("entries", request.param)


def message_set(listed: list[Record], magic: int, first: int = 0) -> bytearray:
    return bytearray(
        encode_legacy([record._replace(offset=first + place) for place, record in enumerate(listed)], magic)
    )


def changed(position: int, new: bytes, magic: int = 1) -> bytearray:
    """One message with some bytes replaced and the CRC of the new content."""
    data = message_set(THREE[:1], magic)
    data[position : position + len(new)] = new
    struct.pack_into(">I", data, 12, crc32(data[16:]))
    return data


@pytest.mark.parametrize("magic", [0, 1])
def test_a_valid_set_is_scanned(either: ModuleType, magic: int) -> None:
    data = message_set(THREE, magic)
    times = (NOW - 5, NOW, 1) if magic else (-1, -1, -1)
    largest = (18 + 8 * magic) + 8 + 200
    assert either.scan_entries(memoryview(data), magic) == (3, *times, 1, True, largest)
    assert either.scan_entries(memoryview(message_set(THREE, magic, 1)), magic)[5] is False
    assert either.scan_entries(memoryview(b""), magic)[0] == 0


@pytest.mark.parametrize(
    ("data", "magic"),
    [
        (message_set(THREE, 1), 0),
        (message_set(THREE, 0), 1),
        (message_set(THREE, 1)[:-1], 1),
        (message_set(THREE, 1) + bytes(5), 1),
        (message_set(THREE, 1) + bytes(40), 1),
        (message_set(THREE, 1)[:-1] + b"x", 1),
        (changed(17, b"\x01"), 1),
        (changed(17, b"\x08"), 1),
        (changed(17, b"\x04", 0), 0),
        (changed(16, b"\x02"), 1),
        (changed(8, b"\xff\xff\xff\xff"), 1),
        (changed(8, b"\x7f\xff\xff\xff"), 1),
        (changed(8, b"\0\0\0\x0e"), 1),
        (changed(26, b"\0\0\0\x05"), 1),
        (changed(26, b"\x7f\xff\xff\xff"), 1),
        (changed(26, b"\xff\xff\xff\xfe"), 1),
        (changed(31, b"\0\0\0\x02"), 1),
        (changed(31, b"\0\0\0\x00"), 1),
        (changed(31, b"\x80\0\0\x00"), 1),
    ],
)
def test_a_set_with_a_fault_is_not_accepted(either: ModuleType, data: bytearray, magic: int) -> None:
    assert either.scan_entries(memoryview(data), magic) == BAD


@given(messages, st.integers(0, 1), st.integers(0, 2**62))
@example([Record(b"", b"", 0), Record(None, None, 0), Record(b"k", b"v", NOW)], 1, 0)
def test_sets_are_scanned_numbered_and_rewritten(listed: list[Record], magic: int, first: int) -> None:
    modules = [interpreted_module("entries"), importlib.import_module("kafkapy.records.entries")]
    expected = encode_batch(listed if magic else [record._replace(timestamp=-1) for record in listed])[HEADER_SIZE:]
    for module in modules:
        data = message_set(listed, magic)
        told = module.scan_entries(memoryview(data), magic)
        assert told[0] == len(listed)
        assert told == modules[0].scan_entries(memoryview(data), magic)
        output = bytearray(len(data) + 32 * len(listed))
        written = module.rewrite_entries(memoryview(data), magic, memoryview(output))
        assert output[:written] == expected
        module.number_entries(memoryview(data), first)
        assert data == message_set(listed, magic, first)


@given(st.binary(max_size=80), st.integers(0, 1))
def test_garbage_is_never_read_beyond_its_end(garbage: bytes, magic: int) -> None:
    modules = [interpreted_module("entries"), importlib.import_module("kafkapy.records.entries")]
    prefix = struct.pack(">qiIb", 0, len(garbage) + 5, 0, magic)
    for data in (garbage, prefix + garbage):
        found = [module.scan_entries(memoryview(data), magic) for module in modules]
        assert found[0] == found[1]
        if found[0][0] > 0:
            assert read_entries(data)
