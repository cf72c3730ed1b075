from types import SimpleNamespace

from kafkapy.coordinator.group.directory import Directory
from kafkapy.coordinator.group.shard import Shard
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from tests.coordinator.world import Broker


def directory(count: int = 4) -> tuple[Directory, Shard, Broker]:
    broker = Broker()
    shard = Shard(3, 0, lambda: 0)  # where g-dyn lies, of 4
    return Directory({3: shard}, broker, count), shard, broker


def test_checks_in_kafkas_order() -> None:
    where, shard, _ = directory()
    assert where.group("") == 24
    assert where.group("g-dyn") == 15
    where.is_running = True
    assert where.group("g-tx") == 16
    assert where.group("g-dyn") == 14
    shard.is_loading = False
    assert where.group("g-dyn") == 25
    group = shard.get_or_create("g-dyn")
    assert where.group("g-dyn") is group
    assert where.shard("g-dyn") is where.named_shard("g-dyn") is shard
    assert (where.named_shard(""), where.shard("")) == (24, 16)


def test_the_topic_has_the_last_word_on_its_partitions() -> None:
    where, _, broker = directory(50)
    before = where.partition_for("g-dyn")
    assert before != 3
    broker.image.topics[GROUP_METADATA_TOPIC] = SimpleNamespace(partitions=dict.fromkeys(range(4)))
    assert where.partition_for("g-dyn") == 3
    # as in Kafka, partitions that are added later count after a restart
    broker.image.topics[GROUP_METADATA_TOPIC] = SimpleNamespace(partitions=dict.fromkeys(range(9)))
    assert where.partition_for("g-dyn") == 3
