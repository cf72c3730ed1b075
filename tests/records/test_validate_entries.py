"""For every set that it accepts, the quick validation has the result of the thorough one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records import errors, validate_legacy
from kafkapy.records.batch import assign, crc_is_valid, iterate_headers
from kafkapy.records.record import Record, encode_legacy, set_offset
from kafkapy.records.validate import PRODUCER, ProducePolicy, ValidatedBatch
from kafkapy.records.validate_legacy import validate_entries
from kafkapy.types import TopicPartition

NOW = 1_000_000
FIRST = 70
THREE = [Record(b"k", b"v", NOW - 5), Record(b"l", b"w" * 50, NOW), Record(b"m", None, NOW - 1)]


def policy(**changes: Any) -> ProducePolicy:
    return ProducePolicy(TopicPartition("orders", 3), **changes)


def produced(magic: int, codec: int = 0, listed: list[Record] | None = None) -> bytearray:
    placed = [record._replace(offset=place) for place, record in enumerate(THREE if listed is None else listed)]
    return bytearray(encode_legacy(placed, magic, compression=codec))


def quickly(data: bytes, given_policy: ProducePolicy) -> ValidatedBatch | None:
    return validate_entries(memoryview(bytearray(data)), given_policy, NOW, FIRST)


def thoroughly(data: bytes, given_policy: ProducePolicy) -> ValidatedBatch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate_legacy, "validate_entries", lambda *_, **__: None)
        return validate_legacy.validate_legacy(memoryview(bytearray(data)), given_policy, NOW, FIRST, from_client=True)


def told(found: ValidatedBatch) -> tuple[Any, ...]:
    if found.header.magic == 2:
        assign(found.buffer, 0, FIRST, 0)
    assert all(crc_is_valid(found.buffer, at, header) for at, header in iterate_headers(found.buffer))
    return bytes(found.buffer), *found[1:]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
@pytest.mark.parametrize("compression", [PRODUCER, 0, 2, 4])
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_valid_sets_of_the_usual_kinds_have_the_same_result(
    magic: int, codec: int, compression: int, timestamp_type: int
) -> None:
    for target in (magic, 2):
        asked = policy(magic=target, compression=compression, timestamp_type=timestamp_type)
        data = produced(magic, codec)
        found = quickly(data, asked)
        is_in_place = compression in (PRODUCER, codec) and not (codec if magic == 0 else timestamp_type and not codec)
        assert (found is not None) == (target == 2 or is_in_place)
        if found is not None:
            assert told(found) == told(thoroughly(data, asked))


records = st.builds(
    Record,
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=9),
    st.sampled_from([NOW, NOW - 1, NOW - 11, NOW + 11, -1, -2, 0, 2**63 - 1, -(2**63)]),
)


@given(
    st.lists(records, min_size=1, max_size=4),
    st.integers(0, 1),
    st.integers(0, 3),
    st.sampled_from([0, 2, 3, 7]),
    st.fixed_dictionaries(
        {
            "magic": st.integers(0, 2),
            "compression": st.sampled_from([PRODUCER, 0, 1, 3]),
            "timestamp_type": st.integers(0, 1),
            "timestamp_difference_max_ms": st.sampled_from([10, 2**63 - 1]),
            "key_required": st.booleans(),
            "max_batch_size": st.sampled_from([40, 70, 1000]),
        }
    ),
)
def test_a_set_that_the_quick_validation_accepts_has_the_same_result(
    listed: list[Record], magic: int, codec: int, offset: int, asked: dict[str, Any]
) -> None:
    data = produced(magic, codec, listed)
    if codec:
        set_offset(data, 0, offset)
    try:
        found = quickly(data, policy(**asked))
    except errors.RecordsError as error:
        with pytest.raises(type(error)):
            thoroughly(data, policy(**asked))
        return
    if found is not None:
        assert told(found) == told(thoroughly(data, policy(**asked)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        produced(1)[:30],
        produced(1) + produced(0),
        produced(1) + produced(1)[:20],
        produced(1, 1) + produced(1, 1),
        produced(1, 1)[:-1] + b"x",
        produced(1, 1)[:17] + b"\x04" + produced(1, 1)[18:],
        encode_legacy(THREE, 1, compression=1, timestamp_type=1, append_time=5),
    ],
)
def test_unusual_sets_are_left_to_the_thorough_validation(data: bytes) -> None:
    assert quickly(data, policy()) is None


def test_the_quick_validation_has_the_same_limits() -> None:
    assert quickly(produced(1, 1), policy(max_batch_size=50)) is None
    assert quickly(produced(1), policy(max_batch_size=50, magic=1)) is None
    assert quickly(produced(1), policy(max_batch_size=90, magic=1)) is not None
    with pytest.raises(errors.RecordTooLargeError):
        quickly(produced(1), policy(max_batch_size=90))
    with pytest.raises(errors.RecordTooLargeError):
        quickly(produced(1, 1), policy(max_decompressed_size=50))
