"""A broker on a ZooKeeper gets the metadata of a cluster in parts, in random order, from a controller of the test."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from compat_tests.chaos.checks import partition_of
from compat_tests.chaos.three_machines import INTERNAL_TOPICS
from harness.kafkapy_process import KafkapyProcess
from harness.process import wait_for
from harness.real_kafka import ZooKeeper
from harness.wire import Wire
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]
COUNTS = {**dict.fromkeys(INTERNAL_TOPICS, 50), "large": 200}
BROKER, CONTROLLER = 1, 9
LEADERS = (1, 2, 3)
PARTS = 5
NAMES = 40
START_S = 240.0


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Any]:
    """A client of a ZooKeeper that has the topics, and in which the test is the controller."""
    zookeeper = ZooKeeper("2.7.2", tmp_path / "zookeeper", {"maxSessionTimeout": str(int(START_S * 1000))})
    zookeeper.start(wait=False).wait_ready(START_S)
    client: Any = KazooClient(zookeeper.bootstrap, timeout=START_S)
    try:
        client.start(timeout=START_S)
        client.ensure_path("/brokers/topics")
        client.create("/controller_epoch", b"1")
        client.create("/controller", json.dumps({"version": 1, "brokerid": CONTROLLER, "timestamp": "0"}).encode())
        for topic, count in COUNTS.items():
            assigned = {str(index): list(LEADERS) for index in range(count)}
            client.create(f"/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": assigned}).encode())
            for index in range(count):
                state = {
                    "controller_epoch": 1,
                    "leader": leader(index),
                    "version": 1,
                    "leader_epoch": 0,
                    "isr": LEADERS,
                }
                path = f"/brokers/topics/{topic}/partitions/{index}/state"
                client.create(path, json.dumps(state).encode(), makepath=True)
        yield client
    finally:
        client.stop()
        client.close()
        zookeeper.close()


def leader(index: int) -> int:
    return LEADERS[index % len(LEADERS)]


def part(bootstrap: str, broker_epoch: int, partitions: list[tuple[str, int]]) -> UpdateMetadataRequest:
    """An UpdateMetadata request with some partitions of the cluster."""
    states = {
        name: [
            UpdateMetadataPartitionState(
                partition_index=index, controller_epoch=1, leader=leader(index), isr=list(LEADERS),
                replicas=list(LEADERS),
            )
            for topic, index in partitions
            if topic == name
        ]
        for name in COUNTS
    }  # fmt: skip
    port = int(bootstrap.rpartition(":")[2])
    endpoint = UpdateMetadataEndpoint(port=port, host="127.0.0.1", listener="PLAINTEXT", security_protocol=0)
    return UpdateMetadataRequest(
        controller_id=CONTROLLER,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topic_states=[
            UpdateMetadataTopicState(topic_name=name, partition_states=each) for name, each in states.items()
        ],
        live_brokers=[UpdateMetadataBroker(id=number, endpoints=[endpoint], rack=None) for number in LEADERS],
    )


@pytest.mark.parametrize("seed", range(3))
def test_coordinators_are_those_of_the_whole_topic(tree: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = {
        "broker.id": str(BROKER), "zookeeper.connect": ":".join(map(str, tree.hosts[0])),
        "zookeeper.session.timeout.ms": "60000", "zookeeper.connection.timeout.ms": "200000",
        **dict.fromkeys(("offsets.topic.num.partitions", "transaction.state.log.num.partitions"), "50"),
    }  # fmt: skip
    broker = KafkapyProcess(config=config, directory=tmp_path / "broker")
    try:
        broker.start(wait=False).wait_ready(START_S)
        path = f"/brokers/ids/{BROKER}"
        assert wait_for(lambda: tree.exists(path) is not None, START_S)
        partitions = [(topic, index) for topic, count in COUNTS.items() for index in range(count)]
        chance.shuffle(partitions)
        epoch = tree.exists(path).czxid
        with Wire(broker.bootstrap) as control, Wire(broker.bootstrap) as client:
            control.ask(part(broker.bootstrap, epoch, []), 6)
            for number in range(PARTS):
                client.send(FindCoordinatorRequest(key=f"early-{number}", key_type=number % 2), 1)
                time.sleep(0.2)
                assert control.ask(part(broker.bootstrap, epoch, partitions[number::PARTS]), 6).error_code == 0
            for _ in range(PARTS):
                client.receive()
            for kind in range(len(INTERNAL_TOPICS)):
                for name in (f"name-{number}" for number in range(NAMES)):
                    found = client.ask(FindCoordinatorRequest(key=name, key_type=kind), 1)
                    assert (found.error_code, found.node_id) == (0, leader(partition_of(name, 50))), (name, kind)
    finally:
        broker.kill()
