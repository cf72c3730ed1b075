"""One group with consumers of both kinds: the Java ones of Kafka 0.8.2 and 0.9, and kafkapy's."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from compat_tests.brokers.topics import create_topic
from compat_tests.original_clients.conftest import BrokerOnZooKeeper
from compat_tests.original_clients.originals import OriginalClasses, OriginalConsumers, OriginalMember, Received
from harness.process import wait_for
from kafkapy.clients.original.consumer_connector import ConsumerConnector
from kafkapy.clients.original.registry import KazooRegistry
from kafkapy.clients.original.settings import ZooKeeperConnectSettings
from kafkapy.clients.original.streams import KafkaStream
from kafkapy.clients.original.subscription import TopicFilter

pytestmark = [pytest.mark.java, pytest.mark.together, pytest.mark.timeout(240)]

PARTITIONS = 7
WAIT_S = 30.0
Originals = Callable[[str], OriginalConsumers]


def settings(broker: BrokerOnZooKeeper, group: str, **more: str) -> dict[str, str]:
    """The same for both kinds."""
    return {
        "zookeeper.connect": broker.zookeeper_connect,
        "group.id": group,
        "zookeeper.session.timeout.ms": "6000",
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": "200",
        "rebalance.max.retries": "30",
        "rebalance.backoff.ms": "200",
        **{name.replace("_", "."): more[name] for name in more},
    }


class OwnMember:
    """A consumer of kafkapy's, whose streams threads read until it leaves."""

    def __init__(self, given: dict[str, str], topic: str, streams: int = 1, *, by_list: bool = False) -> None:
        self.connector = ConsumerConnector(given)
        self._received: list[Received] = []
        self._failures: list[BaseException] = []
        found = (
            self.connector.create_message_streams_by_filter(TopicFilter.white_list(topic), streams)
            if by_list
            else self.connector.create_message_streams({topic: streams})[topic]
        )
        self._threads = [threading.Thread(target=self._read, args=(stream,)) for stream in found]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: KafkaStream) -> None:
        try:
            for each in stream:
                self._received.append((each.topic, each.partition, each.offset, each.message.decode()))
        except BaseException as error:
            self._failures.append(error)
            raise

    def poll(self) -> list[Received]:
        """The records since the last call."""
        found, self._received = self._received, []
        return found

    def leave(self) -> list[Received]:
        """Shut down; returns what came until then."""
        self.connector.shutdown()
        for thread in self._threads:
            thread.join(10)
        assert self._failures == []
        return self.poll()


class Writer:
    """Writes numbers to all partitions in turn, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            for _ in range(10):
                self._producer.produce(self._topic, str(self.sent), partition=self.sent % PARTITIONS)
                self.sent += 1
            self._producer.poll(0)

    def stop(self) -> int:
        """All that was sent is acknowledged; returns the number of records."""
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return self.sent


class Group:
    """The registry's nodes of a group."""

    def __init__(self, tree: KazooClient, assignor: OriginalClasses, group: str, topic: str) -> None:
        self._tree = tree
        self._assignor = assignor
        self.group = group
        self.topic = topic

    def consumers(self) -> list[str]:
        """Their ids."""
        return sorted(self._tree.get_children(f"/consumers/{self.group}/ids"))

    def owners(self) -> dict[tuple[str, int], str]:
        """The owner of each partition."""
        found = {}
        try:
            for partition in self._tree.get_children(f"/consumers/{self.group}/owners/{self.topic}"):
                data, _ = self._tree.get(f"/consumers/{self.group}/owners/{self.topic}/{partition}")
                found[self.topic, int(partition)] = data.decode()
        except NoNodeError:  # it is being rebalanced
            return {}
        return found

    def becomes_steady(self, members: int) -> None:
        """Every partition gets the one owner that Kafka 0.8.2's own class computes for these members."""

        def is_steady() -> bool:
            consumers = self.consumers()
            owners = self.owners()
            return (
                len(consumers) == members
                and len(owners) == PARTITIONS
                and owners == self._assignor.owners(self.group, consumers)
            )

        assert wait_for(is_steady, WAIT_S, 0.1), (self.consumers(), self.owners())

    def offsets(self) -> dict[int, int]:
        """The offsets in ZooKeeper."""
        root = f"/consumers/{self.group}/offsets/{self.topic}"
        return {int(number): int(self._tree.get(f"{root}/{number}")[0]) for number in self._tree.get_children(root)}


