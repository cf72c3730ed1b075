"""One kafkapy broker and one of Apache Kafka 2.7.2 in a cluster; each of them is the controller once."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cluster import SESSION_MS, Cluster, eventually
from harness.java_tools import JavaTools
from harness.real_kafka import RealKafka, ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

OURS, THEIRS = 1, 2


@pytest.fixture(params=["kafkapy", "kafka-2.7.2"])
def cluster(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The broker that is named starts first, and is the controller therefore."""
    cluster = Cluster(zookeeper, 1)
    config = {"zookeeper.connect": cluster.zookeeper_connect, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    cluster.brokers[THEIRS] = RealKafka("2.7.2", zookeeper=zookeeper, broker_id=THEIRS, config=config)
    order = [OURS, THEIRS] if request.param == "kafkapy" else [THEIRS, OURS]
    with ExitStack() as stack:
        for number in order:
            stack.enter_context(cluster.brokers[number])
        eventually(lambda: cluster.agrees([OURS, THEIRS]))
        assert cluster.controller(OURS) == order[0]
        yield cluster
        for broker in cluster.brokers.values():
            print(broker.log_tail())


def test_topics_are_shared_out_and_both_serve(cluster: Cluster) -> None:
    cluster.create(OURS, "t", 4)
    assert sorted(cluster.leaders(OURS, "t").values()) == [OURS, OURS, THEIRS, THEIRS]
    eventually(lambda: cluster.leaders(THEIRS, "t") == cluster.leaders(OURS, "t"))
    for via in (OURS, THEIRS):
        cluster.produce(via, "t", [b"%d-%d" % (via, number) for number in range(40)], range(4))
    expected = sorted(b"%d-%d" % (via, number) for via in (OURS, THEIRS) for number in range(40))
    assert cluster.consume(OURS, "t", range(4), 80) == expected
    assert cluster.consume(THEIRS, "t", range(4), 80) == expected


def test_the_other_one_takes_over(cluster: Cluster) -> None:
    cluster.create(OURS, "t", 4)
    cluster.produce(OURS, "t", [b"%02d" % number for number in range(40)], range(4))
    first = cluster.controller(OURS)
    other = THEIRS if first == OURS else OURS
    epoch = cluster.registration_epoch(first)
    cluster.brokers[first].kill()
    eventually(lambda: cluster.controller(other) == other)
    cluster.create(other, "later", 2)
    cluster.brokers[first].start()
    eventually(lambda: cluster.agrees([OURS, THEIRS]))
    assert cluster.registration_epoch(first) > epoch
    eventually(lambda: len(cluster.led(other, "t")) == 4)
    assert cluster.consume(first, "t", range(4), 40) == [b"%02d" % number for number in range(40)]
    cluster.create(first, "last", 4)
    assert sorted(cluster.leaders(first, "last").values()) == [OURS, OURS, THEIRS, THEIRS]


def test_replicas_move_from_one_to_the_other_and_back(cluster: Cluster, tmp_path: Path) -> None:
    tools = JavaTools("2.7.2")
    topic = ("--zookeeper", cluster.zookeeper_connect, "--topic", "m")
    tools.run("TopicCommand", "--create", *topic, "--replica-assignment", f"{OURS},{OURS}")
    eventually(lambda: all(len(cluster.led(via, "m")) == 2 for via in (OURS, THEIRS)))
    path = tmp_path / "moves.json"
    sent = 0
    for target in (THEIRS, OURS):
        cluster.produce(OURS, "m", [b"%02d" % number for number in range(sent, sent + 40)], range(2))
        sent += 40
        moves = [{"topic": "m", "partition": index, "replicas": [target]} for index in range(2)]
        path.write_text(json.dumps({"version": 1, "partitions": moves}))
        where = ("--bootstrap-server", cluster.brokers[cluster.controller(OURS)].bootstrap)
        tools.run("ReassignPartitionsCommand", *where, "--reassignment-json-file", str(path), "--execute")
        for via in (OURS, THEIRS):
            eventually(lambda via=via, target=target: set(cluster.leaders(via, "m").values()) == {target})  # type: ignore[misc]
        assert cluster.consume(THEIRS, "m", range(2), sent) == [b"%02d" % number for number in range(sent)]
        found = cluster.metadata(THEIRS).topics["m"].partitions.values()
        assert [(each.replicas, each.isrs) for each in found] == [([target], [target])] * 2
