"""Uncompressed batches that need no change take a shorter way through the validation, with the same result."""

import random
from typing import Any

import pytest

from kafkapy.errors import BrokerError
from kafkapy.records import validate
from kafkapy.records.batch import ATTRIBUTES_OFFSET, BatchHeader, crc_of, own_batch, write_batch
from kafkapy.records.errors import InvalidTimestampError
from kafkapy.records.record import Record, encode_batch, write_record
from kafkapy.records.validate import (
    ProducePolicy,
    ValidatedBatch,
    as_validated,
    usual_batch,
    usual_own_batch,
    validate_own,
    validate_produced,
)
from kafkapy.types import TopicPartition

from .conftest import module_as

NOW_MS = 1_600_000_000_000
PLACE = TopicPartition("t", 0)
POLICIES = [
    ProducePolicy(PLACE),
    ProducePolicy(PLACE, compression=0, max_batch_size=130),
    ProducePolicy(PLACE, key_required=True),
    ProducePolicy(PLACE, timestamp_type=1),
    ProducePolicy(PLACE, timestamp_difference_max_ms=1000),
    ProducePolicy(PLACE, compression=1),
]


def batch(rng: random.Random) -> bytearray:
    """A batch of a producer, or one with a field, or a byte, that is another one."""
    count = rng.randint(1, 3)
    records = [
        Record(
            rng.choice([None, b"k"]),
            rng.choice([None, b"v" * rng.randint(0, 40)]),
            timestamp=rng.choice([NOW_MS, NOW_MS, NOW_MS, -1, NOW_MS - 2000, NOW_MS + 2000]),
            offset=number if rng.random() < 0.95 else number + 1,
        )
        for number in range(count)
    ]
    producer = {
        "producer_id": rng.choice([7, 2**63 - 1]),
        "producer_epoch": rng.choice([0, 300, 2**15 - 1, -1]),
        "base_sequence": rng.choice([-1, 3, 2**31 - 1]),
        "is_transactional": rng.random() < 0.5,
    }
    fields: dict[str, Any] = rng.choice([{}, {}, producer])
    found = bytearray(encode_batch(records, compression=rng.choice([0, 0, 0, 0, 2]), **fields))
    change = rng.choice(["none", "none", "none", "header", "record", "tail", "cut", "crc"])
    if change == "header":
        found[rng.randrange(ATTRIBUTES_OFFSET, 61)] ^= 1 << rng.randrange(8)
    elif change == "record":
        found[rng.randrange(61, len(found))] ^= 1 << rng.randrange(8)
    elif change == "tail":
        found += b"tail"
    elif change == "cut":
        del found[rng.randrange(len(found)) :]
    elif change == "crc":
        found[rng.randrange(17)] ^= 1
        return found
    if len(found) > 61:
        found[17:21] = crc_of(found, 0, len(found)).to_bytes(4, "big")
    return found


@pytest.fixture(params=["interpreted", "compiled"])
def _either_check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "check_usual", module_as("scan", request.param).check_usual)


def by_the_long_way(records: bytearray, policy: ProducePolicy) -> ValidatedBatch | None:
    try:
        return validate_produced(memoryview(records), policy, NOW_MS, first_offset=5, inline=True)
    except BrokerError:
        return None


@pytest.mark.usefixtures("_either_check")
@pytest.mark.parametrize("seed", range(6))
def test_the_result_is_that_of_the_long_way(seed: int) -> None:
    rng = random.Random(seed)
    taken = 0
    for _ in range(1500):
        records, policy = batch(rng), rng.choice(POLICIES)
        unchanged = bytes(records)
        usual = usual_batch(records, policy, NOW_MS)
        assert records == unchanged
        if usual is None:
            continue
        taken += 1
        found, expected = as_validated(records, usual), by_the_long_way(bytearray(records), policy)
        assert expected is not None
        assert expected.buffer == unchanged
        assert found[1:] == expected[1:]
        header = found.header
        producer = header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional
        assert (usual[1], usual[4:]) == (header.record_count, producer)
    assert taken > 100


@pytest.mark.usefixtures("_either_check")
@pytest.mark.parametrize("fields", [{}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}])
@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_that_a_producer_sends_is_usual(count: int, fields: dict[str, int]) -> None:
    found = encode_batch([Record(None, b"v", NOW_MS + place % 2) for place in range(count)], **fields)
    usual = usual_batch(memoryview(bytearray(found)), ProducePolicy(PLACE), NOW_MS)
    assert usual is not None
    producer = [fields.get(name, -1) for name in ("producer_id", "producer_epoch", "base_sequence")]
    assert usual[1:] == (count, NOW_MS + (count > 1), int(count > 1), *producer, False)


@pytest.mark.usefixtures("_either_check")
@pytest.mark.parametrize(
    ("base", "delta", "largest"), [(2**63 - 1, 1, -(2**63)), (2**63 - 1, 2**63 - 1, -2), (5, -6, -1)]
)
def test_sums_of_timestamps_do_not_wrap(base: int, delta: int, largest: int) -> None:
    """A sum over 64 bits equals the field in the header where numbers have 64 bits."""
    body = bytearray()
    write_record(body, Record(None, b"v"), delta, 0)
    data = bytearray(write_batch(BatchHeader(0, 0, -1, 2, 0, 0, 0, base, largest, -1, -1, -1, 1), body))
    policy = ProducePolicy(PLACE, timestamp_difference_max_ms=2**63 - 1)
    assert usual_batch(data, policy, NOW_MS) is None


@pytest.mark.usefixtures("_either_check")
def test_a_clock_before_1970_is_left_to_the_long_way() -> None:
    """The difference to a timestamp would wrap."""
    data = bytearray(encode_batch([Record(None, b"v", 0), Record(None, b"v", 2**63 - 1)]))
    policy = ProducePolicy(PLACE, timestamp_difference_max_ms=10)
    assert usual_batch(data, policy, -5) is None
    with pytest.raises(InvalidTimestampError):
        validate_produced(data, policy, -5)


@pytest.mark.parametrize("policy", [*POLICIES, ProducePolicy(PLACE, magic=1), ProducePolicy(PLACE, max_batch_size=70)])
@pytest.mark.parametrize("producer", [(-1, -1, -1), (7, 0, 0)])
@pytest.mark.parametrize("timestamp_ms", [NOW_MS, -1])
def test_a_coordinators_usual_batch_is_accepted_as_the_long_way_accepts_it(
    policy: ProducePolicy, producer: tuple[int, int, int], timestamp_ms: int
) -> None:
    body = bytearray()
    write_record(body, Record(b"k", b"v"), 0, 0)
    buffer, header = own_batch(body, 1, timestamp_ms, producer)
    batch = ValidatedBatch(buffer, header, timestamp_ms, 0)
    usual = usual_own_batch(batch, policy)
    needs_nothing = policy.magic == 2 and policy.timestamp_type == 0 and policy.compression != 1
    assert (usual is not None) == (
        needs_nothing and producer[0] < 0 <= timestamp_ms and len(buffer) <= policy.max_batch_size
    )
    if usual is not None:
        assert usual == usual_batch(buffer, policy, NOW_MS)
        assert validate_own(batch, policy, lambda: NOW_MS, 0) is batch
