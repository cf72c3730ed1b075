"""Three kafkapy processes on a real ZooKeeper keep three replicas of each partition, those of the internal topics too.

The last test has a broker of Apache Kafka 2.7.2 as the third.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from harness.cluster import SESSION_MS, WAIT_S, Cluster, eventually, read_values
from harness.kafkapy_process import KafkapyProcess
from harness.real_kafka import RealKafka, ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "5000",
}
TOPIC = "t"


@pytest.fixture
def cluster(zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with Cluster(zookeeper, config=REPLICATED) as started:
        yield started


def create(cluster: Cluster, partitions: int = 3) -> None:
    """A topic with three replicas of each partition, all in sync."""
    admin = cluster.admin(1)
    (created,) = admin.create_topics([NewTopic(TOPIC, partitions, 3)]).values()
    created.result(WAIT_S)
    eventually(lambda: in_sync(cluster, 1) == [{1, 2, 3}] * partitions)


def in_sync(cluster: Cluster, of: int) -> list[set[int]]:
    """The in-sync replicas of each partition, as a broker has them."""
    found = cluster.metadata(of).topics.get(TOPIC)
    return [] if found is None else [set(each.isrs) for _, each in sorted(found.partitions.items())]


def all_in_sync(cluster: Cluster) -> bool:
    """Whether each broker has all three as in sync with every partition: any of them may be killed then."""
    return all(
        set(partition.isrs) == {1, 2, 3}
        for broker in cluster.brokers
        for topic in cluster.metadata(broker).topics.values()
        for partition in topic.partitions.values()
    )


def bootstrap(cluster: Cluster) -> str:
    return ",".join(broker.bootstrap for broker in cluster.brokers.values())


class Load:
    """An idempotent producer with acks=all in a thread of its own; the acknowledged values by partition, in order."""

    def __init__(self, cluster: Cluster, partitions: int = 3) -> None:
        self.acknowledged: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
        self.failed: list[str] = []
        self._is_over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap(cluster),
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Write within; everything is acknowledged afterwards."""
        self._thread.start()
        self.advance()
        yield self
        self.advance()
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(90) == 0
        assert self.failed == []

    def advance(self, count: int = 300) -> None:
        """Wait until that many more values of each partition are acknowledged."""
        before = {index: len(values) for index, values in self.acknowledged.items()}
        eventually(lambda: all(len(self.acknowledged[index]) >= before[index] + count for index in before), 90)

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            for index in self.acknowledged:
                self._producer.produce(TOPIC, b"%08d" % number, partition=index, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.002)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()].append(message.value())  # type: ignore[attr-defined]  # untyped


def check_all_there(cluster: Cluster, load: Load, via: int) -> None:
    """Each acknowledged value is read once, in order."""
    for index, values in load.acknowledged.items():
        consumer = Consumer({"bootstrap.servers": cluster.brokers[via].bootstrap, "group.id": "none", "log_level": 0})
        consumer.assign([TopicPartition(TOPIC, index, 0)])
        assert read_values(consumer, len(values)) == values
        consumer.close()


def check_logs_equal(cluster: Cluster, data: Sequence[Path], partitions: int = 3) -> None:
    """The ``.log`` files of all replicas have the same bytes."""
    for index in range(partitions):

        def contents(index: int = index) -> set[bytes]:
            return {
                b"".join(path.read_bytes() for path in sorted((each / f"{TOPIC}-{index}").glob("*.log")))
                for each in data
            }

        eventually(lambda found=contents: len(found()) == 1)  # type: ignore[misc]  # a lambda's default


def data_of(cluster: Cluster) -> list[Path]:
    return [broker.data for broker in cluster.brokers.values()]  # type: ignore[attr-defined]  # both kinds have it


def _killed(cluster: Cluster, broker: int) -> None:
    cluster.brokers[broker].kill()


def _stopped(cluster: Cluster, broker: int) -> None:
    cluster.brokers[broker].stop()


