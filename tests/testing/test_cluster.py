"""Several brokers of one cluster in the test's process, used by stock clients."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer

from kafkapy.testing import (
    Broker,
    BrokerNotRunningError,
    BrokerStartError,
    Cluster,
    NotInTimeError,
    RequestRefusedError,
    UnknownNameError,
)

START_S = 2.0
"""Generous: about 0.1 s on an idle machine."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A cluster for tests that leave every broker running."""
    with Cluster(topics={"t": 3}) as running:
        yield running


class Written:
    """Values that a producer of librdkafka writes with acks=all, and those of them that were acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._count = 0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "retry.backoff.ms": 20, "linger.ms": 0,
             "reconnect.backoff.ms": 20, "enable.idempotence": True}
        )  # fmt: skip

    def write(self, count: int) -> None:
        for _ in range(count):
            self._count += 1
            self._producer.produce(self._topic, b"%d" % self._count, on_delivery=self._delivered)

    def flush(self) -> None:
        assert self._producer.flush(20) == 0
        assert self.failed == []

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(message.value())  # type: ignore[attr-defined]


def values_of(broker: Broker | Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


# starting


def test_three_brokers_serve_soon() -> None:
    took_s = []
    for _ in range(3):
        began_s = time.perf_counter()
        with Cluster() as cluster:
            took_s.append(time.perf_counter() - began_s)
            assert [broker.is_running for broker in cluster.brokers] == [True, True, True]
            assert [broker.id for broker in cluster.brokers] == [0, 1, 2]
            assert cluster.bootstrap.split(",") == [broker.bootstrap for broker in cluster.brokers]
    assert min(took_s) < START_S


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (4, 3)])
def test_topics_are_replicated_on_up_to_three_brokers(brokers: int, replicas: int) -> None:
    with Cluster(brokers, topics=["t"]) as cluster:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        consumer.subscribe(["t"])
        cluster.leader("t").produce("t", b"v")
        consumer.poll(0)
        found = consumer.list_topics().topics
        while "__consumer_offsets" not in found:
            consumer.poll(0.05)
            found = consumer.list_topics().topics
        assert {name: len(found[name].partitions[0].replicas) for name in found} == {
            "t": replicas,
            "__consumer_offsets": replicas,
        }
        assert cluster.coordinator("g").is_running
        consumer.close()


def test_the_replication_factor_of_a_topic_can_be_chosen(shared: Cluster) -> None:
    shared.create_topic("two", 4, {"min.insync.replicas": 2}, replication_factor=2)
    shared.brokers[2].create_topic("one", replication_factor=1)
    found = Producer({"bootstrap.servers": shared.bootstrap}).list_topics().topics
    assert {len(each.replicas) for each in found["two"].partitions.values()} == {2}
    assert len(found["one"].partitions[0].replicas) == 1
    assert all(broker.topics()["two"] == 4 for broker in shared.brokers)
    with pytest.raises(RequestRefusedError, match="INVALID_REPLICATION_FACTOR"):
        shared.create_topic("four", replication_factor=4)
    shared.brokers[1].delete_topic("two")
    shared.delete_topic("one")
    assert all(broker.topics().keys().isdisjoint({"one", "two"}) for broker in shared.brokers)


def test_a_cluster_can_be_started_again_and_is_then_empty() -> None:
    cluster = Cluster(2, topics=["t"])
    for _ in range(2):
        with cluster:
            assert values_of(cluster, "t") == []
            cluster.leader("t").produce("t", b"v")
            assert cluster.start() is cluster
        assert not any(broker.is_running for broker in cluster.brokers)
        cluster.close()


def test_calls_without_a_running_cluster_are_refused() -> None:
    cluster = Cluster()
    for ask in (lambda: cluster.controller, lambda: cluster.bootstrap, cluster.brokers[0].start, cluster.heal):
        with pytest.raises(BrokerNotRunningError, match="was not started"):
            ask()
    with Cluster(1) as one:
        one.brokers[0].stop()
        with pytest.raises(BrokerNotRunningError, match="all brokers of the cluster are stopped"):
            _ = one.controller
        one.brokers[0].start()
        assert one.controller is one.brokers[0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"broker.id": 7}, "broker.id is no setting of a cluster"), ({"num.partition": 1}, "did you mean")],
)
def test_a_cluster_that_can_not_start_says_why(settings: dict[str, object], problem: str) -> None:
    cluster = Cluster(3, settings)
    with pytest.raises(BrokerStartError, match=problem):
        cluster.start()
    assert not any(broker.is_running for broker in cluster.brokers)


@pytest.mark.parametrize("brokers", [-1, 0, 65, 1000])
def test_a_cluster_of_too_few_or_too_many_brokers_is_refused(brokers: int) -> None:
    with pytest.raises(BrokerStartError, match=f"a cluster of {brokers} brokers can't be had: ask for 1 to 64"):
        Cluster(brokers)


def test_the_ports_follow_the_first_one() -> None:
    with Cluster(1) as free:
        port = free.brokers[0].port
    with Cluster(1, port=port) as cluster:
        assert cluster.bootstrap == f"127.0.0.1:{port}"
        # another program may have the port before it
        with pytest.raises(BrokerStartError, match=f"port ({port - 1}|{port}) of 127.0.0.1 is not available"):
            Cluster(2, port=port - 1).start()


# kept data


def test_kept_data_are_there_at_the_next_start(tmp_path: Path) -> None:
    for restarts in range(3):
        with Cluster(data=tmp_path / "kept", topics={"t": 3}) as cluster:
            assert len(cluster.records("t")) == 3 * restarts
            for partition in range(3):
                cluster.produce("t", b"v", partition=partition)
            assert {cluster.leader("t", partition).id for partition in range(3)} == {0, 1, 2}
            if restarts:
                assert cluster.coordinator("g").committed("g") == {("t", 0): 1}
            else:
                consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
                consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
                consumer.close()
        names = {path.name for path in (tmp_path / "kept").iterdir()}
        assert {"broker0", "broker1", "broker2", "kafkapy-metadata.sqlite"} <= names
        assert all((tmp_path / "kept" / f"broker{at}" / ".kafka_cleanshutdown").exists() for at in range(3))


def test_kept_data_survive_a_kill_and_a_paused_broker(tmp_path: Path) -> None:
    with Cluster(data=tmp_path, topics=["t"]) as cluster:
        cluster.produce("t", b"1")
        cluster.leader("t").kill()
        cluster.produce("t", b"2")
        cluster.leader("t").pause()
    with Cluster(data=tmp_path, topics=["t"]) as cluster:
        assert values_of(cluster, "t") == [b"1", b"2"]


def test_kept_data_of_a_cluster_can_be_used_by_more_brokers_but_not_by_fewer(tmp_path: Path) -> None:
    with Cluster(2, data=tmp_path, topics=["t"]) as cluster:
        cluster.produce("t", b"v")
        with pytest.raises(BrokerStartError, match="is in use by another broker of this process"):
            Cluster(2, data=tmp_path).start()
    with pytest.raises(BrokerStartError, match="has the data of 2 brokers: a cluster of 1 would miss records, start 2"):
        Cluster(1, data=tmp_path).start()
    with Cluster(3, data=tmp_path) as cluster:
        assert values_of(cluster, "t") == [b"v"]
        cluster.create_topic("new", 3)
        assert {cluster.leader("new", partition).id for partition in range(3)} == {0, 1, 2}


def test_a_directory_that_is_not_a_clusters_is_refused(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "single"):
        pass
    with pytest.raises(BrokerStartError, match=r"single is the data directory of a single broker, by its meta"):
        Cluster(data=tmp_path / "single").start()
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerStartError, match="file can't be used as a data directory: Not a directory"):
        Cluster(data=tmp_path / "file").start()
    with Cluster(1, data=tmp_path / "one"), Cluster(1, data=tmp_path / "two"):
        pass
    (tmp_path / "one" / "broker0").rename(tmp_path / "two" / "broker1")
    with pytest.raises(BrokerStartError, match=r"broker1 belongs to cluster \S+ by its meta.properties"):
        Cluster(2, data=tmp_path / "two").start()


def test_a_single_broker_refuses_the_directory_of_a_cluster(tmp_path: Path) -> None:
    with Cluster(2, data=tmp_path, topics=["t"]) as cluster:
        cluster.produce("t", b"v")
    with pytest.raises(BrokerStartError, match=r"broker0 is not a partition's folder"):
        Broker(data=tmp_path).start()
    with Cluster(2, data=tmp_path) as cluster:
        assert values_of(cluster, "t") == [b"v"]


def test_kept_data_without_their_metadata_are_refused(tmp_path: Path) -> None:
    with Cluster(2, data=tmp_path):
        pass
    for path in tmp_path.glob("kafkapy-metadata*"):
        path.unlink()
    with pytest.raises(
        BrokerStartError, match=r"kafkapy-metadata.sqlite and its journal are missing: they hold the topics"
    ):
        Cluster(2, data=tmp_path).start()
    assert (tmp_path / "broker1" / "meta.properties").exists()


def test_unknown_names_are_reported(shared: Cluster) -> None:
    for ask in (shared.leader, shared.records, shared.wait_until_in_sync):
        with pytest.raises(UnknownNameError, match="there is no topic 'no'"):
            ask("no")
    with pytest.raises(UnknownNameError, match="partition of 't': '7'"):
        shared.leader("t", 7)
    with pytest.raises(UnknownNameError, match="there is no topic 'no'"):
        shared.produce("no", b"v")
    with pytest.raises(UnknownNameError, match="there is no broker '3'; there is 0, 1, 2"):
        shared.separate([3])


def test_records_are_read_from_all_leaders(shared: Cluster) -> None:
    shared.create_topic("spread", 3)
    leaders = {shared.leader("spread", partition).id for partition in range(3)}
    assert leaders == {0, 1, 2}
    written = Written(shared, "spread")
    written.write(30)
    written.flush()
    records = shared.wait_for_records("spread", 30)
    assert {record.value for record in records} == set(written.acknowledged)
    assert shared.records("spread", partition=1) == [record for record in records if record.partition == 1]
    with pytest.raises(NotInTimeError, match="'spread' has 30 records, 31 are waited for"):
        shared.wait_for_records("spread", 31, timeout_s=0.02)


def test_records_are_written_by_the_leaders(shared: Cluster) -> None:
    shared.create_topic("keyed", 3)
    placed = [shared.produce("keyed", b"v", key=b"%d" % at) for at in range(6)]
    assert {record.partition for record in placed} == {0, 1, 2}
    assert shared.records("keyed") == sorted(placed)
    assert shared.produce("keyed", b"v", partition=2, timestamp=5).timestamp == 5


# brokers that end and come back


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_nothing_acknowledged_is_lost_with_the_leader(end: str) -> None:
    with Cluster(settings={"min.insync.replicas": 2}, topics=["t"]) as cluster:
        leader = cluster.leader("t")
        written = Written(cluster, "t")
        written.write(50)
        written.flush()
        written.write(50)
        getattr(leader, end)()
        written.write(50)
        written.flush()
        assert cluster.leader("t") is not leader
        assert values_of(cluster, "t") == written.acknowledged == [b"%d" % at for at in range(1, 151)]

        leader.start()
        cluster.wait_until_in_sync("t")
        assert [record.value for record in leader.wait_for_records("t", 150)] == written.acknowledged


def test_acknowledged_records_are_seen_at_once_on_a_new_leader() -> None:
    with Cluster(topics={"t": 6}) as cluster:
        for partition in range(6):
            cluster.produce("t", b"v", partition=partition)
        cluster.leader("t").kill()
        assert len(cluster.records("t")) == 6


def test_records_of_a_new_leader_without_its_followers_are_not_reported() -> None:
    long_fetches = {"replica.fetch.wait.max.ms": 3_000}  # followers learn the high watermark at the end of a fetch
    with Cluster(4, long_fetches, topics={"t": 4}) as cluster:
        controller = cluster.controller.id
        partitions = Producer({"bootstrap.servers": cluster.bootstrap}).list_topics().topics["t"].partitions
        (place, replicas) = next(
            (at, each.replicas) for at, each in partitions.items() if controller not in each.replicas
        )
        cluster.produce("t", b"v", partition=place)
        leader = cluster.leader("t", place)
        first, second = (each for each in replicas if each != leader.id)
        cluster.separate([first, controller], [second, controller])
        leader.kill()
        assert cluster.leader("t", place).id in (first, second)
        with pytest.raises(NotInTimeError, match=f"followers of t-{place} do not fetch"):
            cluster.wait_for_records("t", 1, partition=place, timeout_s=0.05)
        cluster.heal()
        assert [record.value for record in cluster.records("t", partition=place)] == [b"v"]


def test_the_controller_is_replaced_and_topics_can_be_created() -> None:
    with Cluster() as cluster:
        first = cluster.controller
        first.kill()
        assert cluster.controller is not first
        cluster.create_topic("t", 2, replication_factor=2)
        first.start()
        assert first.topics() == {"t": 2}


def test_a_group_continues_without_its_coordinator() -> None:
    with Cluster(topics=["t"]) as cluster:
        written = Written(cluster, "t")
        written.write(10)
        written.flush()

        def read(count: int) -> list[bytes]:
            consumer = KafkaConsumer(
                "t", bootstrap_servers=cluster.bootstrap.split(","), group_id="g", auto_offset_reset="earliest",
                enable_auto_commit=False, reconnect_backoff_ms=20, retry_backoff_ms=20,
            )  # fmt: skip
            found = [next(consumer).value for _ in range(count)]
            consumer.commit()
            consumer.close()
            return found

        assert read(4) == written.acknowledged[:4]
        coordinator = cluster.coordinator("g")
        coordinator.kill()
        assert cluster.coordinator("g") is not coordinator
        assert read(6) == written.acknowledged[4:]
        assert cluster.coordinator("g").committed("g") == {("t", 0): 10}


def test_a_stopped_broker_keeps_its_address(shared: Cluster) -> None:
    broker = shared.brokers[1]
    address = broker.bootstrap
    broker.close()
    assert not broker.is_running
    with broker as again:
        assert again.bootstrap == address
    broker.start()
    shared.wait_until_in_sync()


# pauses, the network, time


def test_a_paused_leader_answers_when_it_is_resumed() -> None:
    with Cluster(topics=["t"]) as cluster:
        leader = cluster.leader("t")
        written = Written(cluster, "t")
        written.write(1)
        written.flush()
        leader.pause()
        written.write(1)
        with pytest.raises(NotInTimeError):
            cluster.wait_for_records("t", 2, timeout_s=0.2)
        leader.resume()
        written.flush()
        assert values_of(cluster, "t") == [b"1", b"2"]


def test_a_cluster_with_a_paused_controller_can_be_closed() -> None:
    began_s = time.perf_counter()
    with Cluster(topics=["t"]) as cluster:
        cluster.controller.pause()
    assert time.perf_counter() - began_s < 10


def test_a_separated_follower_leaves_the_replicas_in_sync_and_catches_up() -> None:
    with Cluster(topics=["t"]) as cluster:
        leader = cluster.leader("t")
        (follower, *_) = [each for each in cluster.brokers if each not in (leader, cluster.controller)]
        written = Written(cluster, "t")
        written.write(10)
        written.flush()
        follower.wait_for_records("t", 10)
        with cluster.separated([follower.id]):
            written.write(10)
            with pytest.raises(NotInTimeError):  # the high watermark waits for the follower
                cluster.wait_for_records("t", 11, timeout_s=0.2)
            cluster.clock.advance(60_000)  # replica.lag.time.max.ms is 30 s
            written.flush()
            assert len(values_of(cluster, "t")) == 20
            assert len(values_of(follower, "t")) == 10
            with pytest.raises(NotInTimeError, match="t-0 is in sync on"):
                cluster.wait_until_in_sync("t", timeout_s=0.02)
        follower.wait_for_records("t", 20)
        cluster.wait_until_in_sync("t")
        assert values_of(follower, "t") == written.acknowledged


def test_a_broker_in_two_groups_reaches_both() -> None:
    with Cluster(topics=["t"]) as cluster:
        leader = cluster.leader("t")
        left, right = (broker for broker in cluster.brokers if broker is not leader)
        with cluster.separated([leader.id, left.id], [leader.id, right.id]):
            cluster.produce("t", b"v")
            for broker in cluster.brokers:
                broker.wait_for_records("t", 1)


def test_all_brokers_have_one_clock(shared: Cluster) -> None:
    before_ms = shared.clock.now_ms()
    shared.brokers[2].clock.advance(3_600_000)
    assert shared.clock is shared.brokers[0].clock
    assert shared.clock.now_ms() >= before_ms + 3_600_000
    shared.wait_until_in_sync()
