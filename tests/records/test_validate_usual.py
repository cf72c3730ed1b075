"""Uncompressed batches that need no change take a shorter way through the validation, with the same result."""

import random
from collections.abc import Callable

import pytest

from kafkapy.errors import BrokerError
from kafkapy.records import validate
from kafkapy.records.batch import ATTRIBUTES_OFFSET, crc_of
from kafkapy.records.record import Record, encode_batch
from kafkapy.records.validate import ProducePolicy, validate_produced
from kafkapy.types import TopicPartition

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
    fields = rng.choice([{}, {}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": rng.choice([-1, 3])}])
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


def outcome(records: bytearray, policy: ProducePolicy) -> object:
    try:
        valid = validate_produced(memoryview(records), policy, NOW_MS, first_offset=5, inline=True)
    except BrokerError as error:
        return type(error), str(error), records
    return bytes(valid.buffer), valid[1:], records


@pytest.mark.parametrize("seed", range(6))
def test_the_result_is_that_of_the_long_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    taken = 0
    shorter: Callable[..., object] = validate._usual_batch

    def counted(*arguments: object) -> object:
        nonlocal taken
        found = shorter(*arguments)
        taken += found is not None
        return found

    for _ in range(1500):
        records, policy = batch(rng), rng.choice(POLICIES)
        monkeypatch.setattr(validate, "_usual_batch", lambda *_: None)
        expected = outcome(bytearray(records), policy)
        monkeypatch.setattr(validate, "_usual_batch", counted)
        assert outcome(bytearray(records), policy) == expected
    assert taken > 100
