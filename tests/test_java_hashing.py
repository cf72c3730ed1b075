"""Groups and transactional ids are in the partitions that Kafka's hash gives."""

from uuid import UUID

import pytest

from harness.cases.topic_cases import TOPIC_KEYS
from kafkapy.java_hashing import (
    absolute_hash,
    hash_code,
    in_hash_order,
    in_java_order,
    in_map_order,
    in_set_order,
    in_table_order,
    in_timeline_order,
    partition_for,
    uuid_hash_code,
)


@pytest.mark.parametrize(
    ("group_id", "partition"), [("g-dyn", 3), ("g-static", 0), ("g-tx", 2), ("test_transactions-14179-1", 3)]
)
def test_groups_are_in_the_partitions_of_kafka(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 4) == partition


def test_long_names_have_partitions_and_are_not_cached() -> None:
    before = absolute_hash.cache_info().currsize
    assert partition_for("g" * 5000, 7) == absolute_hash.__wrapped__("g" * 5000) % 7
    assert absolute_hash.cache_info().currsize == before


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
def test_the_absolute_value_equals_javas(text: str, expected: int) -> None:
    """Printed by Apache Kafka 2.7.2's own ``Utils.abs(text.hashCode())``."""
    assert absolute_hash(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("😀", 1_772_899), ("polygenelubricants", 2**31), ("billing", -109_829_509)],
)
def test_the_hash_equals_javas(text: str, expected: int) -> None:
    assert hash_code(text) == expected & 0xFFFFFFFF


# The expected orders were printed by Scala 2.13.3, the version in Apache Kafka 2.7.2: the keys of a ``HashMap``.


FORTY = (
    "k21 k35 k5 k13 k36 k6 k22 k33 k14 k7 k39 k12 k2 k0 k24 k32 k11 k9 k38 k10 k25 k19 k18 k29 k26 k15 k20 k34 k23 "
    "k1 k30 k4 k27 k3 k28 k17 k16 k31 k8 k37"
)


@pytest.mark.parametrize(
    ("keys", "ordered"),
    [
        ("range roundrobin sticky", "roundrobin range sticky"),
        (" ".join(f"k{number}" for number in range(40)), FORTY),
        (
            " a range roundrobin sticky 😀 日本語 polygenelubricants",
            "日本語 roundrobin  polygenelubricants a 😀 range sticky",
        ),
        ("BB Aa C# x", "x BB Aa C#"),  # three of one hash
        ("C# Aa BB x", "x C# Aa BB"),
    ],
)
def test_the_order_equals_scalas(keys: str, ordered: str) -> None:
    assert in_hash_order(keys.split(" ")) == ordered.split(" ")


def test_keys_have_the_order_of_a_mutable_map() -> None:
    assert in_table_order(sorted(TOPIC_KEYS)) == TOPIC_KEYS
    assert in_table_order(TOPIC_KEYS[::-1]) == TOPIC_KEYS
    assert in_table_order([]) == []
    assert in_table_order(["Aa", "BB"]) == ["Aa", "BB"], "they have the same hash"


def test_keys_of_a_bucket_keep_their_order_in_java() -> None:
    pair = ["min.insync.replicas", "message.downconversion.enable"]
    others = [key for key in TOPIC_KEYS if key not in pair]
    for given in (pair, pair[::-1]):
        assert in_java_order([*given, *others])[2:4] == given
    assert in_java_order(["b", "a"]) == ["a", "b"]


def test_orders_of_javas_tables() -> None:
    assert uuid_hash_code(UUID("00000001-0000-0002-0000-000300000004")) == 1 ^ 2 ^ 3 ^ 4
    assert in_set_order([16, 0, 33, 1], int) == [16, 0, 33, 1]
    assert in_map_order(range(12, 0, -1), int) == list(range(1, 13))
    assert in_map_order([16, 0], int) == in_map_order([*range(1, 11), 16, 0], int)[:2] == [16, 0]
    assert in_set_order([16, *range(11)], int)[-1] == 16, "a copy of 12 elements has 32 buckets"
    assert in_timeline_order(["a", "b"], {"a": 5, "b": 5}.__getitem__) == ["b", "a"]
