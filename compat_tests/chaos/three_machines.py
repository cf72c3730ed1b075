"""Three brokers and their ZooKeeper, each on its own machine where that is possible: the targets of fault windows."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from compat_tests.chaos.namespaces import Network
from compat_tests.chaos.workload import PARTITIONS, SHORT
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess, wait_for
from harness.real_kafka import RealKafka, ZooKeeper
from harness.wire import Wire
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.records.batch import iterate_headers

BROKERS = (1, 2, 3)
ZOOKEEPER = 100
SESSION_MS = 6000
DISK_MB = 160
WAIT_S = 120.0
ASK_EVERY_S = 0.25
CREATED_AT_ONCE = 50
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
KEPT_TOPIC = "kept-0"
"""A topic that no round deletes; `Size.topics` has more of them."""
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "5000",
    "replica.socket.timeout.ms": "6000",
    "controller.socket.timeout.ms": "6000",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "500",
    "leader.imbalance.check.interval.seconds": "10",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.segment.bytes": "200000",
    "log.index.size.max.bytes": "100000",
    "offsets.topic.segment.bytes": "100000",
    "transaction.state.log.segment.bytes": "100000",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
KAFKA_SETTINGS = {"unclean.leader.election.enable": "false"}


@dataclass(frozen=True)
class Size:
    """Partitions of each internal topic, further topics, and the session time-out of the brokers in ZooKeeper.

    The small clusters of other tests get their metadata in one piece. Here the first pieces have some partitions only.
    """

    internal_partitions: int = 50
    topics: int = 200
    partitions_each: int = 3
    session_ms: int = SESSION_MS

    def settings(self) -> dict[str, str]:
        """The settings of the brokers."""
        count = str(self.internal_partitions)
        return {
            "offsets.topic.num.partitions": count,
            "transaction.state.log.num.partitions": count,
            "zookeeper.session.timeout.ms": str(self.session_ms),
            "zookeeper.connection.timeout.ms": str(5 * self.session_ms),
        }

    def new_topics(self) -> list[NewTopic]:
        """The topics that no round deletes."""
        return [NewTopic(f"kept-{number}", self.partitions_each, 3) for number in range(max(self.topics, 1))]


class ThreeMachines:
    """Started on entering; `network` is None where there are no namespaces, then all are on loopback."""

    def __init__(self, target: str, directory: Path, network: Network | None, size: Size) -> None:
        self.target = target
        self.size = size
        self.network = network
        self.directory = directory
        directory.mkdir(parents=True)
        self.zookeeper = ZooKeeper("2.7.2", directory / "zookeeper")
        self._place(self.zookeeper, ZOOKEEPER)
        self._disks: list[Path] = []
        self.brokers: dict[int, ChildProcess] = {number: self._new_broker(number) for number in BROKERS}
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())
        self._admin: AdminClient | None = None

    def _place(self, process: ChildProcess, number: int) -> None:
        if self.network is not None:
            machine = self.network.machines[number]
            process.host, process.prefix = machine.address, machine.prefix

    def _new_broker(self, number: int) -> ChildProcess:
        directory = self.directory / f"broker-{number}"
        config = {
            **SETTINGS,
            **self.size.settings(),
            "broker.id": str(number),
            "zookeeper.connect": self.zookeeper.bootstrap,
        }
        if self.network is not None:
            disk = self.directory / f"disk-{number}"
            disk.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", disk], check=True)
            self._disks.append(disk)
            config["log.dirs"] = str(disk / "data")
        broker: ChildProcess
        if self.target == "kafka":
            broker = RealKafka(
                "2.7.2", config={**config, **KAFKA_SETTINGS}, directory=directory, zookeeper=self.zookeeper,
                broker_id=number, heap="384M",
            )  # fmt: skip
        else:
            broker = KafkapyProcess(config=config, directory=directory)
        self._place(broker, number)
        return broker

    def disk(self, number: int) -> Path:
        """The file system of a broker's own."""
        return self.directory / f"disk-{number}"

    def data(self, number: int) -> Path:
        """A broker's data directory."""
        return self.disk(number) / "data" if self._disks else self.directory / f"broker-{number}" / "data"

    def __enter__(self) -> Self:
        try:
            self.zookeeper.start(wait=False).wait_ready(WAIT_S)
            for broker in self.brokers.values():
                broker.start(wait=False)
            for broker in self.brokers.values():
                broker.wait_ready(WAIT_S)
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, **SHORT})
            self.wait(lambda: set(self.metadata().brokers) == set(BROKERS), "three registered brokers")
            self._create(self.size.new_topics())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes; the files stay."""
        for process in (*self.brokers.values(), self.zookeeper):
            process.kill()
        for disk in self._disks:
            subprocess.run(["umount", "--lazy", disk], check=True)
        self._disks.clear()

    def keep(self) -> None:
        """Copies what is on the disks, which end with the program, into the directory of the run."""
        for disk in self._disks:
            shutil.copytree(disk, disk.with_name(f"{disk.name}-kept"), dirs_exist_ok=True)

    def metadata(self) -> ClusterMetadata:
        """The answer of one of the brokers; raises KafkaException when none answers."""
        assert self._admin is not None
        return self._admin.list_topics(timeout=20)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> float:
        """Waits for it and returns the seconds; raises NoProgressError."""
        began_s = time.monotonic()

        def holds() -> bool:
            try:
                return condition()
            except KafkaException:
                return False

        if not wait_for(holds, timeout_s, ASK_EVERY_S):
            raise NoProgressError(f"no progress: {what} after {timeout_s:.0f} s")
        return time.monotonic() - began_s

    def create_topics(self, *names: str) -> None:
        """Creates topics with three replicas of each partition; returns when their leaders are known."""
        self._create([NewTopic(name, PARTITIONS, 3) for name in names])
        self.wait(lambda: self.is_whole(names), f"leaders of {names}")

    def _create(self, topics: list[NewTopic]) -> None:
        assert self._admin is not None
        deadline = time.monotonic() + WAIT_S
        missing = topics
        while missing and time.monotonic() < deadline:
            created = self._admin.create_topics(missing[:CREATED_AT_ONCE], request_timeout=10)
            for future in created.values():
                with suppress(KafkaException):  # of a controller that has just changed, or since it exists
                    future.result(15)
            with suppress(KafkaException):  # of a broker that is still busy with the creations
                there = set(self.metadata().topics)
                missing = [each for each in missing if each.topic not in there]
        if missing:
            raise NoProgressError(f"no progress: {len(missing)} of {len(topics)} topics are not created")

    def delete_topics(self, *names: str) -> None:
        """Deletes topics; those that can't be deleted just now stay."""
        assert self._admin is not None
        for future in self._admin.delete_topics(list(names), request_timeout=10).values():
            with suppress(KafkaException):
                future.result(15)

    def is_whole(self, topics: tuple[str, ...], replicas: int = 3) -> bool:
        """Whether all brokers are there, and all replicas of these topics and of the internal ones in sync."""
        found = self.metadata()
        if set(found.brokers) != set(BROKERS) or found.controller_id not in BROKERS:
            return False
        if not set(topics) <= set(found.topics):
            return False
        names = [*topics, *(name for name in INTERNAL_TOPICS if name in found.topics)]
        partitions = [each for name in names for each in found.topics[name].partitions.values()]
        return all(each.leader in BROKERS and len(each.isrs) >= replicas for each in partitions)

    def states(self, topics: tuple[str, ...]) -> dict[str, tuple[int, list[int]]]:
        """Leader and in-sync replicas of the partitions of these topics and of the internal ones, as far as known."""
        with suppress(KafkaException):
            return {
                f"{topic}-{index}": (each.leader, each.isrs)
                for topic, described in self.metadata().topics.items()
                for index, each in described.partitions.items()
                if topic in topics or topic in INTERNAL_TOPICS
            }
        return {}

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader of a partition, if there is one."""
        with suppress(KafkaException, KeyError):
            leader: int = self.metadata().topics[topic].partitions[partition].leader
            return leader if leader in BROKERS else None
        return None

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition, as ZooKeeper has it; -1 for none, nothing for a topic that does not exist."""
        path = f"/brokers/topics/{topic}/partitions"
        with self.tree() as tree:
            try:
                found = {int(index): tree.get(f"{path}/{index}/state")[0] for index in tree.get_children(path)}
            except NoNodeError:
                return {}
        return {index: int(json.loads(state)["leader"]) for index, state in found.items()}

    def controller(self) -> int | None:
        """The controller, if there is one."""
        with suppress(KafkaException):
            found: int = self.metadata().controller_id
            return found if found in BROKERS else None
        return None

    def coordinator(self, key: str, kind: int) -> int | None:
        """The coordinator of a group (0) or of a transactional id (1), if one is known."""
        for broker in self.brokers.values():
            with suppress(OSError, AssertionError), Wire(broker.bootstrap) as wire:
                found = wire.ask(FindCoordinatorRequest(key=key, key_type=kind), 2)
                if found.node_id in BROKERS:
                    return int(found.node_id)
        return None

    def registration(self, number: int) -> int | None:
        """The session that a broker's registration belongs to; None while it is not registered."""
        with self.tree() as tree:
            try:
                return int(tree.get(f"/brokers/ids/{number}")[1].ephemeralOwner)
            except NoNodeError:
                return None

    def tree(self) -> "Tree":
        """A client of the ZooKeeper."""
        return Tree(self.zookeeper.bootstrap, self.size.session_ms)

    def wait_for_end_of_session(self, number: int) -> None:
        """A broker of Apache Kafka that starts while its dead session is registered ends at once."""
        assert wait_for(lambda: self.registration(number) is None, WAIT_S, ASK_EVERY_S), "the session does not end"

    def repeated_batches(self, topic: str) -> list[str]:
        """Batches of one producer id, epoch and sequence that a partition has twice: brokers have to notice them."""
        found: list[str] = []
        for partition in range(PARTITIONS):
            seen: set[tuple[int, int, int]] = set()
            for path in sorted((self.data(BROKERS[0]) / f"{topic}-{partition}").glob("*.log")):
                for _, header in iterate_headers(path.read_bytes()):
                    batch = (header.producer_id, header.producer_epoch, header.base_sequence)
                    if batch in seen:
                        found.append(f"batch twice: {topic}-{partition}@{header.base_offset} repeats {batch}")
                    seen.add(batch)
        return found

    def differing_replicas(self, topic: str) -> list[str]:
        """Partitions whose logs are missing, or not the same bytes on all brokers."""
        found: list[str] = []
        for partition in range(PARTITIONS):
            contents = {
                number: b"".join(
                    path.read_bytes() for path in sorted((self.data(number) / f"{topic}-{partition}").glob("*.log"))
                )
                for number in BROKERS
            }
            if len(set(contents.values())) > 1 or not all(contents.values()):
                sizes = {number: len(content) for number, content in contents.items()}
                found.append(f"replicas differ: {topic}-{partition}, bytes by broker {sizes}")
        return found


class NoProgressError(Exception):
    """The expected event did not come within its bound."""


class Tree:
    """A short-lived client of the ZooKeeper; `session` takes over a session that has an owner."""

    def __init__(self, hosts: str, session_ms: int, session: int | None = None) -> None:
        self._session_ms = session_ms
        client_id = None if session is None else (session, password_of(session))
        self._client: Any = KazooClient(hosts, timeout=session_ms / 1000, client_id=client_id)

    def __enter__(self) -> Any:
        try:
            self._client.start(timeout=max(15.0, 3 * self._session_ms / 1000))
        except (KazooTimeoutError, KazooException):
            self._client.close()
            raise
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


def password_of(session: int) -> bytes:
    """The password that ZooKeeper gives a session: 16 bytes of java.util.Random, seeded with the session's id."""
    multiplier, increment, mask = 0x5DEECE66D, 0xB, (1 << 48) - 1
    state = ((session ^ 0xB3415C00) ^ multiplier) & mask
    found = b""
    while len(found) < 16:
        state = (state * multiplier + increment) & mask
        found += (state >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return found


def temporary_directory() -> Path:
    """A directory for one run."""
    return Path(tempfile.mkdtemp(prefix="chaos-"))
