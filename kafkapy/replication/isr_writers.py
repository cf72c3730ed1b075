"""Two ways to write the in-sync replicas that a leader proposes, chosen by the inter-broker protocol.

From 2.7-IV2 on the leader asks the controller (AlterIsr, KIP-497; the API is called AlterPartition now), which writes
the state and tells all brokers of it. Before, the leader writes the state itself, and informs the controller through a
node under ``/isr_change_notification``, which leaders create after some quiet seconds.

Both write with the version of the state that the leader knows. If another version is there, the controller has elected
a leader meanwhile and will send LeaderAndIsr: the proposal stays open, so that its larger set counts for the
high watermark, and the LeaderAndIsr replaces it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from kafkapy.clock import Clock
from kafkapy.metadata.store import (
    BadVersionError,
    MetadataStore,
    NoNodeError,
    SessionEndedError,
    SessionExpiredError,
    StoreRefusedError,
)
from kafkapy.metadata.znodes import IsrChangeNotificationZNode, LeaderIsr, PartitionStateZNode
from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
)
from kafkapy.replication.partition import Partition
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.types import NO_BROKER_ID, TopicPartition

BATCH_MS: Final = 50
"""How long proposals are collected before a request, and how long to wait before the next one."""
ALTER_PARTITION_VERSION: Final = 0

NOTIFICATION_CHECK_MS: Final = 2_500
QUIET_MS: Final = 5_000
"""A notification is created when no in-sync replicas have changed for this long,"""
LATEST_NOTIFICATION_MS: Final = 60_000
"""or when the last one is this old."""
MOST_IN_A_NOTIFICATION: Final = 3_000
"""Partitions of a notification: with the longest names they take less than the megabyte that ZooKeeper accepts."""
REFUSED_RETRY_MS: Final = 5_000
"""The pause before writes that the store has refused are tried again."""

logger = logging.getLogger(__name__)

_SUPERSEDED: Final = frozenset(
    {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""The controller has another state of the partition: its LeaderAndIsr or StopReplica will come."""
