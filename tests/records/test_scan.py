import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.records.batch import HEADER_SIZE
from kafkapy.records.record import Record, encode_batch, write_record
from kafkapy.records.scanner import FAULTS, Scan, interpreted_module
from kafkapy.records.varint import write_varint

from .test_record import records

GOOD = bytes.fromhex("0c000000010100")


def body(*listed: Record) -> memoryview:
    return memoryview(encode_batch(listed))[HEADER_SIZE:]


def test_a_valid_batch_is_scanned(either_scan: Scan) -> None:
    data = body(Record(b"k", b"v", 100), Record(None, None, 90), Record(b"", b"", 105), Record(b"", b"", 105))
    assert either_scan(data, 4) == (len(data), -10, 5, 2, 1, True)


def test_a_batch_without_records_is_scanned(either_scan: Scan) -> None:
    assert either_scan(memoryview(b""), 0) == (0, 0, 0, -1, 0, True)


def test_a_bytearray_is_scanned(either_scan: Scan) -> None:
    assert either_scan(memoryview(bytearray(GOOD)), 1) == (7, 0, 0, 0, 1, True)


@pytest.mark.parametrize("delta", [0, -1, 63, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)])
def test_timestamp_deltas_of_64_bits(either_scan: Scan, delta: int) -> None:
    output = bytearray()
    write_record(output, Record(b"k", b"v"), delta, 0)
    assert either_scan(memoryview(output), 1) == (len(output), delta, delta, 0, 0, True)


def test_bits_beyond_the_width_fall_off_as_in_java(either_scan: Scan) -> None:
    content = b"\x00" + b"\xfe" + b"\xff" * 8 + b"\x7f" + b"\x80\x80\x80\x80\x70" + b"\x01\x01\x00"
    assert either_scan(memoryview(bytes([len(content) * 2]) + content), 1)[:2] == (len(content) + 1, 2**63 - 1)


@pytest.mark.parametrize("offset_delta", [-1, 1, 2**31 - 1, -(2**31)])
def test_offsets_out_of_order_are_reported(either_scan: Scan, offset_delta: int) -> None:
    output = bytearray()
    write_record(output, Record(b"k", b"v"), 0, offset_delta)
    assert either_scan(memoryview(output), 1)[5] is False


EARLY, REMAINING, STRUCTURE, HEADERS = -1, -2, -3, -4


@pytest.mark.parametrize(
    ("data", "count", "fault"),
    [
        ("", 1, EARLY),
        ("0c000000010100", 2, EARLY),
        ("0c0000000101", 1, EARLY),
        ("00", 1, EARLY),
        ("0b000000010100", 1, EARLY),
        ("8080808080", 1, EARLY),
        ("80808080808000", 1, EARLY),
        ("0c000000010100", 0, REMAINING),
        ("0c00000001010000", 1, REMAINING),
        ("0200", 1, STRUCTURE),
        ("0400" + "80", 1, STRUCTURE),
        ("1a00" + "80" * 11 + "00", 1, STRUCTURE),
        ("0c00000001" + "8080", 1, STRUCTURE),
        ("0c00008080808080", 1, STRUCTURE),
        ("0c000000020100", 1, STRUCTURE),
        ("0c0000000a0100", 1, STRUCTURE),
        ("0c000000010a00", 1, STRUCTURE),
        ("0e00000001010000", 1, STRUCTURE),
        ("0c000000010101", 1, HEADERS),
        ("0c000000010102", 1, HEADERS),
        ("10000000010102" + "0101", 1, STRUCTURE),
        ("10000000010102" + "0002", 1, STRUCTURE),
        ("10000000010102" + "0a00", 1, STRUCTURE),
    ],
)
def test_each_fault_has_its_number(either_scan: Scan, data: str, count: int, fault: int) -> None:
    assert either_scan(memoryview(bytes.fromhex(data)), count)[0] == fault
    assert FAULTS[-fault - 1]


def test_records_with_headers_are_scanned(either_scan: Scan) -> None:
    data = body(Record(b"k", b"v", 0, (("a", b"1"), ("", None), ("long" * 40, b"x" * 300))))
    assert either_scan(data, 1)[0] == len(data)


@settings(max_examples=50)
@given(listed=records)
def test_encoded_records_are_scanned(listed: list[Record]) -> None:
    scan = interpreted_module().scan
    data = body(*listed)
    position, _, largest, place, null_keys, in_order = scan(data, len(listed))
    assert (position, in_order) == (len(data), True)
    assert null_keys == sum(record.key is None for record in listed)
    if listed:
        times = [record.timestamp for record in listed]
        assert (times[0] + largest, place) == (max(times), times.index(max(times)))


def test_compiled_and_interpreted_scan_agree_on_any_bytes(either_scan: Scan) -> None:
    interpreted = interpreted_module().scan

    @given(st.binary(max_size=40) | st.lists(st.sampled_from([GOOD, b"\x80", b"\x01"]), max_size=6).map(b"".join))
    def same(data: bytes) -> None:
        for count in (0, 1, 3, 2**31 - 1):
            assert either_scan(memoryview(data), count) == interpreted(memoryview(data), count)

    same()


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_read_as_varint_writes_them(value: int) -> None:
    output = bytearray()
    write_varint(output, value)
    module = interpreted_module()
    assert module._number64(memoryview(output), 0, len(output)) == (value, len(output))
    if -(2**31) <= value < 2**31:
        assert module._number32(memoryview(output), 0, len(output)) == (value, len(output))