@pytest.mark.parametrize("end", [_killed, _stopped])
def test_acknowledged_records_survive_the_end_of_each_broker(
    cluster: Cluster, end: Callable[[Cluster, int], None]
) -> None:
    create(cluster)
    with Load(cluster).running() as load:
        for number in (1, 2, 3):
            end(cluster, number)
            others = [other for other in (1, 2, 3) if other != number]
            eventually(lambda n=number, of=others[0]: all(n not in each for each in in_sync(cluster, of)))  # type: ignore[misc]
            load.advance()
            cluster.brokers[number].start()
            eventually(lambda of=others[0]: in_sync(cluster, of) == [{1, 2, 3}] * 3)  # type: ignore[misc]
    check_all_there(cluster, load, 1)
    check_logs_equal(cluster, data_of(cluster))


def test_a_stopping_broker_hands_its_leaderships_over_first(cluster: Cluster) -> None:
    create(cluster)
    cluster.produce(1, TOPIC, [b"%d" % number for number in range(30)], range(3))
    cluster.brokers[2].stop()
    assert "The controller has moved the leaderships of this broker to others" in cluster.brokers[2].log_tail(200)
    assert 2 not in cluster.leaders(1, TOPIC).values()
    assert len(cluster.led(1, TOPIC)) == 3


def test_groups_and_transactions_continue_when_their_coordinator_is_killed(cluster: Cluster) -> None:
    create(cluster)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap(cluster),
            "transactional.id": "x",
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    written: list[bytes] = []
    for number in range(6):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, each) for each in range(10)]
        for each, value in enumerate(values):
            producer.produce(TOPIC, value, partition=each % 3)
        if number in (2, 4):
            owner = cluster.led(1 if number == 2 else 3, "__transaction_state")
            victim = next(leader for leader in owner.values() if leader != (1 if number == 2 else 3))
            cluster.brokers[victim].kill()
            producer.commit_transaction(60)
            cluster.brokers[victim].start()
            eventually(lambda: all_in_sync(cluster), 60)
        else:
            producer.commit_transaction(60)
        written += values
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(cluster),
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    assert sorted(read_values(consumer, len(written))) == sorted(written)
    partitions = [TopicPartition(TOPIC, index) for index in range(3)]
    consumer.commit(offsets=consumer.position(partitions), asynchronous=False)
    committed = {each.partition: each.offset for each in consumer.committed(partitions, 10)}
    assert min(committed.values()) > 0
    for leader in set(cluster.led(1, "__consumer_offsets").values()):
        eventually(lambda: all_in_sync(cluster), 60)  # else the last one in sync may be killed
        cluster.brokers[leader].kill()
        eventually(
            lambda: {each.partition: each.offset for each in consumer.committed(partitions, 10)} == committed, 60
        )
        cluster.brokers[leader].start()
    consumer.close()


def test_a_broker_of_apache_kafka_is_one_of_the_three(zookeeper: ZooKeeper) -> None:
    """It leads and follows; the controller moves from kafkapy to it and back."""
    cluster = Cluster(zookeeper, 2, config=REPLICATED)
    theirs = {**cluster.config, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    cluster.brokers[3] = RealKafka("2.7.2", zookeeper=zookeeper, broker_id=3, config=theirs)
    with ExitStack() as stack:
        for number in (1, 3, 2):
            stack.enter_context(cluster.brokers[number])
        eventually(lambda: cluster.agrees([1, 2, 3]))
        assert isinstance(cluster.brokers[cluster.controller(1)], KafkapyProcess)
        create(cluster)
        with Load(cluster).running() as load:
            for number in (1, 3, 2):
                cluster.brokers[number].kill()
                others = [other for other in (1, 2, 3) if other != number]
                eventually(lambda n=number, of=others[0]: all(n not in each for each in in_sync(cluster, of)))  # type: ignore[misc]
                load.advance()
                cluster.brokers[number].start()
                eventually(lambda of=others[0]: in_sync(cluster, of) == [{1, 2, 3}] * 3, 60)  # type: ignore[misc]
        check_all_there(cluster, load, 3)
        check_logs_equal(cluster, data_of(cluster))
