"""Reassignment: the replicas of partitions move to other brokers (KIP-455), part of the active controller.

The assignment of a partition that moves has the *target* replicas first, then those that go; ``adding`` and
``removing`` name the replicas that come and go. Replicas in neither, and those that go, are the *origin*: a cancelled
reassignment returns to it. A new target takes the place of an unfinished one.

**Order of events**, with [1,2] → [2,3] as the example. Many partitions take each step together.

    U   ``/brokers/topics/<topic>`` gets replicas [2,3,1], adding [3], removing [1]. Replicas that an earlier,
        unfinished reassignment was adding and that are not wanted any more leave the ISR and are deleted, as in B4.
    A   the target is not in sync yet:
    A1  the partition takes the next leader epoch; LeaderAndIsr goes to all replicas, to those that come as new ones.
    A2  the replicas that come enter the state New, and get LeaderAndIsr once more, as Kafka does it. They fetch, and
        the leader proposes them for the ISR (AlterIsr). The reassignment waits.
    B   the target is in sync, and one of its replicas is alive (``complete``):
    B1  the replicas that have come are Online; from here the controller's memory has only the target.
    B3  if the leader goes, one of the target is elected; otherwise the partition takes the next leader epoch.
        LeaderAndIsr goes to the target.
    B4  the replicas that go leave the ISR, with the next leader epoch; StopReplica goes to their brokers.
    B5  StopReplica that deletes goes to them. Nothing waits for the response: a broker that is not alive keeps the
        files.
    B6  ``/brokers/topics/<topic>`` gets [2,3] alone.
    B7  ``/admin/reassign_partitions`` (legacy tool) loses the entry, and is deleted with its last entry.
    B8  UpdateMetadata goes to all brokers.

The letters and numbers are those of KIP-455. The next step is triggered by AlterIsr, by a note about ISRs (inter-broker
protocol below 2.7-IV2), by a broker of the target that registers, and by the start of a controller.

**What a crash of the controller leaves.** The next one finds ``adding`` and ``removing`` in the topic's node and looks
whether the target is in sync (``resume``):

- before U: nothing has happened, and the client has no answer;
- within A: it takes A1 again with one more leader epoch, since brokers may not have got the requests;
- within B before B6: it takes B again. The brokers of the replicas that go get LeaderAndIsr at its start, before
  StopReplica, and may create an empty log that is deleted at once;
- after B6: the reassignment is complete. A StopReplica that was not sent is lost, and its broker keeps the files.

A topic that is to be deleted moves no more: its deletion covers the replicas that come and those that go.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkapy.controller.context import ControllerContext, ControllerWriter, Replica
from kafkapy.controller.elections import Elected, elect_reassigned
from kafkapy.controller.partition_machine import PartitionMachine
from kafkapy.controller.replica_machine import ReplicaMachine
from kafkapy.controller.requests import RequestBatch
from kafkapy.controller.states import PartitionState, ReplicaState
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafkapy.metadata.store import BadVersionError, Delete, Node, NodeStat, NoNodeError, SetData
from kafkapy.metadata.znodes import (
    ForeignDataError,
    LeaderIsr,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicZNode,
    decoded,
)
from kafkapy.turns import OneByOne
from kafkapy.types import TopicPartition

Targets = Mapping[TopicPartition, Sequence[int] | None]
"""The replicas that each partition shall have; None cancels its reassignment."""

logger: Final = logging.getLogger(__name__)

# One object each: a request may name a million partitions.
_UNKNOWN: Final = UnknownTopicOrPartitionError("The partition does not exist.")
_NOT_MOVING: Final = NoReassignmentInProgressError("The replicas of the partition are not being moved.")
_EMPTY: Final = InvalidReplicaAssignmentError("A partition needs at least one replica.")
_NEGATIVE: Final = InvalidReplicaAssignmentError("A broker id in the list of replicas is negative.")
_TOO_MANY: Final = InvalidReplicaAssignmentError("There are more replicas than live brokers.")
_TWICE: Final = InvalidReplicaAssignmentError("A broker id is twice in the list of replicas.")
_LAST_IN_SYNC: Final = InvalidReplicaAssignmentError(
    "The only in-sync replicas would be removed: wait until another replica is in sync."
)


class Reassignments:
    """Part of the active controller; ``flush`` sends the requests that have been gathered in the batch."""

    def __init__(
        self,
        context: ControllerContext,
        writer: ControllerWriter,
        partitions: PartitionMachine,
        replicas: ReplicaMachine,
        batch: RequestBatch,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._writer = writer
        self._partitions = partitions
        self._replicas = replicas
        self._batch = batch
        self._flush = flush

    def moving(self, asked: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, ReplicaAssignment]:
        """The assignments of the partitions (of those ``asked`` for) whose replicas are being moved."""
        moving = self._context.reassigning
        chosen = moving if asked is None else (found for found in asked if found in moving)
        deleting = self._context.topics_to_delete
        return {found: self._context.assignment(found) for found in chosen if found.topic not in deleting}

    async def alter(self, targets: Targets, *, keeps_count: bool = False) -> dict[TopicPartition, BrokerError | None]:
        """Begin, replace or cancel reassignments; return for each partition the error, or None.

        With ``keeps_count`` a target is refused that has another number of replicas than the partition (KIP-860).
        A request takes precedence over what ``/admin/reassign_partitions`` says of the same partitions.
        """
        moves, answers = await self._checked(targets, only_alive=True, keeps_count=keeps_count)
        if moves:
            await self._forget_requests(lambda partition, _: partition in moves)
            answers.update(await self._start(moves))
        return answers

    async def serve_requests(self) -> None:
        """Begin what the legacy tool has written into ``/admin/reassign_partitions``.

        Entries that can't be served are removed, with a line in the log; so are bytes that can't be read, as the znode
        is a request, not a state. Brokers that are not alive may be named: the reassignment waits for them.
        """
        node = await self._requests_node()
        if node is None:
            return
        try:
            requested = ReassignPartitionsZNode.decode(node.data)
        except (TypeError, ValueError) as error:
            logger.error("%s can't be read and is deleted: %s", ReassignPartitionsZNode.PATH, error)
            requested = {}
        moving = self.moving(requested)
        new = {
            partition: target
            for partition, target in requested.items()
            if partition not in moving or moving[partition].target != target
        }
        moves, answers = await self._checked(new, only_alive=False)
        answers.update(await self._start(moves))
        refused = {partition: error for partition, error in answers.items() if error is not None}
        for partition, refusal in refused.items():
            logger.warning("The replicas of partition %s are not moved: %s", partition, refusal)
        if refused or not requested:
            await self._forget_requests(lambda partition, _: partition in refused)

    async def resume(self, brokers: Collection[int] | None = None) -> None:
        """Continue the unfinished reassignments (to these brokers, which have registered)."""
        again: list[TopicPartition] = []
        others: list[TopicPartition] = []
        for partition, found in self.moving().items():
            is_theirs = brokers is None or not set(brokers).isdisjoint(found.target)
            (again if is_theirs else others).append(partition)
        await self._proceed(again)
        await self.complete(others)  # some may have their first leader only now

    async def complete(self, partitions: Iterable[TopicPartition]) -> None:
        """Finish the reassignments among these partitions, whose ISRs have changed, that have their target in sync."""
        moving = list(self.moving(partitions))
        if moving:
            await self._finish((await self._by_completeness(moving))[0])

    async def topics_are_going(self) -> None:
        """Remove the entries of topics that are being deleted from ``/admin/reassign_partitions``."""
        deleting = self._context.topics_to_delete
        if any(found.topic in deleting for found in self._context.reassigning):
            await self._forget_requests(lambda partition, _: partition.topic in deleting)

    async def _checked(
        self, targets: Targets, *, only_alive: bool, keeps_count: bool = False
    ) -> tuple[dict[TopicPartition, ReplicaAssignment], dict[TopicPartition, BrokerError | None]]:
        """Return the assignments to begin with, and for all of ``targets`` the error, or None."""
        moves: dict[TopicPartition, ReplicaAssignment] = {}
        answers: dict[TopicPartition, BrokerError | None] = {}
        async for partition, target in OneByOne(targets.items()):
            current = self._context.assignment(partition)
            most = len(self._context.live) + len(current.replicas) if only_alive else None
            answers[partition] = refusal = None if target is None else _list_refusal(target, most)
            if refusal is not None:
                continue
            assignment = current.reassigned(current.origin if target is None else target)
            answers[partition] = refusal = self._refusal(partition, target, assignment, only_alive=only_alive)
            if refusal is None and keeps_count and target is not None and len(target) != len(current.target):
                answers[partition] = refusal = InvalidReplicationFactorError(
                    f"The replication factor is changed from {len(current.target)} to {len(target)}"
                )
            if refusal is None:
                moves[partition] = assignment
        return moves, answers

    def _refusal(
        self,
        partition: TopicPartition,
        target: Sequence[int] | None,
        assignment: ReplicaAssignment,
        *,
        only_alive: bool,
    ) -> BrokerError | None:
        if target is not None:
            dead = [broker for broker in assignment.adding if broker not in self._context.live]
            if only_alive and dead:
                return InvalidReplicaAssignmentError(f"Brokers {dead} are not alive.")
        elif partition not in self._context.reassigning:
            return _NOT_MOVING
        if not self._context.assignment(partition).replicas or partition.topic in self._context.topics_to_delete:
            return _UNKNOWN
        state = self._context.leadership.get(partition)
        return _LAST_IN_SYNC if state is not None and set(assignment.replicas).isdisjoint(state.isr) else None

    async def _start(self, moves: dict[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, BrokerError]:
        """Steps U, then A or B; returns the partitions whose assignments could not be written."""
        changed = {found: moved for found, moved in moves.items() if moved != self._context.assignment(found)}
        failed = await self._write(changed)
        unwanted: list[Replica] = []
        async for partition, assignment in OneByOne(changed.items()):
            if partition not in failed:
                before = self._context.assignment(partition).replicas
                self._context.reassign(partition, assignment)
                unwanted += [Replica(partition, broker) for broker in before if broker not in assignment.replicas]
        await self._remove(unwanted)
        await self._proceed([partition for partition in moves if partition not in failed])
        return {partition: BrokerError(f"the assignment of {partition} could not be written") for partition in failed}

    async def _proceed(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            ready, waiting = await self._by_completeness(partitions)
            await self._begin(waiting)
            await self._finish(ready)

    async def _by_completeness(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the partitions whose target is in sync, and the others."""
        states = await self._partitions.read_states(partitions)
        ready: list[TopicPartition] = []
        waiting: list[TopicPartition] = []
        async for partition in OneByOne(partitions):
            (ready if self._is_ready(partition, states.get(partition)) else waiting).append(partition)
        return ready, waiting

    def _is_ready(self, partition: TopicPartition, state: LeaderIsr | None) -> bool:
        assignment = self._context.assignment(partition)
        if not assignment.is_reassigning:  # cancelled, or only the order changes
            return True
        target, online = assignment.target, self._context.online_replicas(partition)
        return (
            state is not None
            and set(target) <= set(state.isr)
            and elect_reassigned(target, state.isr, online) is not None
        )

    async def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        """Step A."""
        await self._partitions.next_epoch(partitions)
        new: list[Replica] = []
        async for partition in OneByOne(partitions):
            assignment = self._context.assignment(partition)
            if partition in self._context.leadership:
                self._batch.add_leader_and_isr(assignment.origin, partition)
                self._batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
            added = (Replica(partition, broker) for broker in assignment.adding)
            new += [found for found in added if self._context.replica_state(found) is ReplicaState.NON_EXISTENT]
        await self._flush()
        await self._replicas.start_new(new)
        async for partition, broker in OneByOne(new):
            if partition in self._context.leadership:
                self._batch.add_leader_and_isr([broker], partition, is_new=True)
        await self._flush()

    async def _finish(self, partitions: Sequence[TopicPartition]) -> None:
        """Step B."""
        if not partitions:
            return
        targets: dict[TopicPartition, ReplicaAssignment] = {}
        going: list[Replica] = []
        for partition in partitions:
            assignment = self._context.assignment(partition)
            await self._replicas.finish_new([Replica(partition, broker) for broker in assignment.adding])
            going += [Replica(partition, broker) for broker in assignment.removing]
            targets[partition] = ReplicaAssignment(assignment.target)
            self._context.reassign(partition, targets[partition])
        await self._move_leaders(partitions)
        await self._remove(going)
        await self._write(targets)
        await self._forget_requests(
            lambda partition, replicas: partition in targets and replicas == targets[partition].replicas
        )
        self._batch.add_update_metadata(self._context.brokers, partitions)
        await self._flush()
        logger.info("The replicas of %d partitions are where they shall be", len(partitions))

    async def _move_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        leaving: list[TopicPartition] = []
        staying: list[TopicPartition] = []
        async for partition in OneByOne(partitions):
            if partition in self._context.leadership:
                (staying if self._has_leader(partition) else leaving).append(partition)
        await self._partitions.elect(leaving, self._election)
        for partition in leaving:
            if not self._has_leader(partition):
                self._context.move_partition(partition, PartitionState.OFFLINE)
        await self._partitions.next_epoch(staying)
        async for partition in OneByOne(staying):
            self._batch.add_leader_and_isr(self._context.assignment(partition).replicas, partition)
        await self._flush()

    def _has_leader(self, partition: TopicPartition) -> bool:
        """Whether the leader is alive and one of the assigned replicas."""
        return self._context.leadership[partition].leader in self._context.online_replicas(partition)

    def _election(self, partition: TopicPartition, state: LeaderIsr) -> Elected | None:
        online = self._context.online_replicas(partition)
        return elect_reassigned(self._context.assignment(partition).replicas, state.isr, online)

    async def _remove(self, replicas: Sequence[Replica]) -> None:
        """Steps B4 and B5."""
        if not replicas:
            return
        await self._replicas.take_offline(replicas)
        await self._flush()
        await self._replicas.delete(replicas)
        await self._flush()
        async for replica in OneByOne(replicas):
            self._context.move_replica(replica, ReplicaState.DELETION_SUCCESSFUL)
            self._context.move_replica(replica, ReplicaState.NON_EXISTENT)

    async def _write(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> set[TopicPartition]:
        """Write assignments into the nodes of their topics; return the partitions for which that failed."""
        remaining: dict[str, dict[int, ReplicaAssignment]] = {}
        async for partition, assignment in OneByOne(assignments.items()):
            remaining.setdefault(partition.topic, {})[partition.partition] = assignment
        failed: set[TopicPartition] = set()
        while remaining:
            topics = list(remaining)
            nodes = await self._writer.store.get_many([TopicZNode.path(topic) for topic in topics])
            writes: dict[str, SetData] = {}
            async for topic, node in OneByOne(zip(topics, nodes, strict=True)):
                write = _topic_write(topic, node, remaining[topic])
                if write is None:
                    failed.update(TopicPartition(topic, index) for index in remaining.pop(topic))
                else:
                    writes[topic] = write
            results = await self._writer.write(list(writes.values()))
            for topic, result in zip(writes, results, strict=True):
                if isinstance(result, BadVersionError):
                    continue  # partitions have been added meanwhile
                changed = remaining.pop(topic)
                if not isinstance(result, NodeStat):
                    logger.error("The assignment of topic %s could not be written: %r", topic, result)
                    failed.update(TopicPartition(topic, index) for index in changed)
        return failed

    async def _requests_node(self) -> Node | None:
        try:
            return await self._writer.store.get(ReassignPartitionsZNode.PATH)
        except NoNodeError:
            return None

    async def _forget_requests(self, is_done: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Remove entries from ``/admin/reassign_partitions``; without one left, or readable, it is deleted.

        If the node has changed meanwhile, nothing is written: its watch lets it be served again.
        """
        node = await self._requests_node()
        if node is None:
            return
        try:
            requested = ReassignPartitionsZNode.decode(node.data)
        except (TypeError, ValueError):
            requested = {}
        kept = {partition: target for partition, target in requested.items() if not is_done(partition, target)}
        path, version = ReassignPartitionsZNode.PATH, node.stat.version
        if not kept:
            await self._writer.write([Delete(path, version)])
        elif len(kept) < len(requested):
            await self._writer.write([SetData(path, ReassignPartitionsZNode.encode(kept), version)])


def _list_refusal(target: Sequence[int], most: int | None) -> BrokerError | None:
    """Why no partition can have these replicas. ``most`` is a bound on their number: a request may list a million."""
    if not target:
        return _EMPTY
    if most is not None and len(target) > most:
        return _TOO_MANY
    if min(target) < 0:
        return _NEGATIVE
    return _TWICE if len(set(target)) < len(target) else None


def _topic_write(topic: str, node: Node | None, changed: Mapping[int, ReplicaAssignment]) -> SetData | None:
    """The write of a topic's node; None, with an error in the log, if there is no node that can be read."""
    if node is None:
        logger.error("The assignment of topic %s can't be changed: it has no node", topic)
        return None
    try:
        znode = decoded(TopicZNode.path(topic), node.data, TopicZNode.decode)
    except ForeignDataError as error:
        logger.error("The assignment of topic %s can't be read: %s", topic, error)
        return None
    data = znode.with_partitions(changed).encode()
    return SetData(TopicZNode.path(topic), data, node.stat.version)