_REFUSED: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller has not written the proposal and will not: a member is no replica, or its broker is not there."""


class Proposal(NamedTuple):
    """A partition and the state to write for it."""

    partition: Partition
    state: LeaderIsr

    @property
    def is_open(self) -> bool:
        """Whether the partition still waits for it."""
        return self.partition.proposal is self.state


class ControllerIsrWriter:
    """Asks the controller, one request at a time. ``controller_of`` returns the controller's id, -1 while unknown."""

    def __init__(
        self,
        replicas: ReplicaManager,
        channel: BrokerChannel,
        clock: Clock,
        controller_of: Callable[[], int],
        broker_epoch_of: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._channel = channel
        self._clock = clock
        self._controller_of = controller_of
        self._broker_epoch_of = broker_epoch_of
        self._open: dict[TopicPartition, Proposal] = {}
        self._task: asyncio.Task[None] | None = None
        self._last_problem = ""

    def propose(self, partition: Partition, proposal: LeaderIsr) -> None:
        """See ``replica_manager.IsrWriter``."""
        self._open[partition.topic_partition] = Proposal(partition, proposal)
        if self._task is None:
            self._start()

    def close(self) -> None:
        """Stop requests, permanently."""
        self._open.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def _start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="alter-isr")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Continue after an unexpected failure: a proposal that is not answered holds the high watermark back."""
        if self._task is not task:
            return
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("Asking the controller for in-sync replicas failed, trying again", exc_info=error)
        if self._open:
            self._start()

    async def _run(self) -> None:
        while self._open:
            await self._clock.sleep(BATCH_MS)
            self._open = {each: found for each, found in self._open.items() if found.is_open}
            if self._open:
                await self._send(dict(self._open))

    async def _send(self, proposals: dict[TopicPartition, Proposal]) -> None:
        controller = self._controller_of()
        if controller == NO_BROKER_ID:
            return
        request = _request(self._replicas.broker_id, self._broker_epoch_of(), proposals.values())
        try:
            response = await self._channel.send(controller, request, ALTER_PARTITION_VERSION)
        except (PeerUnreachableError, ProtocolError) as error:
            self._failed(str(error))
            return
        assert isinstance(response, AlterPartitionResponse), "a response is of the class of its request"
        if response.error_code:
            self._failed(f"broker {controller} answers error {response.error_code}")
            return
        self._last_problem = ""
        for topic in response.topics:
            for answer in topic.partitions:
                proposal = proposals.get(TopicPartition(topic.topic_name, answer.partition_index))
                if proposal is not None:
                    state = LeaderIsr(
                        answer.leader_id,
                        answer.leader_epoch,
                        tuple(answer.isr),
                        proposal.state.controller_epoch,
                        answer.partition_epoch,
                    )
                    self._answered(proposal, answer.error_code, state)

    def _failed(self, problem: str) -> None:
        """Log why a request changed nothing, once for a problem that stays; the next request follows."""
        if problem != self._last_problem:
            logger.warning("In-sync replicas could not be changed, trying again: %s", problem)
        self._last_problem = problem

    def _answered(self, proposal: Proposal, error_code: int, state: LeaderIsr) -> None:
        partition = proposal.partition
        if error_code == ErrorCode.NONE:
            self._replicas.isr_written(partition, proposal.state, state)
        elif error_code in _SUPERSEDED:
            logger.info(
                "%s: the in-sync replicas %s come too late (error %d); the controller tells of another state",
                partition.topic_partition, list(proposal.state.isr), error_code,
            )  # fmt: skip
        elif error_code in _REFUSED:
            logger.info(
                "%s: the controller refuses the in-sync replicas %s (error %d)",
                partition.topic_partition, list(proposal.state.isr), error_code,
            )  # fmt: skip
            self._replicas.isr_refused(partition, proposal.state)
        else:
            self._failed(f"{partition.topic_partition} has error {error_code}")
            return
        if self._open.get(partition.topic_partition) is proposal:
            del self._open[partition.topic_partition]


def _request(broker_id: int, broker_epoch: int, proposals: Iterable[Proposal]) -> AlterPartitionRequest:
    topics: dict[str, RequestTopicData] = {}
    for partition, state in proposals:
        topic, index = partition.topic_partition
        topics.setdefault(topic, RequestTopicData(topic)).partitions.append(
            RequestPartitionData(
                index, state.leader_epoch, new_isr=list(state.isr), partition_epoch=state.zk_version
            )
        )  # fmt: skip
    return AlterPartitionRequest(broker_id, broker_epoch, list(topics.values()))


class StoreIsrWriter:
    """Writes the states itself, one after the other, and tells the controller of many changes at once."""

    def __init__(self, replicas: ReplicaManager, store: MetadataStore, clock: Clock) -> None:
        self._replicas = replicas
        self._store = store
        self._clock = clock
        self._open: list[Proposal] = []
        self._writing: asyncio.Task[None] | None = None
        self._notifying: asyncio.Task[None] | None = None
        self._changed: dict[TopicPartition, None] = {}
        """Partitions of which the controller was not informed yet."""
        self._last_problem = ""
        self._last_change_s = 0.0
        self._last_notification_s = clock.monotonic_s()

    def propose(self, partition: Partition, proposal: LeaderIsr) -> None:
        """See ``replica_manager.IsrWriter``."""
        self._open.append(Proposal(partition, proposal))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="in-sync-replicas")

    def close(self) -> None:
        """Stop writes, permanently."""
        for task in (self._writing, self._notifying):
            if task is not None:
                task.cancel()

    async def _write_all(self) -> None:
        refused: list[Proposal] = []
        try:
            while self._open or refused:
                if not self._open:
                    await self._clock.sleep(REFUSED_RETRY_MS)
                    self._open, refused = [*self._open, *refused], []
                proposal = self._open.pop(0)
                try:
                    await self._write(proposal)
                except StoreRefusedError as error:
                    self._failed(f"In-sync replicas could not be written and will be tried again: {error}")
                    refused.append(proposal)
        except SessionEndedError as error:
            logger.info("In-sync replicas are changed no more: %s", error)

    async def _write(self, proposal: Proposal) -> None:
        state = proposal.state
        path = PartitionStateZNode.path(proposal.partition.topic_partition)
        while proposal.is_open:
            try:
                stat = await self._store.set(path, PartitionStateZNode.encode(state), state.zk_version)
            except SessionExpiredError:
                continue  # written or not: the version will tell
            except NoNodeError:
                return
            except BadVersionError:
                version = await self._version_of(path, state)
            else:
                version = stat.version
            if version is not None:
                self._replicas.isr_written(proposal.partition, state, state._replace(zk_version=version))
                self._note(proposal.partition.topic_partition)
            return

    def _failed(self, problem: str) -> None:
        """Log a problem, once if it stays."""
        if problem != self._last_problem:
            logger.warning("%s", problem)
        self._last_problem = problem

    async def _version_of(self, path: str, state: LeaderIsr) -> int | None:
        """Return the version of the state if it is the one to write: an earlier try may have succeeded."""
        try:
            node = await self._store.get(path)
            found = PartitionStateZNode.decode(node.data, state.zk_version)
        except (NoNodeError, ValueError):
            return None
        return node.stat.version if found == state else None

    def _note(self, topic_partition: TopicPartition) -> None:
        self._changed[topic_partition] = None
        self._last_change_s = self._clock.monotonic_s()
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.create_task(self._notify(), name="isr-change-notification")

    async def _notify(self) -> None:
        while self._changed:
            await self._clock.sleep(NOTIFICATION_CHECK_MS)
            now_s = self._clock.monotonic_s()
            quiet_ms, since_last_ms = (now_s - self._last_change_s) * 1000, (now_s - self._last_notification_s) * 1000
            if quiet_ms < QUIET_MS and since_last_ms < LATEST_NOTIFICATION_MS:
                continue
            changed = list(islice(self._changed, MOST_IN_A_NOTIFICATION))
            try:
                await self._store.create(
                    IsrChangeNotificationZNode.SEQUENTIAL_PATH,
                    IsrChangeNotificationZNode.encode(changed),
                    sequential=True,
                )
            except SessionExpiredError:
                continue
            except StoreRefusedError as error:
                self._failed(f"The controller could not be told of in-sync replicas, trying again: {error}")
                continue
            except SessionEndedError as error:
                logger.info("The controller is not told of changed in-sync replicas: %s", error)
                return
            self._last_notification_s = now_s
            for each in changed:
                self._changed.pop(each, None)
