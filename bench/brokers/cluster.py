"""Three brokers of one kind on a ZooKeeper: starting, killing and asking them. The loads are in ``cluster_loads``."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.exceptions import NoNodeError

from bench.clients.groups import ask
from bench.clients.raw import connect
from harness.cluster import tree_at
from harness.measure import BrokerGoneError, LoadError, processor_time, resident_mib
from harness.process import ChildProcess
from kafkapy.metadata.znodes import ControllerZNode
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA_VERSION = 4
REASSIGN_VERSION = 0
START_TIMEOUT_S = 300.0
CREATE_TIMEOUT_S = 300.0
AGREE_TIMEOUT_S = 300.0
TOPICS_TOGETHER = 10
POLL_S = 0.02
QUIET_SHARE = 4
"""Between two questions for one condition is so many times as long as the question took: it is no load to speak of."""

Placement = Mapping[str, Sequence[Sequence[int]]]
"""The replicas of each partition of each topic, preferred leader first."""


class Partitions:
    """The metadata of some topics in one broker, by topic and partition."""

    def __init__(self, response: Any) -> None:
        self.leaders: dict[tuple[str, int], int] = {}
        self.in_sync: dict[tuple[str, int], set[int]] = {}
        self.replicas: dict[tuple[str, int], list[int]] = {}
        for topic in response.topics:
            for each in topic.partitions:
                place = topic.name, each.partition_index
                self.leaders[place] = each.leader_id
                self.in_sync[place] = set(each.isr_nodes)
                self.replicas[place] = list(each.replica_nodes)

    def are_led(self, by: Iterable[int]) -> bool:
        """Whether one of these brokers leads each partition."""
        return set(self.leaders.values()) <= set(by)

    def are_in_sync_without(self, broker: int) -> bool:
        """Whether the broker is in sync nowhere."""
        return not any(broker in each for each in self.in_sync.values())

    @property
    def are_all_in_sync(self) -> bool:
        """Whether each replica is in sync."""
        return all(self.in_sync[place] == set(replicas) for place, replicas in self.replicas.items())


class BrokerCluster:
    """The brokers by their ids, which run; ``close`` ends them and removes their data."""

    def __init__(self, name: str, brokers: Mapping[int, ChildProcess], zookeeper_connect: str) -> None:
        self.name = name
        self.brokers = dict(brokers)
        self.zookeeper_connect = zookeeper_connect
        self._partitions: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def known_topics(self) -> set[str]:
        """The topics that were created here."""
        return set(self._partitions)

    @property
    def running(self) -> list[int]:
        """The brokers that were not killed."""
        return [number for number, broker in self.brokers.items() if broker.pid is not None]

    def start(self) -> "BrokerCluster":
        """Starts the brokers; returns when all of them know each other."""
        for broker in self.brokers.values():
            broker.start(wait=False)
        for broker in self.brokers.values():
            broker.wait_ready(START_TIMEOUT_S)
        self.until(lambda: all(self._knows_all(number) for number in self.brokers), "its brokers did not meet")
        return self

    def restart(self, broker: int) -> None:
        """Starts a broker that was killed."""
        self.brokers[broker].start(wait=False).wait_ready(START_TIMEOUT_S)

    def close(self) -> None:
        """Ends the brokers without a controlled shutdown, and removes their data."""
        for broker in self.brokers.values():
            broker.kill()
            broker.close()
            shutil.rmtree(broker.directory, ignore_errors=True)

    def check_alive(self) -> None:
        """Raises BrokerGoneError, with the last line of its log, when a broker ended by itself."""
        for broker in self.brokers.values():
            if why := broker.why_gone():
                raise BrokerGoneError(f"{self.name}: {why}")

    def pid(self, broker: int) -> int:
        """The process id of a broker that runs."""
        found = self.brokers[broker].pid
        assert found is not None, "it was not killed"
        return found

    def processor_s(self, brokers: Iterable[int] | None = None) -> float:
        """Processor-seconds that these brokers have used, or all that run."""
        return sum(processor_time(self.pid(number)).total_s for number in brokers or self.running)

    def resident_mib(self, brokers: Iterable[int]) -> float:
        """The resident memory of that one of the brokers which has most."""
        return max(resident_mib(self.pid(number)) for number in brokers)

    def until(self, condition: Callable[[], bool], failure: str, timeout_s: float = AGREE_TIMEOUT_S) -> None:
        """Waits for the condition, which may fail to reach a broker; raises LoadError with ``failure``."""

        deadline_s = time.monotonic() + timeout_s
        while True:
            asked_s = time.monotonic()
            with suppress(OSError):
                if condition():
                    return
            if time.monotonic() > deadline_s:
                self.check_alive()
                raise LoadError(f"{self.name}: {failure} within {timeout_s:.0f} s")
            time.sleep(max(POLL_S, QUIET_SHARE * (time.monotonic() - asked_s)))

    # what brokers say

    def ask(self, broker: int, request: Any, version: int) -> Any:
        """A broker's answer to one request on a new connection."""
        with closing(connect(self.brokers[broker].port)) as connection:
            return ask(connection, request, version)

    def partitions(self, broker: int, topics: Sequence[str] | None = None) -> Partitions:
        """The metadata of these topics, or of all, in one broker."""
        return Partitions(self.ask(broker, metadata_of(topics), METADATA_VERSION))

    def _knows_all(self, broker: int) -> bool:
        answer = self.ask(broker, MetadataRequest(topics=[]), METADATA_VERSION)
        return {each.node_id for each in answer.brokers} == set(self.brokers) and answer.controller_id > 0

    def controller(self) -> int:
        """The controller, as ZooKeeper has it; -1 for none."""
        with tree_at(self.zookeeper_connect) as tree:
            return controller_in(tree)

    # topics

    def create(self, placement: Placement, config: Mapping[str, str] | None = None) -> float:
        """Creates topics, some with each request; the seconds until all brokers know a leader of each partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 300_000})
        began_s = time.monotonic()
        asked = [
            NewTopic(
                topic, len(replicas), replica_assignment=[list(each) for each in replicas], config=dict(config or {})
            )
            for topic, replicas in placement.items()
        ]
        for start in range(0, len(asked), TOPICS_TOGETHER):
            some = asked[start : start + TOPICS_TOGETHER]
            done = admin.create_topics(some, operation_timeout=CREATE_TIMEOUT_S, request_timeout=CREATE_TIMEOUT_S)
            for each in done.values():
                each.result()
        self._partitions |= {topic: len(replicas) for topic, replicas in placement.items()}
        self.until(
            lambda: all(self._are_made(number, placement) for number in self.running), "new partitions have no leaders"
        )
        return time.monotonic() - began_s

    def _are_made(self, broker: int, placement: Placement) -> bool:
        found = self.partitions(broker, list(placement))
        return (
            len(found.leaders) == sum(map(len, placement.values()))
            and found.are_led(self.brokers)
            and found.are_all_in_sync
        )

    def records(self, topic: str) -> int:
        """The records that the topic holds, by the ends of its partitions; they begin at 0."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench", "log_level": 0})
        try:
            places = [TopicPartition(topic, number) for number in range(self._partitions[topic])]
            return sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
        finally:
            consumer.close()

    def reassign(self, placement: Placement) -> None:
        """Asks the controller for other replicas; raises LoadError if it refuses."""
        topics = [
            ReassignableTopic(topic, [ReassignablePartition(index, list(each)) for index, each in enumerate(replicas)])
            for topic, replicas in placement.items()
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=topics)
        answer = self.ask(self.controller(), request, REASSIGN_VERSION)
        codes = [answer.error_code, *(part.error_code for topic in answer.responses for part in topic.partitions)]
        if any(codes):
            raise LoadError(f"{self.name}: the controller refuses to move replicas, with error {max(codes, key=abs)}")

    def has_replicas(self, placement: Placement) -> bool:
        """Whether each partition has these replicas, all in sync, as each broker sees it."""
        for broker in self.running:
            found = self.partitions(broker, list(placement))
            for topic, replicas in placement.items():
                for index, each in enumerate(replicas):
                    if not set(found.replicas[topic, index]) == found.in_sync[topic, index] == set(each):
                        return False
        return True


def metadata_of(topics: Sequence[str] | None) -> MetadataRequest:
    """Asks for these topics, or all, and creates none."""
    named = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


def controller_in(tree: Any) -> int:
    """The controller, as a tree has it; -1 for none."""
    try:
        return ControllerZNode.decode(tree.get(ControllerZNode.PATH)[0]).broker_id
    except NoNodeError:
        return -1