@pytest.fixture
def topic(on_zookeeper: BrokerOnZooKeeper) -> str:
    name = f"mixed-{uuid.uuid4().hex[:8]}"
    create_topic(on_zookeeper.bootstrap, name, partitions=PARTITIONS)
    return name


@pytest.fixture
def writer(on_zookeeper: BrokerOnZooKeeper, topic: str) -> Iterator[Writer]:
    running = Writer(on_zookeeper.bootstrap, topic)
    yield running
    running.stop()


def check_complete(received: list[Received], sent: int) -> None:
    """Every record was delivered at least once, at one place."""
    places = {(partition, offset): value for _, partition, offset, value in received}
    assert len(places) == len({(partition, offset, value) for _, partition, offset, value in received})
    assert sorted(map(int, places.values())) == list(range(sent))


@pytest.mark.parametrize(
    ("storage", "version"),
    [
        ("zookeeper", "0.8.2.2"),
        ("kafka", "0.9.0.1"),
        pytest.param("zookeeper", "0.9.0.1", marks=pytest.mark.long),
        pytest.param("kafka", "0.8.2.2", marks=pytest.mark.long),
    ],
)
def test_members_of_both_kinds_share_a_group_and_no_record_is_skipped(
    on_zookeeper: BrokerOnZooKeeper, tree: KazooClient, assignor: OriginalClasses, originals: Originals,
    topic: str, writer: Writer, storage: str, version: str,
) -> None:  # fmt: skip
    given = settings(on_zookeeper, f"group-{topic}", offsets_storage=storage)
    group = Group(tree, assignor, f"group-{topic}", topic)
    java = originals(version)
    received: list[Received] = []

    old = java.join(given, 2, topic=topic)
    group.becomes_steady(1)
    new = OwnMember(given, topic, 2)
    group.becomes_steady(2)
    listed = OwnMember(given, f"{topic}|absent", by_list=True)
    group.becomes_steady(3)
    received += old.leave()
    group.becomes_steady(2)
    other = java.join(given, white_list=topic)
    group.becomes_steady(3)
    received += new.leave()
    group.becomes_steady(2)
    received += listed.leave()
    group.becomes_steady(1)
    last = OwnMember(given, topic)
    group.becomes_steady(2)
    received += other.leave()
    group.becomes_steady(1)
    sent = writer.stop()

    def is_read() -> bool:
        received.extend(last.poll())
        return len({(partition, offset) for _, partition, offset, _ in received}) >= sent

    assert wait_for(is_read, WAIT_S, 0.1)
    received += last.leave()
    check_complete(received, sent)
    assert len(received) < 2 * sent, "more than the records around a rebalance came twice"
    assert sum(group.offsets().values()) == sent


def test_registrations_look_alike(
    on_zookeeper: BrokerOnZooKeeper, tree: KazooClient, originals: Originals, topic: str
) -> None:
    """The same keys and values, but for the time; and the same form of names."""
    given = settings(on_zookeeper, f"group-{topic}")
    expression = f"{topic}|a\\.b"
    with ExitStack() as leaving:
        java = originals("0.8.2.2")
        members: list[OwnMember | OriginalMember] = [java.join(given, 2, topic=topic), OwnMember(given, topic, 2)]
        members += [java.join(given, 2, white_list=expression), OwnMember(given, expression, 2, by_list=True)]
        for each in members:
            leaving.callback(each.leave)
        root = f"/consumers/group-{topic}/ids"
        contents = []
        for name in tree.get_children(root):
            prefix, host_time, unique = str(name).rsplit("-", 2)
            assert prefix.startswith(f"group-{topic}_")
            assert host_time.isdecimal()
            assert len(unique) == 8
            data, stat = tree.get(f"{root}/{name}")
            assert stat.ephemeralOwner != 0
            content = json.loads(data)
            assert isinstance(content["timestamp"], str)
            assert content.pop("timestamp").isdecimal()
            contents.append(json.dumps(content, sort_keys=True))
        assert sorted(map(contents.count, contents)) == [2, 2, 2, 2]


