"""The memory of the active controller: brokers, assignments, leadership, states of partitions and replicas.

It is read from the store at election and changed by one event at a time; nothing here does I/O.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kafkapy.controller.states import PARTITION_ENTERED_FROM, REPLICA_ENTERED_FROM, PartitionState, ReplicaState
from kafkapy.metadata.store import (
    BadVersionError,
    Check,
    MetadataStore,
    NoNodeError,
    Operation,
    Outcome,
    Result,
    StoreError,
)
from kafkapy.metadata.znodes import (
    BrokerEndpoint,
    BrokerIdZNode,
    ControllerEpochZNode,
    LeaderIsr,
    ReplicaAssignment,
    TopicZNode,
)
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.turns import OneByOne, pieces
from kafkapy.types import TopicPartition

WRITES_TOGETHER: Final = 64
"""Operations of one multi: some kilobytes, for which the store takes less than a millisecond."""

logger = logging.getLogger(__name__)


class Replica(NamedTuple):
    """The copy of a partition on a broker."""

    partition: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.broker}"


class LiveBroker(NamedTuple):
    """A registered broker; ``epoch`` is the czxid of its registration."""

    registration: BrokerIdZNode
    epoch: int

    def endpoint(self, listener: str) -> BrokerEndpoint:
        """The end point of the listener of this name, else the first one."""
        endpoints = self.registration.endpoints
        return next((found for found in endpoints if found.listener_name == listener), endpoints[0])


class ControllerContext:
    """One broker's view while it is the controller; made anew at each election."""

    def __init__(self, controller_id: int, epoch: int, epoch_zk_version: int) -> None:
        self.controller_id: Final = controller_id
        self.epoch: Final = epoch
        self.epoch_zk_version: Final = epoch_zk_version
        self.brokers: dict[int, LiveBroker] = {}
        self.stopping: set[int] = set()
        self.on_offline_directories: dict[int, set[TopicPartition]] = {}
        """By live broker, the partitions whose data directories have failed, by its responses to LeaderAndIsr."""
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.topic_ids: dict[str, UUID] = {}
        """By name, the ids of the topics that have one."""
        self.reassigning: dict[TopicPartition, None] = {}
        """The partitions whose assignments name replicas that come or go."""
        self.leadership: dict[TopicPartition, LeaderIsr] = {}
        self.topics_to_delete: set[str] = set()
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}

    @property
    def live(self) -> list[int]:
        """Brokers that may lead and follow: registered and not about to stop."""
        return [broker for broker in self.brokers if broker not in self.stopping]

    def take_topic(self, topic: str, znode: TopicZNode) -> None:
        """Remember the assignment of a topic, and its id if it has one."""
        if znode.topic_id != ZERO_UUID:
            self.topic_ids[topic] = znode.topic_id
        self.assign(topic, znode.partitions)

    def topic_id(self, topic: str) -> UUID:
        """The id of a topic; ``ZERO_UUID`` without one."""
        return self.topic_ids.get(topic, ZERO_UUID)

    def assign(self, topic: str, partitions: Mapping[int, ReplicaAssignment]) -> None:
        """Remember (replacing) the assignment of a topic."""
        self.assignments[topic] = dict(partitions)
        for index, assignment in partitions.items():
            self._note_reassignment(TopicPartition(topic, index), assignment)

    def reassign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Remember the assignment of one partition of a known topic."""
        self.assignments[partition.topic][partition.partition] = assignment
        self._note_reassignment(partition, assignment)

    def _note_reassignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        if assignment.is_reassigning:
            self.reassigning[partition] = None
        else:
            self.reassigning.pop(partition, None)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The replicas of ``partition``; none if it is not known."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, ReplicaAssignment(()))

    def partitions(self, topics: Iterable[str] | None = None) -> Iterator[TopicPartition]:
        """Every partition (of some topics)."""
        for topic in list(self.assignments) if topics is None else topics:
            for index in self.assignments.get(topic, ()):
                yield TopicPartition(topic, index)

    def replicas(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """Every replica of these partitions."""
        return [Replica(found, broker) for found in partitions for broker in self.assignment(found).replicas]

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        """Every replica on these brokers."""
        wanted = set(brokers)
        return [
            Replica(TopicPartition(topic, index), broker)
            for topic, partitions in self.assignments.items()
            for index, assignment in partitions.items()
            for broker in assignment.replicas
            if broker in wanted
        ]

    def is_online(self, replica: Replica, *, include_stopping: bool = False) -> bool:
        """Whether the replica's broker is live, and its data directory works."""
        broker = replica.broker
        if broker not in self.brokers or replica.partition in self.on_offline_directories.get(broker, ()):
            return False
        return include_stopping or broker not in self.stopping

    def offline_replicas(self, partition: TopicPartition) -> list[int]:
        """The brokers of ``partition`` that are not live, or stop, or whose data directory with it has failed."""
        lost, stopping = self.on_offline_directories, self.stopping
        return [
            broker
            for broker in self.assignment(partition).replicas
            if broker not in self.brokers or broker in stopping or (lost and partition in lost.get(broker, ()))
        ]

    def online_replicas(self, partition: TopicPartition) -> list[int]:
        """The brokers of ``partition`` that may lead and follow."""
        return [broker for broker in self.assignment(partition).replicas if self.is_online(Replica(partition, broker))]

    def move_partition(self, partition: TopicPartition, target: PartitionState) -> bool:
        """Set a new state; False, with an error in the log, if the partition can't enter it from its current one.

        NON_EXISTENT removes the partition.
        """
        current = self.partition_states.get(partition, PartitionState.NON_EXISTENT)
        if current not in PARTITION_ENTERED_FROM[target]:
            logger.error("Partition %s can't go from %s to %s", partition, current.value, target.value)
            return False
        if target is PartitionState.NON_EXISTENT:
            del self.partition_states[partition]
        else:
            self.partition_states[partition] = target
        return True

    def move_replica(self, replica: Replica, target: ReplicaState) -> bool:
        """Set a new state; False, with an error in the log, if the replica can't enter it from its current one.

        NON_EXISTENT removes the replica.
        """
        current = self.replica_state(replica)
        if current not in REPLICA_ENTERED_FROM[target]:
            logger.error("Replica %s can't go from %s to %s", replica, current.value, target.value)
            return False
        if target is ReplicaState.NON_EXISTENT:
            del self.replica_states[replica]
        else:
            self.replica_states[replica] = target
        return True

    def replica_state(self, replica: Replica) -> ReplicaState:
        """The state of one replica."""
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def partitions_in(self, state: PartitionState) -> list[TopicPartition]:
        """Every partition in a state, but not those of topics that are being deleted."""
        return [
            partition
            for partition, found in self.partition_states.items()
            if found is state and partition.topic not in self.topics_to_delete
        ]

    def forget_topic(self, topic: str) -> None:
        """Forget everything about a topic."""
        for partition in self.partitions([topic]):
            self.leadership.pop(partition, None)
            self.reassigning.pop(partition, None)
            self.partition_states.pop(partition, None)
            for broker in self.assignment(partition).replicas:
                self.replica_states.pop(Replica(partition, broker), None)
        self.assignments.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self.topics_to_delete.discard(topic)


