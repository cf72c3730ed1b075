"""A ZooKeeper, and on it brokers of kafkapy and of Apache Kafka, each below a chroot of its own."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient

from compat_tests.original_clients.originals import OriginalClasses, OriginalConsumers
from harness.jars import jars_directory
from harness.java import NoJavaError, find_java
from harness.java_programs import MissingToolchainError
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess
from harness.real_kafka import RealKafka, ZooKeeper

CHROOTS = (f"/original-{os.getpid()}-{number}" for number in itertools.count())
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
}


@dataclass(frozen=True)
class BrokerOnZooKeeper:
    """A broker, and where its ZooKeeper is."""

    process: ChildProcess
    zookeeper_connect: str

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self.process.bootstrap


@pytest.fixture(scope="package")
def zookeeper() -> Iterator[ZooKeeper]:
    """A running ZooKeeper of Kafka 2.7.2."""
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    if not jars_directory("2.7.2").exists():
        pytest.skip("the jars of Kafka 2.7.2 are not here: run make jars")
    with ZooKeeper() as server:
        yield server


@pytest.fixture(scope="package", params=["kafkapy", pytest.param("kafka-2.7.2", marks=pytest.mark.long)])
def on_zookeeper(request: pytest.FixtureRequest, zookeeper: ZooKeeper) -> Iterator[BrokerOnZooKeeper]:
    """A broker of each kind."""
    connect = f"{zookeeper.bootstrap}{next(CHROOTS)}"
    config = {**SETTINGS, "broker.id": "1", "zookeeper.connect": connect}
    process = (
        KafkapyProcess(config=config)
        if request.param == "kafkapy"
        else RealKafka("2.7.2", config=config, zookeeper=zookeeper, broker_id=1)
    )
    with process:
        yield BrokerOnZooKeeper(process, connect)


@pytest.fixture
def tree(on_zookeeper: BrokerOnZooKeeper) -> Iterator[KazooClient]:
    """The broker's ZooKeeper tree."""
    client = KazooClient(on_zookeeper.zookeeper_connect)
    client.start()
    with closing(client):
        yield client
        client.stop()


@pytest.fixture(scope="package")
def originals() -> Iterator[Callable[[str], OriginalConsumers]]:
    """Gives the running program with the consumers of a release."""
    running: dict[str, OriginalConsumers] = {}

    def program(version: str) -> OriginalConsumers:
        if version not in running:
            try:
                running[version] = OriginalConsumers(version)
            except MissingToolchainError as missing:
                pytest.skip(str(missing))
        return running[version]

    yield program
    for each in running.values():
        each.agent.close()


@pytest.fixture(scope="package")
def assignor(on_zookeeper: BrokerOnZooKeeper) -> Iterator[OriginalClasses]:
    """Kafka 0.8.2's own assignment for the groups in the broker's ZooKeeper."""
    try:
        found = OriginalClasses(on_zookeeper.zookeeper_connect)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    yield found
    found.agent.close()