def test_a_consumer_whose_session_expires_joins_again(
    on_zookeeper: BrokerOnZooKeeper, tree: KazooClient, topic: str, writer: Writer
) -> None:
    """Another connection ends the session, as ZooKeeper does with one that is not heard of."""
    given = settings(on_zookeeper, f"group-{topic}", consumer_timeout_ms="20000")
    registry = KazooRegistry(ZooKeeperConnectSettings(on_zookeeper.zookeeper_connect, 6_000, 20_000))
    received: list[Received] = []
    with ConsumerConnector(given, registry=registry) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        path = f"/consumers/group-{topic}/ids/{connector.consumer_id}"
        for expirations in (1, 2):
            old = tree.exists(path).ephemeralOwner
            other = KazooClient(on_zookeeper.zookeeper_connect, client_id=registry._client.client_id)
            other.start(20)
            other.stop()
            other.close()

            def has_joined(old: int = old) -> bool:
                each = next(stream)
                received.append((each.topic, each.partition, each.offset, each.message.decode()))
                stat = tree.exists(path)
                return stat is not None and stat.ephemeralOwner != old and len(connector.owned) == PARTITIONS

            assert wait_for(has_joined, WAIT_S, 0.0), expirations
        sent = writer.stop()
        while len({(partition, offset) for _, partition, offset, _ in received}) < sent:
            each = next(stream)
            received.append((each.topic, each.partition, each.offset, each.message.decode()))
    check_complete(received, sent)


@pytest.mark.parametrize("version", ["0.8.2.2", pytest.param("0.9.0.1", marks=pytest.mark.long)])
def test_a_group_moves_its_offsets_to_kafka_in_two_rounds(
    on_zookeeper: BrokerOnZooKeeper, tree: KazooClient, originals: Originals, topic: str, version: str
) -> None:
    """ZooKeeper, then both, then Kafka alone; each round by the other kind of consumer."""
    group = f"group-{topic}"
    sent = 0
    rounds = [
        ({"offsets_storage": "zookeeper"}, "java"),
        ({"offsets_storage": "kafka", "dual_commit_enabled": "true"}, "own"),
        ({"offsets_storage": "kafka", "dual_commit_enabled": "true"}, "java"),
        ({"offsets_storage": "kafka", "dual_commit_enabled": "false"}, "own"),
        ({"offsets_storage": "kafka", "dual_commit_enabled": "false"}, "java"),
        ({"offsets_storage": "kafka", "dual_commit_enabled": "true"}, "own"),
    ]
    in_zookeeper = []
    producer = Producer({"bootstrap.servers": on_zookeeper.bootstrap})
    for more, kind in rounds:
        given = settings(on_zookeeper, group, **more)
        for number in range(sent, sent + 2 * PARTITIONS):
            producer.produce(topic, str(number), partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        member = OwnMember(given, topic) if kind == "own" else originals(version).join(given, topic=topic)
        received: list[Received] = []

        def is_read(member: OwnMember | OriginalMember = member, received: list[Received] = received) -> bool:
            received.extend(member.poll())
            return len(received) >= 2 * PARTITIONS

        assert wait_for(is_read, WAIT_S, 0.05)
        received += member.leave()
        assert sorted(int(value) for *_, value in received) == list(range(sent, sent + 2 * PARTITIONS))
        sent += 2 * PARTITIONS
        root = f"/consumers/{group}/offsets/{topic}"
        in_zookeeper.append(sum(int(tree.get(f"{root}/{name}")[0]) for name in tree.get_children(root)))
    assert [total // PARTITIONS for total in in_zookeeper] == [2, 4, 6, 6, 6, 12]
