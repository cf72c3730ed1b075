"""Three brokers on a ZooKeeper of their own as one target of the scenarios: kafkapy, or a release of Apache Kafka.

Every partition has three replicas, those of the internal topics too, and a write with acks=all needs two of them. One
broker at a time may be killed: the one that leads some topics, the coordinator of some groups, or the controller.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat_tests.groups.wire import Wire, join_request
from harness.cluster import SESSION_MS, Cluster
from harness.process import READY_TIMEOUT_S, BrokerError, ChildProcess
from harness.real_kafka import RealKafka, ZooKeeper
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

BROKERS = 3
NEEDED = 2
INTERNAL_PARTITIONS = 6
PATIENCE_S = 60.0
READY_S = BROKERS * READY_TIMEOUT_S
"""They share the machine while they start."""
PAUSE_S = 0.05
GROUP, TRANSACTION = 0, 1
UNKNOWN_MEMBER_ID = 25
REPLICATED = {
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": str(NEEDED),
    "offsets.topic.replication.factor": str(BROKERS),
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.replication.factor": str(BROKERS),
    "transaction.state.log.min.isr": str(NEEDED),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "zookeeper.session.timeout.ms": str(SESSION_MS),
}
Step = Callable[[], None]


class ThreeBrokers(Cluster):
    """The brokers 1, 2 and 3; `version` is that of Apache Kafka, None for kafkapy."""

    pid: int | None = None
    data: Path | None = None

    def __init__(
        self,
        name: str,
        version: str | None = None,
        *,
        directory: Path | None = None,
        zookeeper: ZooKeeper | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """A ``zookeeper`` that is given runs already, and somebody else stops it."""
        self.name = name
        self.version = version
        self._has_own_zookeeper = zookeeper is None
        self.zookeeper = ZooKeeper() if zookeeper is None else zookeeper
        self._killed: int | None = None
        super().__init__(self.zookeeper, BROKERS, {**REPLICATED, **(config or {})}, directory)

    def new_broker(self, broker_id: int, **config: str) -> ChildProcess:
        """One more process of this kind, not started."""
        if self.version is None:
            return super().new_broker(broker_id, **config)
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return RealKafka(
            self.version, zookeeper=self.zookeeper, broker_id=broker_id, config={**self.config, **settings}
        )

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def port(self) -> int:
        """The first broker's."""
        return self.brokers[1].port

    def why_gone(self) -> str:
        """The reason why one of the processes ended although it was not killed; "" while they serve."""
        reasons = (process.why_gone() for process in (*self.brokers.values(), self.zookeeper))
        return next(filter(None, reasons), "")

    def __enter__(self) -> Self:
        try:
            if self._has_own_zookeeper:
                self.zookeeper.start()
            for broker in self.brokers.values():
                broker.start(wait=False)
            for broker in self.brokers.values():
                broker.wait_ready(READY_S)
            self._wait(self.is_whole, "all brokers to know of each other")
            self._make_internal_topics()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        if self._has_own_zookeeper:
            self.zookeeper.close()

    # --- what it looks like ------------------------------------------------------------------------------------

    def ask(self, request: Any, version: int, broker_id: int | None = None) -> Any:
        """The answer of this broker, or of any that runs."""
        chosen = self._running()[0] if broker_id is None else self.brokers[broker_id]
        with Wire(chosen.bootstrap) as wire:
            return wire.ask(request, version)

    def _running(self) -> list[ChildProcess]:
        return [broker for broker in self.brokers.values() if broker.pid is not None]

    def is_whole(self) -> bool:
        """Whether all brokers that were not killed name exactly these and one controller."""
        live = {number for number, broker in self.brokers.items() if broker.pid is not None}
        try:
            found = [self.ask(MetadataRequest(topics=[]), 1, number) for number in live]
        except (OSError, AssertionError):  # one of them has just ended
            return False
        controllers = {each.controller_id for each in found}
        return (
            len(controllers) == 1
            and controllers <= live
            and all({broker.node_id for broker in each.brokers} == live for each in found)
        )

    def is_in_sync(self) -> bool:
        """Whether every replica of every partition is in sync."""
        topics = self.ask(MetadataRequest(topics=None), 1, self.controller_id()).topics
        return all(
            sorted(each.isr_nodes) == sorted(each.replica_nodes) for topic in topics for each in topic.partitions
        )

    def controller_id(self) -> int:
        """The controller, as any running broker has it."""
        return int(self.ask(MetadataRequest(topics=[]), 1).controller_id)

    def leader_of(self, topics: Iterable[str]) -> int:
        """The broker that leads most partitions of these topics."""
        named = [MetadataRequestTopic(name=topic) for topic in topics]
        found = self.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False), 4).topics
        return _most(each.leader_id for topic in found for each in topic.partitions if each.leader_id >= 0)

    def coordinator_of(self, keys: Iterable[str], kind: int = GROUP) -> int:
        """The broker that coordinates most of these groups, or transactional ids."""
        found = [self.ask(FindCoordinatorRequest(key, kind), 2) for key in keys]
        return _most(each.node_id for each in found if each.error_code == 0)

    def _make_internal_topics(self) -> None:
        """Returns when each partition of them has a coordinator that serves."""
        for kind in (GROUP, TRANSACTION):
            for number in range(4 * INTERNAL_PARTITIONS):  # some of them for each partition
                self._wait(lambda: self._serves(f"warm-up-{number}", kind), "the coordinators")  # noqa: B023
        self._wait(self.is_in_sync, "the replicas of the internal topics")

    def _serves(self, key: str, kind: int) -> bool:
        found = self.ask(FindCoordinatorRequest(key, kind), 2)
        if found.error_code != 0 or kind == TRANSACTION:
            return bool(found.error_code == 0)
        return bool(self.ask(join_request(key, "nobody"), 2, found.node_id).error_code == UNKNOWN_MEMBER_ID)

    # --- what is done to it ------------------------------------------------------------------------------------

    def kill(self, broker_id: int, *, wait: bool = True) -> None:
        """Kill one broker; ``wait`` until the others have noticed. One that was killed before must have come back."""
        assert self._killed is None
        self._killed = broker_id
        self.brokers[broker_id].kill()
        if wait:
            self.wait_whole()

    def wait_whole(self) -> None:
        """Returns when the brokers that were not killed agree who is there."""
        self._wait(self.is_whole, f"a cluster without broker {self._killed}")

    def stop(self) -> None:
        """Kill the controller."""
        self.kill(self.controller_id())

    def start(self) -> None:
        """Start the broker that was killed; returns when all replicas are in sync again."""
        assert self._killed is not None
        broker = self.brokers[self._killed].start(wait=False)
        self._killed = None
        broker.wait_ready(READY_S)
        self.wait_in_sync()

    def wait_in_sync(self) -> None:
        """Returns when all brokers agree who is there, and all replicas are in sync."""
        self._wait(lambda: self.is_whole() and self.is_in_sync(), "all replicas to be in sync again")

    def disturbances(self, topics: Sequence[str], groups: Sequence[str], kind: int = GROUP) -> list[Step]:
        """Kill the leader of most of these topics, the coordinator of most of these groups, and the controller.

        Each is started again before the next one is killed. With the kind TRANSACTION, groups are transactional ids.
        """
        return [
            lambda: self.kill(self.leader_of(topics)), self.start,
            lambda: self.kill(self.coordinator_of(groups, kind)), self.start,
            self.stop, self.start,
        ]  # fmt: skip

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- broker {n}\n{broker.log_tail()}" for n, broker in self.brokers.items())
                raise BrokerError(f"{self.name}: waited {PATIENCE_S:.0f} s, but not seen: {what}\n{logs}")
            time.sleep(PAUSE_S)


def _most(brokers: Iterable[int]) -> int:
    """The one that is named most often, of several the smallest."""
    counts = Counter(brokers)
    return min(counts, key=lambda number: (-counts[number], number))
