import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.varint import read_varint, read_varlong, write_varint


def written(value: int) -> bytes:
    output = bytearray()
    write_varint(output, value)
    return bytes(output)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (300, "d804"),
     (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"), (2**63 - 1, "feffffffffffffffff01"),
     (-(2**63), "ffffffffffffffffff01")],
)  # fmt: skip
def test_known_values(value: int, data: str) -> None:
    assert written(value).hex() == data
    assert read_varlong(bytes.fromhex(data), 0) == (value, len(data) // 2)


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_of_32_bits_are_read_back(value: int) -> None:
    assert read_varint(b"\xff" + written(value), 1) == (value, 1 + len(written(value)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_of_64_bits_are_read_back(value: int) -> None:
    assert read_varlong(written(value), 0) == (value, len(written(value)))


def test_bits_beyond_the_width_fall_off_as_in_java() -> None:
    assert read_varint(b"\xfe\xff\xff\xff\x7f", 0) == (2**31 - 1, 5)
    assert read_varlong(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 0) == (2**63 - 1, 10)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x80\x80\x80\x80\x00"])
def test_a_number_that_does_not_end_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_varint(data, 0)


def test_a_long_number_has_at_most_ten_bytes() -> None:
    with pytest.raises(InvalidRecordError):
        read_varlong(b"\x80" * 10 + b"\x00", 0)
