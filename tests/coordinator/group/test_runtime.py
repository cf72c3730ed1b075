from types import SimpleNamespace
from typing import Any

from kafkapy.coordinator.group.classic.groups import ClassicGroups
from kafkapy.coordinator.group.records import OffsetKey
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.runtime import Background
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.coordinator.world import Broker

PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 3)  # of 4 partitions, the one that keeps the group g-dyn


def group_runtime(broker: Broker, partitions: int, background: Background | None = None) -> GroupRuntime:
    settings = GroupSettings(topic_partitions=partitions)
    runtime = GroupRuntime(settings, ManualClock(), broker, broker, background or Background())
    runtime.types[OffsetKey] = ClassicGroups(runtime, ManualClock(), Background())
    return runtime


def test_checks_in_kafkas_order() -> None:
    loads: list[Any] = []
    broker = Broker()
    runtime = group_runtime(broker, 4, Background(run=loads.append))
    assert runtime.find_group("") == 24
    assert runtime.find_group("g-dyn") == 15
    runtime.startup()
    runtime.on_leader(PARTITION, 0)
    assert runtime.find_group("g-dyn") == 16  # how many partitions there are is not known yet
    broker.set_partition_count(GROUP_METADATA_TOPIC, 4)
    assert runtime.find_group("g-tx") == 16
    assert runtime.find_group("g-dyn") == 14
    list(loads[0])
    assert runtime.find_group("g-dyn") == 25
    shard = runtime.shards[3]
    group = shard.get_or_create("g-dyn")
    assert runtime.find_group("g-dyn") is group
    assert runtime.find("g-dyn") is runtime.find_named("g-dyn") is shard
    assert (runtime.find_named(""), runtime.find("")) == (24, 16)


def test_the_number_of_partitions_is_that_of_the_topic_in_the_metadata_store() -> None:
    broker = Broker()
    runtime = group_runtime(broker, 50)
    runtime.startup()
    assert runtime.partition_for("g-dyn") != 3
    broker.image.topics[GROUP_METADATA_TOPIC] = SimpleNamespace(partitions=dict.fromkeys(range(7)))
    assert runtime.partition_for("g-dyn") != 3  # an image that has some partitions may lack others
    broker.set_partition_count(GROUP_METADATA_TOPIC, 4)
    assert runtime.partition_for("g-dyn") == 3
    # as in Kafka, partitions that are added later count after a restart
    broker.set_partition_count(GROUP_METADATA_TOPIC, 9)
    assert runtime.partition_for("g-dyn") == 3
