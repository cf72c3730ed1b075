"""The source and the target of a mirror's campaign: one broker, or three that share the work."""

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kazoo.client import KazooClient

from compat_tests.cluster.three_brokers import GROUP, TRANSACTION, ThreeBrokers
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess, wait_for
from harness.real_kafka import RealKafka, ZooKeeper

SETTINGS: Final = {
    "log.segment.bytes": "1000000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""Of one broker."""
IN_CLUSTER: Final = {key: SETTINGS[key] for key in SETTINGS if not key.startswith("transaction.state")}
SESSION: Final = {"zookeeper.session.timeout.ms": "6000", "zookeeper.connection.timeout.ms": "60000"}
START_S: Final = 300.0
"""A JVM takes that long where other work keeps the processors busy."""


class Aim(Enum):
    """Which of the brokers is hit; where there is one, it is each of them."""

    LEADER = "leader"
    CONTROLLER = "controller"
    GROUP = "coordinator of the group"
    TRANSACTIONS = "coordinator of the transactional id"


class Side(ABC):
    """Started on entering; ``kill`` or ``stop`` one broker, then ``restore`` it."""

    replicas: int

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The addresses for clients."""

    @abstractmethod
    def kill(self, aim: Aim) -> None:
        """SIGKILL the broker that this is aimed at."""

    @abstractmethod
    def restart(self, *, at_once: bool) -> None:
        """Start the broker that was killed; not ``at_once``: after the other brokers have noticed."""

    def stop(self, aim: Aim) -> Callable[[], None]:
        """SIGSTOP the broker that this is aimed at; what is returned continues it."""
        broker = self._hit_by(aim)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)

        def go_on() -> None:
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGCONT)
            self.settle()

        return go_on

    @abstractmethod
    def settle(self) -> None:
        """Wait until the next broker may be hit."""

    @abstractmethod
    def logs(self) -> Iterable[Path]:
        """The lines of kafkapy's brokers."""

    @abstractmethod
    def _hit_by(self, aim: Aim) -> ChildProcess: ...

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class OneBroker(Side):
    """kafkapy, or with ``release`` Apache Kafka on a ZooKeeper of its own."""

    replicas = 1

    def __init__(self, directory: Path, release: str | None = None) -> None:
        self._release = release
        self._zookeeper: ZooKeeper | None = None
        self._broker: ChildProcess
        if release is None:
            self._broker = KafkapyProcess(directory=directory, config=SETTINGS)
            return
        session = {"tickTime": "100", "minSessionTimeout": "2000"}
        self._zookeeper = ZooKeeper(release, directory.with_name("zookeeper"), session)
        self._broker = RealKafka(
            release, config={**SETTINGS, **SESSION}, directory=directory, zookeeper=self._zookeeper
        )  # fmt: skip

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def kill(self, aim: Aim) -> None:
        self._broker.kill()

    def restart(self, *, at_once: bool) -> None:
        if self._zookeeper is not None:
            _wait_for_end_of_session(self._zookeeper)
        self._start()

    def _start(self) -> None:
        self._broker.start(wait=False)
        self._broker.wait_ready(START_S)

    def settle(self) -> None:
        """A broker that is alone is there at once."""

    def logs(self) -> Iterable[Path]:
        return [self._broker.log_path] if self._release is None else []

    def _hit_by(self, aim: Aim) -> ChildProcess:
        return self._broker

    def __enter__(self) -> Self:
        try:
            if self._zookeeper is not None:
                self._zookeeper.start()
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._broker.close()
        if self._zookeeper is not None:
            self._zookeeper.close()


class ThreeBrokersSide(Side):
    """Three kafkapy brokers on a ZooKeeper that somebody else runs; each partition has three replicas."""

    replicas = 3

    def __init__(
        self, directory: Path, zookeeper: ZooKeeper, *, topics: Iterable[str], group: str, transactional_id: str
    ) -> None:  # fmt: skip
        self._topics = tuple(topics)
        self._keys = {Aim.GROUP: (group, GROUP), Aim.TRANSACTIONS: (transactional_id, TRANSACTION)}
        self._cluster = ThreeBrokers(directory.name, directory=directory, zookeeper=zookeeper, config=IN_CLUSTER)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def kill(self, aim: Aim) -> None:
        self._cluster.kill(self._id_of(aim), wait=False)

    def restart(self, *, at_once: bool) -> None:
        if not at_once:
            self._cluster.wait_whole()
        self._cluster.start()

    def settle(self) -> None:
        self._cluster.wait_in_sync()

    def logs(self) -> Iterable[Path]:
        return [broker.log_path for broker in self._cluster.brokers.values()]

    def _hit_by(self, aim: Aim) -> ChildProcess:
        return self._cluster.brokers[self._id_of(aim)]

    def _id_of(self, aim: Aim) -> int:
        if aim is Aim.CONTROLLER:
            return self._cluster.controller_id()
        if aim is Aim.LEADER:
            return self._cluster.leader_of(self._topics)
        key, kind = self._keys[aim]
        return self._cluster.coordinator_of([key], kind)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, traceback)


def _wait_for_end_of_session(zookeeper: ZooKeeper) -> None:
    """Apache Kafka does not start while its ZooKeeper has it registered."""
    client = KazooClient(zookeeper.bootstrap)
    client.start(30)
    try:
        assert wait_for(lambda: client.exists("/brokers/ids/0") is None, 30, 0.1), "the session of the broker lasts"
    finally:
        client.stop()
        client.close()
