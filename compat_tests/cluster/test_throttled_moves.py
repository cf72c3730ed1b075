"""``kafka-reassign-partitions --throttle`` of Apache Kafka 2.7.2: the rate of the move, and the end of the throttle."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.both import APACHE, KAFKAPY, cluster_of
from harness.cluster import Cluster, eventually
from harness.java_tools import JavaTools
from harness.real_kafka import ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOOLS = JavaTools("2.7.2")
RECORD_SIZE, RECORDS = 10_000, 3_000
RATE = 2_000_000
"""Bytes per second."""
EXPECTED_S = RECORD_SIZE * RECORDS / RATE
EARLY, LATE = 0.6, 2.0
"""Parts of ``EXPECTED_S``: a follower that waits looks at the rate once a second, and the machine may be busy."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture(scope="module", params=[KAFKAPY, pytest.param(APACHE, marks=[pytest.mark.together, pytest.mark.long])])
def cluster(request: pytest.FixtureRequest, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with cluster_of(request.param, zookeeper) as started:
        yield started


def _config(cluster: Cluster, path: str) -> dict[str, str]:
    """The overrides of a topic or broker, as they are in the ZooKeeper."""
    node = cluster.node(f"/config/{path}")
    found: dict[str, str] = {} if node is None else json.loads(node[0] or b"{}").get("config", {})
    return found


def _prepared(cluster: Cluster, topic: str, path: Path, through: str) -> tuple[str, ...]:
    """A topic with records on the brokers 1 and 2; returns the options of the tool that moves the second to 3."""
    where = ("--zookeeper", cluster.zookeeper_connect, "--topic", topic)
    TOOLS.run("TopicCommand", "--create", *where, "--replica-assignment", "1:2")
    eventually(lambda: all(cluster.led(number, topic) == {0: 1} for number in cluster.brokers))
    cluster.produce(1, topic, [bytes(RECORD_SIZE)] * RECORDS, [0])
    moves = path / "moves.json"
    moves.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1, 3]}]}))
    if through == "the ZooKeeper":
        return ("--zookeeper", cluster.zookeeper_connect, "--reassignment-json-file", str(moves))
    controller = cluster.brokers[cluster.controller(1)]
    return ("--bootstrap-server", controller.bootstrap, "--reassignment-json-file", str(moves))


@pytest.mark.parametrize("through", ["a broker", "the ZooKeeper"])
def test_a_throttled_move_takes_its_time(cluster: Cluster, tmp_path: Path, through: str) -> None:
    topic = "moved-through-" + through.rpartition(" ")[2].lower()
    command = _prepared(cluster, topic, tmp_path, through)
    watch = _Watch(cluster, topic)
    started = TOOLS.run("ReassignPartitionsCommand", *command, "--execute", "--throttle", str(RATE))
    assert f"The inter-broker throttle limit was set to {RATE} B/s" in started
    for broker in (1, 2, 3):
        assert _config(cluster, f"brokers/{broker}") == dict.fromkeys(RATES, str(RATE))
    assert _config(cluster, f"topics/{topic}") == dict(zip(REPLICAS, ("0:1,0:2", "0:3"), strict=True))
    taken_s = watch.result()
    print(f"{RECORD_SIZE * RECORDS} bytes at {RATE} a second took {taken_s:.1f} s")
    assert EARLY * EXPECTED_S <= taken_s <= LATE * EXPECTED_S
    verified = TOOLS.run("ReassignPartitionsCommand", *command, "--verify")
    assert "is complete" in verified
    assert "Clearing broker-level throttles on brokers 1,2,3" in verified
    assert f"Clearing topic-level throttles on topic {topic}" in verified
    assert [_config(cluster, f"brokers/{broker}") for broker in (1, 2, 3)] == [{}] * 3
    assert _config(cluster, f"topics/{topic}") == {}
    assert cluster.consume(3, topic, [0], RECORDS) == [bytes(RECORD_SIZE)] * RECORDS


class _Watch:
    """Measures how long broker 3 is a replica that is not in sync."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._begun_s = self._ended_s = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        eventually(lambda: 3 in _replicas(self._cluster, self._topic)[0], timeout_s=60)
        self._begun_s = time.monotonic()
        eventually(lambda: _replicas(self._cluster, self._topic) == ([1, 3], [1, 3]), timeout_s=120)
        self._ended_s = time.monotonic()

    def result(self) -> float:
        self._thread.join(180)
        assert self._ended_s, "the move did not end"
        return self._ended_s - self._begun_s


def _replicas(cluster: Cluster, topic: str) -> tuple[list[int], list[int]]:
    found = cluster.metadata(2).topics[topic].partitions[0]
    return sorted(found.replicas), sorted(found.isrs)


def test_the_throttle_of_a_running_move_can_be_raised(cluster: Cluster, tmp_path: Path) -> None:
    topic = "raised"
    command = _prepared(cluster, topic, tmp_path, "a broker")
    TOOLS.run("ReassignPartitionsCommand", *command, "--execute", "--throttle", "1000")
    raised = str(100 * RATE)
    TOOLS.run("ReassignPartitionsCommand", *command, "--execute", "--additional", "--throttle", raised)
    assert _config(cluster, "brokers/1") == dict.fromkeys(RATES, raised)
    eventually(lambda: _replicas(cluster, topic) == ([1, 3], [1, 3]), timeout_s=60)
    assert "is complete" in TOOLS.run("ReassignPartitionsCommand", *command, "--verify")
    assert _config(cluster, "brokers/1") == {}
