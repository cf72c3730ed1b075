"""The brokers that are compared: kafkapy and two releases of Apache Kafka, each a process on loopback."""

import compileall
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.cluster import BrokerCluster
from harness.kafkapy_process import ROOT, KafkapyProcess
from harness.measure import BrokerGoneError, LoadError, processor_time
from harness.process import HOST, ChildProcess, free_port
from harness.real_kafka import AS_IN_PRODUCTION, RealKafka, ZooKeeper
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.users import set_password
from kafkapy.testing.hosting.security import BrokerSecurity

KAFKAPY = "kafkapy"
KAFKAS = ("kafka-2.7.2", "kafka-4.4.0")
NAMES = (KAFKAPY, *KAFKAS)
HEAP = "1G"
SETTINGS = {
    "log.segment.delete.delay.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",  # a group of KIP-848 settles without a wait
}
CLUSTER_SETTINGS = {
    "log.retention.check.interval.ms": "10000",
    "zookeeper.session.timeout.ms": "18000",
    "auto.leader.rebalance.enable": "false",  # leaders move when a load makes them move
}
ZOOKEEPER_SETTINGS = {"tickTime": "100", "minSessionTimeout": "2000", "maxSessionTimeout": "60000"}
"""Sessions end at a tick: with ticks of 100 ms they all last about as long."""
TIMEOUT_S = 30.0
ITERATIONS = 4096
"""Of a password of SCRAM: what Kafka's tool takes."""


class Contestant:
    """One running broker, and what was written to it so far."""

    def __init__(self, name: str, process: ChildProcess, scratch: Path) -> None:
        self.name = name
        self.process = process
        self.scratch = scratch
        self.records: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return self.process.bootstrap

    @property
    def client_settings(self) -> dict[str, object]:
        """What librdkafka needs to put a load on it."""
        return {"bootstrap.servers": self.bootstrap}

    @property
    def java_properties(self) -> dict[str, str]:
        """What Kafka's tools need for the same, as properties."""
        return {"bootstrap.servers": self.bootstrap}

    @property
    def port(self) -> int:
        """Its loopback port."""
        return self.process.port

    @property
    def pid(self) -> int:
        """The broker's process id; raises BrokerGoneError when it was stopped."""
        if self.process.pid is None:
            raise BrokerGoneError(f"{self.name} is not running")
        return self.process.pid

    def check_alive(self) -> None:
        """Raises BrokerGoneError, with the last line of its log, when the broker ended by itself."""
        try:
            processor_time(self.pid)
        except BrokerGoneError:
            said = self.process.log_tail(1) or "nothing"
            raise BrokerGoneError(f"{self.name} died; the last it said: {said}") from None

    def ensure_topic(self, topic: str, config: dict[str, str] | None = None, partitions: int = 1) -> None:
        """Creates the topic if this run hasn't yet, and waits until its first partition has a leader."""
        if topic in self.records:
            return
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self._wait(
            admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})], operation_timeout=TIMEOUT_S)[
                topic
            ],
            "create",
            topic,
        )
        self.records[topic] = 0
        deadline = time.monotonic() + TIMEOUT_S
        while self._end_offset(topic) is None:
            if time.monotonic() > deadline:
                raise LoadError(f"{self.name}: {topic} got no leader in {TIMEOUT_S:.0f} s")
            time.sleep(0.05)

    def check_records(self, topic: str, added: int) -> None:
        """Counts a produce run of so many records, and raises LoadError when the log's end says otherwise."""
        self.records[topic] += added
        end = self._end_offset(topic)
        if end != self.records[topic]:
            raise LoadError(f"{self.name}: {topic} ends at {end} after {self.records[topic]} acknowledged records")

    def drop_topics(self) -> None:
        """Deletes the data of the loads, so that the next loads have the disk space."""
        if self.records:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            for topic, done in admin.delete_topics(list(self.records), operation_timeout=TIMEOUT_S).items():
                self._wait(done, "delete", topic)
            self.records.clear()

    def _wait(self, done: object, what: str, topic: str) -> None:
        try:
            done.result(TIMEOUT_S)  # type: ignore[attr-defined]  # confluent-kafka doesn't name its futures' type
        except KafkaException as error:
            raise LoadError(f"{self.name}: could not {what} {topic}: {error.args[0].str()}") from None

    def _end_offset(self, topic: str) -> int | None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench", "log_level": 0})
        try:
            end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)[1]
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TRANSPORT:
                self.check_alive()
            return None
        finally:
            consumer.close()
        return end


class SecuredContestant(Contestant):
    """A broker that has a listener with TLS, and one where users log in, beside that without security.

    Loads reach it by TLS; what prepares and checks them does not.
    """

    TLS, SCRAM = BrokerSecurity("ssl"), BrokerSecurity("scram_plaintext")

    def __init__(self, name: str, process: ChildProcess, scratch: Path) -> None:
        super().__init__(name, process, scratch)
        self.tls_port, self.scram_port = free_port(), free_port()
        listeners = [f"PLAINTEXT://{process.bootstrap}", f"SSL://{HOST}:{self.tls_port}"]
        listeners.append(f"SASL_PLAINTEXT://{HOST}:{self.scram_port}")
        protocols = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT"]
        process.overrides |= {**self.TLS.broker_settings(), **self.SCRAM.broker_settings()}
        if isinstance(process, RealKafka) and not process.has_zookeeper:
            listeners.append(process.controller_listener)
        process.overrides["listeners"] = ",".join(listeners)
        process.overrides["listener.security.protocol.map"] = ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{each}:{each}" for each in protocols)]
        )

    def start(self) -> Self:
        """Start the broker and store the credentials of its users."""
        self.process.start()
        with ClusterClient(self.bootstrap) as client:
            for user, password in self.SCRAM.users.items():
                set_password(client, user, password, [self.SCRAM.kind.mechanism], ITERATIONS)
        return self

    @property
    def client_settings(self) -> dict[str, object]:
        return self.TLS.client_settings("librdkafka", f"{HOST}:{self.tls_port}")

    @property
    def java_properties(self) -> dict[str, str]:
        found = self.TLS.client_settings("java", f"{HOST}:{self.tls_port}")
        return {name: str(value) for name, value in found.items()}


