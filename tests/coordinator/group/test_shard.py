from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP


def test_groups_that_only_left_traces_are_dropped_after_loading() -> None:
    shard = GroupShard(TopicPartition(GROUP_METADATA_TOPIC, 0), 0, lambda: 0)
    shard.get_or_create("gone")
    shard.get_or_create("offsets").offsets.replay(TP, 0, CommittedOffset(1))
    shard.get_or_create("group").generation_id = 1
    assert shard.is_loading
    loaded: list[str] = []
    finish(shard.finish_loading(lambda group: loaded.append(group.group_id)))
    assert loaded == list(shard.groups) == ["offsets", "group"]
    assert not shard.is_loading
    assert shard.get_or_create("group") is shard.groups["group"]
