"""The loop over batches that differ in their last bytes only, interpreted and compiled."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records.batch import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC_OFFSET, read_header
from kafkapy.records.record import Record, encode_batch

from .conftest import module_as

TAIL = 4
"""Three bytes of value, and the number of headers."""
COUNT_OFFSET = 57


@pytest.fixture(params=["interpreted", "compiled"], scope="module")
def either(request: pytest.FixtureRequest) -> ModuleType:
    return module_as("alike", request.param)


def batch(key: bytes, value: bytes = b"123", **fields: int) -> bytes:
    return encode_batch([Record(key, value, 7)], **fields)  # type: ignore[arg-type]  # the fields are whole numbers


def lead(data: bytes) -> bytes:
    return data[HEADER_SIZE:-TAIL]


A, B = batch(b"a"), batch(b"bb")
KNOWN = {lead(A): "a", lead(B): "b"}


def test_the_last_batch_of_each_kind_is_returned(either: ModuleType) -> None:
    content = A + B + batch(b"a", b"456", base_offset=9) + B[:-1]
    met, position = either.latest_alike(content, 0, TAIL, KNOWN)
    assert met == {"a": len(A + B), "b": len(A)}
    assert position == len(content) - len(B) + 1
    assert either.latest_alike(content, len(A), TAIL, KNOWN) == ({"b": len(A), "a": len(A + B)}, position)
    assert either.latest_alike(b"", 0, TAIL, KNOWN) == ({}, 0)


def changed(at: int, byte: int) -> bytes:
    data = bytearray(A)
    data[at] = byte
    return bytes(data)


@pytest.mark.parametrize(
    "other",
    [
        batch(b"c"),
        batch(b"a", b"12"),
        changed(MAGIC_OFFSET, 1),
        changed(ATTRIBUTES_OFFSET, 1),
        changed(ATTRIBUTES_OFFSET + 1, 0x10),
        changed(COUNT_OFFSET + 3, 2),
        changed(len(A) - 1, 2),
        changed(8, 0x80),
        changed(8, 0x7F),
        changed(11, HEADER_SIZE - 12),
        A[: HEADER_SIZE + TAIL - 1],
    ],
    ids=["unknown", "shorter", "magic", "attributes", "transactional", "two records", "headers", "negative length",
         "beyond the end", "no records", "cut"],
)  # fmt: skip
def test_the_first_batch_that_is_not_alike_ends_the_walk(either: ModuleType, other: bytes) -> None:
    assert either.latest_alike(B + other, 0, TAIL, KNOWN) == ({"b": 0}, len(B))


@given(st.lists(st.sampled_from([A, B, batch(b"a", b"xyz"), batch(b"c"), batch(b"")]), max_size=12))
def test_the_result_is_that_of_a_walk_over_all_headers(either: ModuleType, batches: list[bytes]) -> None:
    expected: dict[str, int] = {}
    position = 0
    for data in batches:
        if lead(data) not in KNOWN:
            break
        expected[KNOWN[lead(data)]] = position
        position += read_header(data).size
    assert either.latest_alike(b"".join(batches), 0, TAIL, KNOWN) == (expected, position)