# The controller's writes: each succeeds only while this broker is still the controller.


class ControllerMovedError(Exception):
    """Another broker has become the controller; this one must stop acting as one."""


class ControllerWriter:
    """Writes in multis that first check the version of ``/controller_epoch`` got at the election.

    A multi has many operations: one for each would cost the store and this broker several times as much, when the
    states of thousands of partitions change. If one is refused, none of its multi was done, and each is tried alone.
    """

    def __init__(self, store: MetadataStore, context: ControllerContext) -> None:
        self.store: Final = store
        self._guard: Final = Check(ControllerEpochZNode.PATH, context.epoch_zk_version)

    async def write(self, operations: Sequence[Operation]) -> list[Result | StoreError]:
        """The result of each operation, or the error that refused it; raises ControllerMovedError."""
        results: list[Result | StoreError] = []
        alone: list[int] = []
        async for outcome, together in self._outcomes(list(pieces(operations, WRITES_TOGETHER))):
            if not isinstance(outcome, StoreError):
                results += outcome[1:]
            else:
                if len(together) > 1 or alone:  # a single one may need parts that were undone with those before it
                    alone += range(len(results), len(results) + len(together))
                results += [outcome] * len(together)
        if alone:
            singles = [[operations[index]] for index in alone]
            indexes = iter(alone)
            async for outcome, _ in self._outcomes(singles):
                results[next(indexes)] = outcome if isinstance(outcome, StoreError) else outcome[1]
        return results

    async def _outcomes(
        self, groups: Sequence[Sequence[Operation]]
    ) -> AsyncIterator[tuple[Outcome, Sequence[Operation]]]:
        """Write each group as a multi; the outcome of each, in order."""
        outcomes = await self.store.transactions([self._guard, *group] for group in groups)
        async for outcome, group in OneByOne(zip(outcomes, groups, strict=True)):
            if isinstance(outcome, BadVersionError | NoNodeError) and outcome.path == ControllerEpochZNode.PATH:
                raise ControllerMovedError(f"{outcome.path} has changed")
            yield outcome, group
