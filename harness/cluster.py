"""Several `kafkapy start` processes that form a cluster on one ZooKeeper, and what tests ask of it."""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST, ChildProcess, wait_for
from harness.real_kafka import ZooKeeper

SESSION_MS = 6_000
"""The tests' ZooKeeper would give 2 s, two of its ticks; brokers on a busy machine need more."""
WAIT_S = 30.0
CHROOTS = (f"/brokers-{os.getpid()}-{number}" for number in itertools.count())
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
}


def eventually(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Fails when the condition does not come to hold; a broker that can't be asked yet is asked again."""

    def holds() -> bool:
        try:
            return condition()
        except KafkaException:
            return False

    assert wait_for(holds, timeout_s)


class Cluster:
    """Brokers 1, 2, … below a chroot of their own."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Their files are in ``directory`` and stay there, or in temporary directories."""
        self.chroot = next(CHROOTS)
        self.directory = directory
        self.zookeeper_connect = f"{HOST}:{zookeeper.port}{self.chroot}"
        self.config = {**SETTINGS, "zookeeper.connect": self.zookeeper_connect, **(config or {})}
        self.brokers: dict[int, ChildProcess] = {number: self.new_broker(number) for number in range(1, brokers + 1)}

    def new_broker(self, broker_id: int, **config: str) -> ChildProcess:
        """One more process, not started."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        directory = None if self.directory is None else self.directory / f"broker-{broker_id}"
        return KafkapyProcess(config={**self.config, "broker.id": str(broker_id), **settings}, directory=directory)

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.start()
        eventually(lambda: self.agrees(self.brokers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, broker in self.brokers.items():
            if kind is not None:
                print(f"--- broker {number}\n{broker.log_tail()}")
            broker.kill()
            broker.close()

    def admin(self, broker_id: int) -> AdminClient:
        """A client that begins with one broker."""
        return AdminClient({"bootstrap.servers": self.brokers[broker_id].bootstrap, "log_level": 0})

    def metadata(self, broker_id: int) -> ClusterMetadata:
        """The answer of one broker."""
        return self.admin(broker_id).list_topics(timeout=10)

    def agrees(self, live: Iterable[int]) -> bool:
        """Whether each of these brokers names exactly these, and the same controller."""
        expected = set(live)
        found = [self.metadata(number) for number in expected]
        controllers = {each.controller_id for each in found}
        return (
            len(controllers) == 1 and controllers <= expected and all(set(each.brokers) == expected for each in found)
        )

    def controller(self, of: int) -> int:
        """The controller, as a broker has it; -1 for none."""
        return self.metadata(of).controller_id

    def leaders(self, of: int, topic: str) -> dict[int, int]:
        """Partition → leader, as a broker has it."""
        found = self.metadata(of).topics.get(topic)
        return {} if found is None else {index: each.leader for index, each in found.partitions.items()}

    def create(self, via: int, topic: str, partitions: int) -> None:
        """Creates a topic with one replica of each partition; returns when all running brokers know the leaders."""
        admin = self.admin(via)  # its answers end with it
        (created,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
        created.result(WAIT_S)
        running = [number for number, broker in self.brokers.items() if broker.pid is not None]
        eventually(lambda: all(len(self.led(number, topic)) == partitions for number in running))

    def led(self, of: int, topic: str) -> dict[int, int]:
        """The partitions that have a leader."""
        return {index: leader for index, leader in self.leaders(of, topic).items() if leader >= 0}

    def produce(self, via: int, topic: str, values: Sequence[bytes], partitions: Sequence[int]) -> None:
        """Writes values to the partitions in turn, all acknowledged."""
        producer = Producer({"bootstrap.servers": self.brokers[via].bootstrap, "log_level": 0})
        failed: list[object] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)

        for value, partition in zip(values, itertools.cycle(partitions)):
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        assert producer.flush(WAIT_S) == 0
        assert failed == []

    def consume(self, via: int, topic: str, partitions: Iterable[int], count: int) -> list[bytes]:
        """Reads that many values from the beginning of these partitions; they come sorted."""
        consumer = Consumer({"bootstrap.servers": self.brokers[via].bootstrap, "group.id": "none", "log_level": 0})
        consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
        found = read_values(consumer, count)
        consumer.close()
        return sorted(found)

    @contextmanager
    def tree(self) -> Iterator[Any]:
        """A ZooKeeper client below the chroot."""
        with tree_at(self.zookeeper_connect) as tree:
            yield tree

    def node(self, path: str) -> tuple[bytes | None, Any] | None:
        """A node's data and stat."""
        with self.tree() as tree:
            try:  # a look whether it is there would not do: it may disappear after it
                found: tuple[bytes | None, Any] = tree.get(path)
            except NoNodeError:
                return None
        return found

    def registration_epoch(self, broker_id: int) -> int:
        """The czxid of a broker's registration, 0 while it has none."""
        found = self.node(f"/brokers/ids/{broker_id}")
        return 0 if found is None else found[1].czxid


@contextmanager
def tree_at(zookeeper_connect: str) -> Iterator[Any]:
    """A ZooKeeper client below a chroot, which it creates."""
    servers, _, chroot = zookeeper_connect.partition("/")
    client = KazooClient(servers)
    client.start()
    try:
        client.ensure_path("/" + chroot)
        client.chroot = "/" + chroot
        yield client
    finally:
        client.stop()
        client.close()


def read_values(consumer: Consumer, count: int) -> list[bytes]:
    """That many values, or those that came in time."""
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    return found
