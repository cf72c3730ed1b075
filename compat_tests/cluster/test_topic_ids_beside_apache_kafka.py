"""One kafkapy broker and one of Apache Kafka 3.9.1 on ZooKeeper, at inter-broker protocol 2.8: topics have ids.

Each of them is the controller first, then the other one takes over.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka.cimpl import NewTopic

from harness.cluster import SESSION_MS, WAIT_S, Cluster, eventually
from harness.kafkapy_process import KafkapyProcess
from harness.real_kafka import RealKafka, ZooKeeper
from kafkapy.metadata.znodes import DeleteTopicZNode, TopicZNode
from kafkapy.storage.partition_metadata import decode_partition_metadata, encode_partition_metadata
from kafkapy.types import NO_TOPIC_ID

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

OURS, THEIRS = 1, 2
PROTOCOL = {"inter.broker.protocol.version": "2.8"}


class Mixed:
    """The cluster and the data directories."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def topic_id(self, topic: str) -> UUID:
        """The id in the topic's node, which Apache Kafka and kafkapy write in the same form."""
        node = self.cluster.node(TopicZNode.path(topic))
        assert node is not None
        assert (node[0] or b"").endswith(b'"version":3}'), node
        return TopicZNode.decode(node[0]).topic_id

    def ids_on_disk(self, topic: str, index: int = 0) -> list[UUID]:
        """The ids in the directories of a partition, of both brokers, whose files have the same form."""
        files = [path for data in self._directories() for path in data.glob(f"{topic}-{index}/partition.metadata")]
        contents = [path.read_bytes() for path in files]
        ids = [decode_partition_metadata(content) for content in contents]
        assert contents == [encode_partition_metadata(each) for each in ids]
        return ids

    def _directories(self) -> list[Path]:
        ours, theirs = self.cluster.brokers[OURS], self.cluster.brokers[THEIRS]
        assert isinstance(ours, KafkapyProcess)
        assert isinstance(theirs, RealKafka)
        return [ours.data, theirs.data]

    def create(self, via: int, topic: str) -> None:
        """Create a topic with two partitions, each on both brokers, and led by different ones."""
        admin = self.cluster.admin(via)
        (created,) = admin.create_topics([NewTopic(topic, 2, replica_assignment=[[1, 2], [2, 1]])]).values()
        created.result(WAIT_S)
        eventually(lambda: all(self.cluster.led(each, topic) == {0: 1, 1: 2} for each in (OURS, THEIRS)))

    def delete(self, via: int, topic: str) -> None:
        """Delete a topic, and wait until the tree has nothing of it and no broker has its files."""
        admin = self.cluster.admin(via)
        (deleted,) = admin.delete_topics([topic]).values()
        deleted.result(WAIT_S)
        for path in (TopicZNode.path(topic), DeleteTopicZNode.path(topic)):
            eventually(lambda path=path: self.cluster.node(path) is None)  # type: ignore[misc]
        eventually(lambda: not any(each.exists() for data in self._directories() for each in data.glob(f"{topic}-?")))

    def agree_on_ids(self, topic: str) -> UUID:
        """Wait until both brokers have the id of the tree in both partitions' directories; return it."""
        topic_id = self.topic_id(topic)
        assert topic_id != NO_TOPIC_ID
        for index in range(2):
            eventually(lambda index=index: self.ids_on_disk(topic, index) == [topic_id] * 2)  # type: ignore[misc]
        return topic_id


@pytest.fixture(params=["kafkapy", "kafka-3.9.1"])
def mixed(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Mixed]:
    """The broker that is named starts first, and is the controller therefore."""
    cluster = Cluster(zookeeper, 1, PROTOCOL)
    config = {"zookeeper.connect": cluster.zookeeper_connect, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    theirs = RealKafka("3.9.1", zookeeper=zookeeper, broker_id=THEIRS, config=config | PROTOCOL, heap="256M")
    theirs.has_zookeeper = True
    cluster.brokers[THEIRS] = theirs
    order = [OURS, THEIRS] if request.param == "kafkapy" else [THEIRS, OURS]
    with ExitStack() as stack:
        for number in order:
            stack.enter_context(cluster.brokers[number])
        eventually(lambda: cluster.agrees([OURS, THEIRS]))
        assert cluster.controller(OURS) == order[0]
        yield Mixed(cluster)
        for broker in cluster.brokers.values():
            print(broker.log_tail())


def test_topics_have_ids_that_both_keep(mixed: Mixed) -> None:
    cluster = mixed.cluster
    mixed.create(OURS, "t")
    first = mixed.agree_on_ids("t")
    cluster.produce(OURS, "t", [b"%02d" % number for number in range(40)], range(2))
    mixed.delete(THEIRS, "t")
    mixed.create(THEIRS, "t")
    second = mixed.agree_on_ids("t")
    assert second != first
    records = [b"%02d" % number for number in range(40, 80)]
    cluster.produce(THEIRS, "t", records, range(2))
    controller = cluster.controller(OURS)
    other = OURS + THEIRS - controller
    cluster.brokers[controller].kill()
    eventually(lambda: cluster.controller(other) == other and set(cluster.led(other, "t").values()) == {other})
    assert cluster.consume(other, "t", range(2), 40) == records
    assert mixed.topic_id("t") == second
    cluster.brokers[controller].start()
    eventually(lambda: cluster.agrees([OURS, THEIRS]))
    mixed.create(controller, "later")
    assert mixed.agree_on_ids("later") not in (first, second)
    assert mixed.agree_on_ids("t") == second
