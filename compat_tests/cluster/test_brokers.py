"""kafkapy brokers, each a process, form a cluster on a real ZooKeeper."""

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from kazoo.exceptions import NoAuthError

from harness.cluster import SESSION_MS, WAIT_S, Cluster, eventually, read_values, tree_at
from harness.process import wait_for
from harness.real_kafka import ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

EXPIRY_S = SESSION_MS / 1000 + 3
ID_IN_USE_S = 30
"""How long a start waits for the end of a session that has its id."""


@pytest.fixture
def cluster(zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with Cluster(zookeeper) as started:
        yield started


def _values(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}-{number:04}".encode() for number in range(count)]


def test_topics_are_spread_and_every_broker_serves_them(cluster: Cluster) -> None:
    cluster.create(2, "t", 6)
    leaders = cluster.leaders(1, "t")
    assert sorted(leaders.values()) == [1, 1, 2, 2, 3, 3]
    assert cluster.leaders(2, "t") == cluster.leaders(3, "t") == leaders
    written: list[bytes] = []
    for via in cluster.brokers:
        values = _values(f"via-{via}", 60)
        cluster.produce(via, "t", values, range(6))
        written += values
    for via in cluster.brokers:
        assert cluster.consume(via, "t", range(6), len(written)) == sorted(written)


def test_groups_have_coordinators_on_all_brokers(cluster: Cluster) -> None:
    cluster.create(1, "t", 3)
    cluster.produce(1, "t", _values("v", 30), range(3))
    for via, group in ((1, "a"), (2, "b"), (3, "c"), (1, "d")):
        settings = {"bootstrap.servers": cluster.brokers[via].bootstrap, "group.id": group, "log_level": 0}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert len(read_values(consumer, 30)) == 30
        consumer.commit(asynchronous=False)
        consumer.close()
    eventually(lambda: sorted(cluster.led(3, "__consumer_offsets").values()) == [1, 2, 3])


def test_a_transaction_reaches_partitions_of_all_brokers(cluster: Cluster) -> None:
    cluster.create(3, "t", 3)
    for via in cluster.brokers:
        producer = Producer(
            {"bootstrap.servers": cluster.brokers[via].bootstrap, "transactional.id": f"x-{via}", "log_level": 0}
        )
        producer.init_transactions(WAIT_S)
        for ends in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for partition in range(3):
                producer.produce("t", f"{ends.__name__}-{via}-{partition}", partition=partition)
            ends(WAIT_S)
    found = cluster.consume(2, "t", range(3), 9)
    assert found == sorted(f"commit_transaction-{via}-{index}".encode() for via in (1, 2, 3) for index in range(3))


def test_producer_ids_come_from_blocks_of_their_own(cluster: Cluster) -> None:
    found = cluster.node("/latest_producer_id_block")
    assert found is not None
    block = json.loads(found[0] or b"")
    assert (block["block_start"], block["block_end"]) == ("2000", "2999")


def test_a_configuration_that_one_broker_takes_is_known_to_all(cluster: Cluster) -> None:
    cluster.create(1, "t", 3)
    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[change])
    admin = cluster.admin(2)
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(WAIT_S)

    def retention(via: int) -> str:
        asked = ConfigResource(ConfigResource.Type.TOPIC, "t")
        admin = cluster.admin(via)
        (answer,) = admin.describe_configs([asked]).values()
        value: str = answer.result(WAIT_S)["retention.ms"].value
        return value

    eventually(lambda: [retention(via) for via in cluster.brokers] == ["123456"] * 3)


def test_another_broker_takes_over_from_a_controller_that_is_killed(cluster: Cluster) -> None:
    cluster.create(1, "before", 6)
    values = _values("before", 60)
    cluster.produce(1, "before", values, range(6))
    killed = cluster.controller(1)
    epoch = cluster.registration_epoch(killed)
    cluster.brokers[killed].kill()
    cluster.brokers[killed].start(wait=False)  # its session of before is still there: it waits for the end of that
    others = [number for number in cluster.brokers if number != killed]
    eventually(lambda: cluster.controller(others[0]) in others)
    cluster.create(others[1], "after", 4)
    cluster.brokers[killed].wait_ready()
    assert "is registered already" in cluster.brokers[killed].log_tail()
    eventually(lambda: cluster.agrees([1, 2, 3]))
    assert cluster.controller(killed) in others
    assert cluster.registration_epoch(killed) > epoch
    eventually(lambda: len(cluster.led(others[0], "before")) == 6)
    assert cluster.consume(killed, "before", range(6), 60) == values
    cluster.create(killed, "last", 3)
    assert sorted(cluster.leaders(killed, "last").values()) == [1, 2, 3]


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_broker_whose_session_expires_registers_again(cluster: Cluster, is_controller: bool) -> None:
    cluster.create(1, "t", 3)
    values = _values("v", 30)
    cluster.produce(1, "t", values, range(3))
    controller = cluster.controller(1)
    paused = next(number for number in (1, 2, 3) if (number == controller) == is_controller)
    others = [number for number in (1, 2, 3) if number != paused]
    epoch = cluster.registration_epoch(paused)
    process = cluster.brokers[paused].pid
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        eventually(lambda: cluster.registration_epoch(paused) == 0)
        eventually(lambda: cluster.agrees(others))
    finally:
        os.kill(process, signal.SIGCONT)
    eventually(lambda: cluster.registration_epoch(paused) > epoch)
    eventually(lambda: cluster.agrees([1, 2, 3]))
    assert "The session with the metadata store has expired" in cluster.brokers[paused].log_tail()
    eventually(lambda: len(cluster.led(others[0], "t")) == 3)
    assert cluster.consume(paused, "t", range(3), 30) == values
    cluster.create(paused, "later", 3)
    cluster.produce(paused, "later", values, range(3))


