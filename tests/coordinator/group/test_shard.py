import pytest

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.shard import Shard, java_hash, partition_for
from tests.coordinator.world import TP


@pytest.mark.parametrize(("group_id", "partition"), [("g-dyn", 3), ("g-static", 0), ("g-tx", 2)])
def test_groups_lie_where_kafka_put_them(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 4) == partition


@pytest.mark.parametrize(
    ("text", "expected"),
    # the third one's hash is negative in Java, and the fourth one's is its smallest number
    [("", 0), ("a", 97), ("consumer-group-that-is-long", 35_315_422), ("polygenelubricants", 0), ("😀", 1_772_899)],
)
def test_javas_hash_without_its_sign(text: str, expected: int) -> None:
    units = text.encode("utf-16-be")
    slow = 0
    for place in range(0, len(units), 2):
        slow = (slow * 31 + int.from_bytes(units[place : place + 2], "big")) % 2**32
    assert java_hash(text) == slow % 2**31 == expected


def test_groups_that_only_left_traces_are_dropped_after_loading() -> None:
    shard = Shard(0, 0, lambda: 0)
    shard.get_or_create("gone")
    shard.get_or_create("offsets").offsets.replay(TP, 0, CommittedOffset(1))
    shard.get_or_create("group").generation_id = 1
    assert shard.is_loading
    assert [group.group_id for group in shard.finish_loading()] == ["offsets", "group"]
    assert not shard.is_loading
    assert shard.get_or_create("group") is shard.groups["group"]