class Visitor(Contestant):
    """Contestants of a few loads only, which start them themselves."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.scratch = scratch
        self.records = {}

    def check_alive(self) -> None:
        """Do nothing: no process of this contestant runs between its loads."""


class Arena:
    """Starts contestants, all of them gone when it is left; `fresh` ones come in addition to those that run."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.scratch = Path(tempfile.mkdtemp(prefix="bench-"))
        self._stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        self._zookeeper: ZooKeeper | None = None
        self._clusters: dict[str, BrokerCluster] = {}
        self._secured: dict[str, SecuredContestant] = {}
        self._stack.callback(self.end_shared_clusters)
        self._count = 0
        # An installed package has its byte code; a work tree may not, and compiling is no part of a start.
        compileall.compile_dir(ROOT / "kafkapy", quiet=2)

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def running(self, name: str) -> Contestant:
        """A broker with an empty data directory that answers and runs as long as the arena."""
        process = self.prepared(name)
        self._stack.callback(process.close)
        process.start()
        return Contestant(name, process, self.scratch)

    def prepared(self, name: str) -> ChildProcess:
        """A broker that isn't started; whoever takes it closes it. A 2.7.2 finds its ZooKeeper running."""
        self._count += 1
        directory = self.scratch / f"{name}-{self._count}"
        if name == KAFKAPY:
            return KafkapyProcess(config=SETTINGS, directory=directory)
        version = name.removeprefix("kafka-")
        if not version.startswith("2."):
            return RealKafka(version, config=SETTINGS, directory=directory, heap=HEAP, jvm=AS_IN_PRODUCTION)
        zookeeper = self._running_zookeeper(version)
        chroot = f"127.0.0.1:{zookeeper.port}/bench-{self._count}"
        settings = {**SETTINGS, "zookeeper.connect": chroot}
        return RealKafka(
            version, config=settings, directory=directory, heap=HEAP, jvm=AS_IN_PRODUCTION, zookeeper=zookeeper
        )

    def secured(self, name: str) -> SecuredContestant:
        """A broker with security that runs as long as the arena, made at the first call: rounds make it warm."""
        if name not in self._secured:
            process = self.prepared(name)
            self._stack.callback(process.close)
            self._secured[name] = SecuredContestant(name, process, self.scratch).start()
        return self._secured[name]

    @contextmanager
    def fresh(self, name: str, config: Mapping[str, str] | None = None) -> Iterator[Contestant]:
        """A broker of its own, started, with `config` on top; it ends with the context."""
        process = self.prepared(name)
        process.overrides |= config or {}
        try:
            process.start()
            yield Contestant(name, process, self.scratch)
        finally:
            process.close()

    @contextmanager
    def cluster(self, name: str, heap: str = HEAP) -> Iterator[BrokerCluster]:
        """Three new brokers that know each other; they end with the context, and their data are removed."""
        cluster = self._cluster(name, heap)
        try:
            yield cluster.start()
        finally:
            cluster.close()

    def shared_cluster(self, name: str) -> BrokerCluster:
        """Three brokers that live until ``end_shared_clusters``, made at the first call: rounds make them warm."""
        if name not in self._clusters:
            self._clusters[name] = self._cluster(name, HEAP)
            self._clusters[name].start()
        return self._clusters[name]

    def end_shared_clusters(self) -> None:
        """Ends them: they use memory."""
        while self._clusters:
            self._clusters.popitem()[1].close()

    def _cluster(self, name: str, heap: str) -> BrokerCluster:
        self._count += 1
        zookeeper = self._running_zookeeper("2.7.2")
        zookeeper_connect = f"{HOST}:{zookeeper.port}/cluster-{self._count}"
        common = {**SETTINGS, **CLUSTER_SETTINGS, "zookeeper.connect": zookeeper_connect}
        brokers: dict[int, ChildProcess] = {}
        for number in (1, 2, 3):
            settings = {**common, "broker.id": str(number)}
            directory = self.scratch / f"{name}-cluster-{self._count}-{number}"
            if name == KAFKAPY:
                brokers[number] = KafkapyProcess(config=settings, directory=directory)
            else:
                version = name.removeprefix("kafka-")
                brokers[number] = RealKafka(
                    version, config=settings, directory=directory, heap=heap, jvm=AS_IN_PRODUCTION, zookeeper=zookeeper
                )
        return BrokerCluster(name, brokers, zookeeper_connect)

    def _running_zookeeper(self, version: str) -> ZooKeeper:
        if self._zookeeper is None:
            self._zookeeper = ZooKeeper(version, self.scratch / "zookeeper", ZOOKEEPER_SETTINGS)
            self._stack.callback(self._zookeeper.close)
            self._zookeeper.start()
        return self._zookeeper