def test_brokers_that_stop_leave_at_once(cluster: Cluster) -> None:
    started = time.monotonic()
    assert cluster.brokers[3].stop() == 0
    assert cluster.registration_epoch(3) == 0
    eventually(lambda: cluster.agrees([1, 2]))
    assert time.monotonic() - started < EXPIRY_S


def test_brokers_go_on_while_zookeeper_is_away() -> None:
    with ZooKeeper() as zookeeper, Cluster(zookeeper, 2) as cluster:
        cluster.create(1, "t", 2)
        cluster.produce(1, "t", [b"before"], [0])
        assert cluster.consume(1, "t", [0], 1) == [b"before"]  # this makes __consumer_offsets, which needs ZooKeeper
        epochs = [cluster.registration_epoch(number) for number in (1, 2)]
        zookeeper.kill()
        eventually(lambda: "The connection to ZooKeeper is lost" in cluster.brokers[2].log_tail())
        values = _values("meanwhile", 20)
        cluster.produce(2, "t", values, range(2))
        assert cluster.consume(1, "t", range(2), 21) == [b"before", *values]
        zookeeper.start()
        eventually(lambda: "the session goes on" in cluster.brokers[2].log_tail())
        cluster.create(1, "later", 2)
        assert [cluster.registration_epoch(number) for number in (1, 2)] == epochs
        zookeeper.kill()
        stopping = time.monotonic()
        assert [broker.stop() for broker in cluster.brokers.values()] == [0, 0]
        assert time.monotonic() - stopping < 15


def test_an_id_that_is_taken_is_refused(cluster: Cluster) -> None:
    before = cluster.node("/brokers/ids/1")
    twin = cluster.new_broker(1)
    try:
        twin.start(wait=False)
        assert wait_for(lambda: bool(twin.why_gone()), ID_IN_USE_S + 15)
        assert "kafkapy: A broker with id 1 is registered already" in twin.log_tail(1)
        assert "Traceback" not in twin.log_tail()
    finally:
        twin.close()
    assert cluster.node("/brokers/ids/1") == before
    assert cluster.agrees([1, 2, 3])


def test_a_data_directory_of_another_cluster_is_refused(zookeeper: ZooKeeper) -> None:
    with Cluster(zookeeper, 1) as first, Cluster(zookeeper, 1) as second:
        first.brokers[1].stop()
        stray = first.brokers[1]
        for connect in (second.zookeeper_connect, f"{second.zookeeper_connect}-empty"):
            stray.overrides["zookeeper.connect"] = connect
            stray.start(wait=False)
            eventually(lambda: bool(stray.why_gone()))
            assert "kafkapy: the data directory belongs to cluster" in stray.log_tail(1)
            stray.stop()
        with tree_at(f"{second.zookeeper_connect}-empty") as tree:
            assert tree.get_children("/") == []


@pytest.mark.parametrize("path", ["/cluster/id", "/latest_producer_id_block"])
def test_foreign_bytes_are_left_as_they_are(zookeeper: ZooKeeper, path: str) -> None:
    cluster = Cluster(zookeeper, 1)
    (broker,) = cluster.brokers.values()
    with cluster.tree() as tree:
        tree.create(path, b"\x00\xfffoo", makepath=True)
        try:
            broker.start(wait=False)
            eventually(lambda: bool(broker.why_gone()))
            assert f"kafkapy: the node {path} in the cluster's metadata holds" in broker.log_tail(1)
            assert "Traceback" not in broker.log_tail()
        finally:
            broker.close()
        assert tree.get(path)[0] == b"\x00\xfffoo"


def test_broker_ids_are_generated(zookeeper: ZooKeeper) -> None:
    cluster = Cluster(zookeeper, 0)
    brokers = [cluster.new_broker(-1) for _ in range(2)]
    try:
        for broker in brokers:
            broker.start()
        with cluster.tree() as tree:
            assert sorted(tree.get_children("/brokers/ids")) == ["1001", "1002"]
        brokers[0].stop()
        brokers[0].start()
        with cluster.tree() as tree:
            assert sorted(tree.get_children("/brokers/ids")) == ["1001", "1002"]
    finally:
        for broker in brokers:
            broker.close()


def test_protected_nodes_belong_to_the_brokers(zookeeper: ZooKeeper) -> None:
    config = {"zookeeper.set.acl": "true", "kafkapy.zookeeper.digest": "kafka:secret"}
    with Cluster(zookeeper, 2, config) as cluster:
        cluster.create(1, "t", 2)
        cluster.produce(2, "t", [b"v"] * 4, range(2))
        with cluster.tree() as tree:
            assert tree.get("/brokers/topics/t")[0].startswith(b'{"version":2')
            for change in (tree.delete, lambda path: tree.set(path, b"")):
                with pytest.raises(NoAuthError):
                    change("/brokers/topics/t")
            with pytest.raises(NoAuthError):
                tree.get_children("/config/brokers")
            tree.create("/consumers/old", b"")
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        eventually(lambda: len(cluster.led(2, "t")) == 2)
