"""The command-line tools of Apache Kafka 2.7.2 that talk to ZooKeeper itself, on the tree of kafkapy brokers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin._config import ConfigResource

from harness.cluster import WAIT_S, Cluster, eventually
from harness.java_tools import JavaTools
from harness.real_kafka import ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

TOOLS = JavaTools("2.7.2")


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with Cluster(zookeeper) as started:
        yield started


def _retention(cluster: Cluster, via: int) -> str | None:
    admin = cluster.admin(via)
    (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "configured")]).values()
    value: str | None = answer.result(WAIT_S)["retention.ms"].value
    return value


def test_topics(cluster: Cluster) -> None:
    where = ("--zookeeper", cluster.zookeeper_connect, "--topic", "tool")
    TOOLS.run("TopicCommand", "--create", *where, "--partitions", "6", "--replication-factor", "1")
    eventually(lambda: all(len(cluster.led(number, "tool")) == 6 for number in cluster.brokers))
    assert sorted(cluster.leaders(1, "tool").values()) == [1, 1, 2, 2, 3, 3]
    cluster.produce(2, "tool", [b"v"] * 6, range(6))
    described = TOOLS.run("TopicCommand", "--describe", *where)
    for index, leader in cluster.leaders(1, "tool").items():
        assert f"Partition: {index}\tLeader: {leader}\tReplicas: {leader}\tIsr: {leader}" in described
    TOOLS.run("TopicCommand", "--alter", *where, "--partitions", "7")
    eventually(lambda: len(cluster.led(3, "tool")) == 7)
    TOOLS.run("TopicCommand", "--delete", *where)
    eventually(lambda: cluster.node("/brokers/topics/tool") is None)
    eventually(lambda: all("tool" not in cluster.metadata(number).topics for number in cluster.brokers))


def test_configurations(cluster: Cluster) -> None:
    cluster.create(1, "configured", 3)
    where = ("--zookeeper", cluster.zookeeper_connect, "--alter")
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    TOOLS.run("ConfigCommand", *where, *topic, "--add-config", "retention.ms=4711")
    eventually(lambda: [_retention(cluster, via) for via in cluster.brokers] == ["4711"] * 3)
    shown = TOOLS.run("ConfigCommand", "--zookeeper", cluster.zookeeper_connect, "--describe", *topic)
    assert "retention.ms=4711" in shown
    TOOLS.run("ConfigCommand", *where, *topic, "--delete-config", "retention.ms")
    eventually(lambda: "4711" not in [_retention(cluster, via) for via in cluster.brokers])


def test_the_shell(cluster: Cluster) -> None:
    servers = cluster.zookeeper_connect.partition("/")[0]

    def shell(*words: str) -> str:
        return TOOLS.run("ZooKeeperMainWithTlsSupportForKafka", "-server", servers, *words)

    assert "[1, 2, 3]" in shell("ls", f"{cluster.chroot}/brokers/ids")
    assert '"endpoints":["PLAINTEXT://127.0.0.1:' in shell("get", f"{cluster.chroot}/brokers/ids/2")
    assert f'"brokerid":{cluster.controller(1)}' in shell("get", f"{cluster.chroot}/controller")


@pytest.mark.parametrize("through", ["a broker", "the ZooKeeper"])
def test_reassignment(cluster: Cluster, tmp_path: Path, through: str) -> None:
    topic = "moved-through-" + through.rpartition(" ")[2].lower()
    topics = ("--zookeeper", cluster.zookeeper_connect, "--topic", topic)
    TOOLS.run("TopicCommand", "--create", *topics, "--replica-assignment", "1:2,2:1")
    eventually(lambda: all(len(cluster.led(number, topic)) == 2 for number in cluster.brokers))
    cluster.produce(2, topic, [b"%d" % number for number in range(20)], range(2))
    moves = [{"topic": topic, "partition": index, "replicas": [2, 3]} for index in range(2)]
    path = tmp_path / "moves.json"
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    controller = cluster.brokers[cluster.controller(1)]
    where = ("--bootstrap-server", controller.bootstrap)
    if through == "the ZooKeeper":
        where = ("--zookeeper", cluster.zookeeper_connect)
    command = (*where, "--reassignment-json-file", str(path))
    assert "Successfully started partition reassignments" in TOOLS.run(
        "ReassignPartitionsCommand", *command, "--execute"
    )
    eventually(lambda: set(cluster.leaders(1, topic).values()) == {2})
    eventually(
        lambda: all(
            (sorted(found.replicas), sorted(found.isrs)) == ([2, 3], [2, 3])
            for found in cluster.metadata(3).topics[topic].partitions.values()
        )
    )
    eventually(lambda: cluster.node("/admin/reassign_partitions") is None)
    verified = TOOLS.run("ReassignPartitionsCommand", *command, "--verify", "--preserve-throttles")
    assert verified.count("is complete") == 2
    if through == "a broker":
        assert "No partition reassignments found" in TOOLS.run("ReassignPartitionsCommand", *where, "--list")
