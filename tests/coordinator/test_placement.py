"""Groups and transactional ids lie where Kafka's own hash has them."""

import pytest

from kafkapy.coordinator.hashing import absolute_hash, hash_code, partition_for


@pytest.mark.parametrize(
    ("group_id", "partition"), [("g-dyn", 3), ("g-static", 0), ("g-tx", 2), ("test_transactions-14179-1", 3)]
)
def test_groups_lie_where_kafka_put_them(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 4) == partition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("😀", 1_772_899),
        ("日本語", 25_921_943),
        ("billing", 109_829_509),  # this one's hash and the next one's are negative
        ("consumer-group-that-is-long", 2_112_168_226),
        ("polygenelubricants", 0),  # the smallest number, which has no absolute value
    ],
)
def test_the_absolute_value_is_javas(text: str, expected: int) -> None:
    """Printed by Apache Kafka 2.7.2's own ``Utils.abs(text.hashCode())``."""
    assert absolute_hash(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("😀", 1_772_899), ("polygenelubricants", 2**31), ("billing", -109_829_509)],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert hash_code(text) == expected & 0xFFFFFFFF
