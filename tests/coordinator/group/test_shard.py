import pytest

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.shard import Shard, java_hash, partition_for
from tests.coordinator.world import TP


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
    assert java_hash(text) == expected


def test_groups_that_only_left_traces_are_dropped_after_loading() -> None:
    shard = Shard(0, 0, lambda: 0)
    shard.get_or_create("gone")
    shard.get_or_create("offsets").offsets.replay(TP, 0, CommittedOffset(1))
    shard.get_or_create("group").generation_id = 1
    assert shard.is_loading
    assert [group.group_id for group in shard.finish_loading()] == ["offsets", "group"]
    assert not shard.is_loading
    assert shard.get_or_create("group") is shard.groups["group"]
