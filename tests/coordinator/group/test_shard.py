from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.shard import Shard
from tests.coordinator.world import TP


def test_groups_that_only_left_traces_are_dropped_after_loading() -> None:
    shard = Shard(0, 0, lambda: 0)
    shard.get_or_create("gone")
    shard.get_or_create("offsets").offsets.replay(TP, 0, CommittedOffset(1))
    shard.get_or_create("group").generation_id = 1
    assert shard.is_loading
    assert [group.group_id for group in shard.finish_loading()] == ["offsets", "group"]
    assert not shard.is_loading
    assert shard.get_or_create("group") is shard.groups["group"]
