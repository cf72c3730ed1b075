"""The partitions of this broker, and the requests that wait for a change of them.

LeaderAndIsr and StopReplica change the partitions (``become_leader_or_follower``, ``stop_replica``); Produce, Fetch and
the coordinators use them. Appending is synchronous: when ``append`` returns, the batch is in the file. A request that
needs more (replication, an fsync, more bytes to fetch) waits in ``purgatory`` under the partition.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.config.log_config import LogConfig
from kafkapy.delayed import Purgatory
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    FencedLeaderEpochError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    StaleControllerEpochError,
    UnknownTopicOrPartitionError,
)
from kafkapy.metadata.topic_rules import check_partition
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.platform.disk_errors import is_passing
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.validate import CheckedBatch, ValidatedBatch
from kafkapy.replication.partition import ALL_IN_SYNC, LeaderAndIsrPartition, Partition
from kafkapy.replication.throttle import ReplicationThrottle
from kafkapy.storage.data_directory import fits_future_name
from kafkapy.storage.errors import InconsistentTopicIdError
from kafkapy.storage.log.log import AppendResult, Log
from kafkapy.turns import Steps, pieces
from kafkapy.types import EPOCH_DURING_DELETE, NO_BROKER_ID, NO_EPOCH, NO_LEADER, NO_TOPIC_ID, TopicPartition

T = TypeVar("T")

logger = logging.getLogger(__name__)

RESPONSE_SIZE: Final = 16
"""Bytes of a follower's response without partitions; Apache Kafka, too, counts them for the throttled rate."""
PARTITION_SIZE: Final = 40
"""Bytes of a partition in a follower's response beside the records, about."""


RacksOf = Callable[[TopicPartition, str], Mapping[int, str | None]]
"""Returns the live replicas of a partition that have a listener, with their racks."""


class LogStore(Protocol):
    """The part of ``storage.log_manager.LogManager`` that the replica manager uses."""

    def get_or_create(
        self, partition: TopicPartition, config: LogConfig | None = None, /, *, is_new: bool = True
    ) -> Log:
        """Return the partition's log; it is created if it is missing and can't be in an offline data directory."""
        ...

    def delete(self, partition: TopicPartition, /) -> object:
        """Rename the partition's folder, and remove it later."""
        ...

    def future(self, partition: TopicPartition, /) -> Log | None:
        """Return the future replica, if the partition is being moved to another data directory."""
        ...

    def prefer(self, partition: TopicPartition, path: str, /) -> None:
        """Remember in which data directory the log, or the future replica, is to be created."""
        ...

    def is_moving_elsewhere(self, partition: TopicPartition, path: str, /) -> bool:
        """Tell whether there is a future replica in another data directory; raises if there is none of that path."""
        ...

    def create_future(self, partition: TopicPartition, /) -> Log | None:
        """Create the future replica in the preferred directory; None without a preference."""
        ...

    def discard_future(self, partition: TopicPartition, /) -> object:
        """Delete the future replica, if there is one."""
        ...


class ClusterView(Protocol):
    """The part of ``metadata.image.MetadataCache`` that the replica manager uses."""

    def lacks(self, topic: str, partition: int, /) -> bool:
        """Tell whether the cluster does not have the partition: never true while the metadata is partial."""
        ...

    def has_id(self, topic: str, topic_id: UUID, /) -> bool:
        """Tell whether a topic has this id."""
        ...

    def is_alive(self, broker_id: int, /) -> bool:
        """Tell whether the broker is registered."""
        ...


class Following(Protocol):
    """The part of ``fetchers.ReplicaFetchers`` that the replica manager uses."""

    def follow(self, partition: Partition, leader: int, /) -> None:
        """Copy the partition from the broker ``leader`` in its leader epoch."""
        ...

    def stop(self, topic_partition: TopicPartition, /) -> None:
        """Stop copying the partition."""
        ...

    def made_durable(self, topic_partition: TopicPartition, /) -> None:
        """Handle the end of an fsync of the partition's owed appends, whether it succeeded or failed."""
        ...


class IsrWriter(Protocol):
    """Writes the in-sync replicas of partitions that this broker leads to the metadata store, by the controller."""

    def propose(self, partition: Partition, proposal: LeaderIsr, /) -> None:
        """Write ``proposal``, which ``Partition.propose_isr`` returned, and report the result to ``ReplicaManager``.

        The write is repeated until the proposal is written or refused, or the partition has another state.
        """
        ...


class Moves(Protocol):
    """The part of ``log_dir_moves.LogDirMoves`` that the replica manager uses."""

    def start(self, partition: Partition, future: Log, /) -> None:
        """Copy the partition's log to ``future``, or continue it in another leader epoch."""
        ...

    def stop(self, topic_partition: TopicPartition, /) -> None:
        """Stop copying the partition."""
        ...


class LeadershipListener(Protocol):
    """Learns which partitions this broker leads: the coordinators, for their internal topics."""

    def on_leader(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker leads the partition in a new epoch."""
        ...

    def on_follower_or_stopped(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        """Another broker leads it now, or (epoch None) the replica is no longer here."""
        ...


class PendingAck(NamedTuple):
    """An append that is not acknowledged yet, with all records below ``next_offset``.

    It waits until the in-sync replicas (acks=-1) have them, or this broker's disk (acks=1, if the append is owed).
    """

    topic_partition: TopicPartition
    next_offset: int
    required_acks: int = ALL_IN_SYNC


class ReplicaManager:
    """Holds the partitions of one broker."""

    def __init__(
        self,
        *,
        broker_id: int,
        clock: Clock,
        logs: LogStore,
        cluster: ClusterView,
        log_config_of: Callable[[str], LogConfig],
        lag_max_ms: int = 30_000,
    ) -> None:
        self.broker_id = broker_id
        self.purgatory: Purgatory[TopicPartition] = Purgatory(clock)
        self._unanswered: Counter[TopicPartition] = Counter()  # the appends of coordinators that wait
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: set[TopicPartition] = set()
        """Partitions whose data directory has failed: until the next start they answer KAFKA_STORAGE_ERROR."""
        self.refused: set[TopicPartition] = set()
        """Partitions whose log could not be created because of an error that may pass, such as a full disk."""
        self.clock = clock
        self._logs = logs
        self._cluster = cluster
        self._log_config_of = log_config_of
        self._lag_max_ms = lag_max_ms
        self._make_following: Callable[[], Following] | None = None
        self._following: Following | None = None
        self._make_isr_writer: Callable[[], IsrWriter] | None = None
        self._isr_writer: IsrWriter | None = None
        self._make_moves: Callable[[], Moves] | None = None
        self._moves: Moves | None = None
        self._listeners: list[LeadershipListener] = []
        self._throttle: ReplicationThrottle | None = None
        self._racks_of: RacksOf | None = None

    # changes by the controller

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Call ``listener`` after every change of leadership from now on."""
        self._listeners.append(listener)

    def follow_by(self, make_following: Callable[[], Following]) -> None:
        """Set the maker of the object that copies partitions from their leaders; it is called at the first one."""
        self._make_following = make_following

    def change_isr_by(self, make_isr_writer: Callable[[], IsrWriter]) -> None:
        """Set the maker of the object that writes in-sync replicas; it is called at the first change."""
        self._make_isr_writer = make_isr_writer

    def throttle_by(self, throttle: ReplicationThrottle) -> None:
        """Limit what followers fetch from this broker by ``throttle``; before that there is no limit."""
        self._throttle = throttle

    def send_readers_to_their_racks(self, racks_of: RacksOf) -> None:
        """Let consumers read from a replica in their own rack; ``racks_of`` returns where the replicas are."""
        self._racks_of = racks_of

    def move_by(self, make_moves: Callable[[], Moves]) -> None:
        """Set the maker of the object that copies replicas to other data directories; it is called at the first one."""
        self._make_moves = make_moves

    def become_leader_or_follower(self, topic_partition: TopicPartition, state: LeaderAndIsrPartition) -> None:
        """Apply one partition of a LeaderAndIsr request; a new replica's log is created.

        Raises ``InvalidTopicError`` for a topic that CreateTopics refuses, ``InconsistentTopicIdError`` when the
        replica's directory belongs to an earlier topic of this name, ``StaleControllerEpochError`` for a leader epoch
        that is not newer (as 2.7 does; the controller ignores it), ``UnknownTopicOrPartitionError`` when this broker is
        none of the replicas, ``KafkaStorageError`` when its data directory is, or may be, offline, or the log can't be
        created. In the epoch that the partition has already, a log without an id gets that of the topic.
        """
        check_partition(topic_partition)
        self._check_online(topic_partition)
        partition = self.partitions.get(topic_partition)
        present_epoch = NO_EPOCH if partition is None else partition.leader_epoch
        if partition is not None and self._takes_topic_id_only(partition, state):
            return
        if state.leader_epoch <= present_epoch:
            raise StaleControllerEpochError(
                f"{topic_partition} is at leader epoch {present_epoch}, the request has {state.leader_epoch}"
            )
        if self.broker_id not in state.replicas:
            raise UnknownTopicOrPartitionError(f"broker {self.broker_id} is no replica of {topic_partition}")
        if partition is None:
            log = self._log(topic_partition, state.topic_id, is_new=state.is_new)
            partition = Partition(
                topic_partition, log, broker_id=self.broker_id, clock=self.clock, lag_max_ms=self._lag_max_ms
            )
            self.partitions[topic_partition] = partition
            log.durability.listener = partial(self._on_fsync_ended, partition)
        if self._following is not None:
            self._following.stop(topic_partition)
        if state.leader == self.broker_id:
            partition.make_leader(state)
            for listener in self._listeners:
                listener.on_leader(topic_partition, state.leader_epoch)
        else:
            partition.make_follower(state)
            if state.leader != NO_LEADER:
                self._follow(partition, state.leader)
            for listener in self._listeners:
                listener.on_follower_or_stopped(topic_partition, state.leader_epoch)
        self._continue_move(partition)
        self.purgatory.check(topic_partition)

    def _takes_topic_id_only(self, partition: Partition, state: LeaderAndIsrPartition) -> bool:
        """Assign the topic's id to the log; return whether it had none, and the request has no other news."""
        if state.leader_epoch < partition.leader_epoch:
            return False
        had_none = partition.log.topic_id == NO_TOPIC_ID
        self._assign_topic_id(partition.log, state.topic_id)
        return state.leader_epoch == partition.leader_epoch and had_none and partition.log.topic_id != NO_TOPIC_ID

    def _assign_topic_id(self, log: Log, topic_id: UUID) -> None:
        """See ``Log.assign_topic_id``; a future replica gets the id too, and one of an earlier topic is deleted.

        A partition whose log belongs to an earlier topic is dropped, and its files stay: Apache Kafka leaves it as it
        was, and does not start it either.
        """
        try:
            log.assign_topic_id(topic_id)
        except InconsistentTopicIdError as error:
            logger.error("%s is not served, its records stay where they are: %s", log.topic_partition, error)
            self._drop_partition(log.topic_partition)
            raise
        future = self._logs.future(log.topic_partition)
        if future is None:
            return
        try:
            future.assign_topic_id(topic_id)
        except InconsistentTopicIdError as error:
            logger.warning("A copy that had not ended is deleted: %s", error)
            self._logs.discard_future(log.topic_partition)

    def _follow(self, partition: Partition, leader: int) -> None:
        if self._following is None:
            if self._make_following is None:
                return
            self._following = self._make_following()
        self._following.follow(partition, leader)

    def _log(self, topic_partition: TopicPartition, topic_id: UUID, *, is_new: bool) -> Log:
        try:
            config = self._log_config_of(topic_partition.topic)
            log = self._logs.get_or_create(topic_partition, config, is_new=is_new)
            self._assign_topic_id(log, topic_id)
        except KafkaStorageError as error:
            if not (isinstance(error.__cause__, OSError) and is_passing(error.__cause__)):
                logger.error("%s is offline: %s", topic_partition, error)
                self.offline.add(topic_partition)
            elif topic_partition not in self.refused:
                logger.error("%s can't be created now, and is tried again once a minute: %s", topic_partition, error)
                self.refused.add(topic_partition)
            raise
        self.refused.discard(topic_partition)
        return log

    def _check_online(self, topic_partition: TopicPartition) -> None:
        if topic_partition in self.offline:
            raise KafkaStorageError(f"{topic_partition} is in a data directory that is offline")

    def take_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose data directory failed; waiting requests get KAFKA_STORAGE_ERROR."""
        for topic_partition in partitions:
            self.offline.add(topic_partition)
            self._drop_partition(topic_partition)

    def _drop_partition(self, topic_partition: TopicPartition) -> None:
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.is_leader = False
            if self._following is not None:
                self._following.stop(topic_partition)
            if self._moves is not None:
                self._moves.stop(topic_partition)
            for listener in self._listeners:
                listener.on_follower_or_stopped(topic_partition, None)
            self.purgatory.check(topic_partition)

    def stop_replica(self, topic_partition: TopicPartition, leader_epoch: int, *, delete: bool) -> None:
        """Stop a replica, and with ``delete`` remove its log; a replica that is not here is no error.

        Raises ``InvalidTopicError`` for a topic that CreateTopics refuses, ``FencedLeaderEpochError`` for an epoch
        older than the partition's, ``KafkaStorageError`` if its data directory is offline.
        """
        check_partition(topic_partition)
        self._check_online(topic_partition)
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            fenced = leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE) and leader_epoch < partition.leader_epoch
            if fenced:
                raise FencedLeaderEpochError(f"{topic_partition} is at leader epoch {partition.leader_epoch}")
            self._drop_partition(topic_partition)
        if delete:
            self.refused.discard(topic_partition)
            self._logs.delete(topic_partition)

    def _on_fsync_ended(self, partition: Partition) -> None:
        """After an fsync of owed appends, failed or not: advance the high watermark, check the waiting requests."""
        if partition.is_leader:
            partition.advance_high_watermark()
        elif self._following is not None:
            self._following.made_durable(partition.topic_partition)
        self.purgatory.check(partition.topic_partition)

    # moves between data directories

    def alter_log_dir(self, topic_partition: TopicPartition, path: str) -> None:
        """Move a replica to the data directory ``path``; a move to another one ends (KIP-113).

        If the replica is not here yet it will be created there. Raises ``InvalidTopicError`` for a topic whose name is
        too long, ``LogDirNotFoundError``, ``KafkaStorageError``, ``UnknownTopicOrPartitionError`` for an unknown
        partition, ``ReplicaNotAvailableError`` if this broker has no replica of it.
        """
        if not fits_future_name(topic_partition):
            raise InvalidTopicError(f"the name of {topic_partition} is too long for a move")
        is_moving_elsewhere = self._logs.is_moving_elsewhere(topic_partition, path)
        self._check_online(topic_partition)
        if is_moving_elsewhere and topic_partition in self.partitions:
            if self._moves is not None:
                self._moves.stop(topic_partition)
            self._logs.discard_future(topic_partition)
        self._logs.prefer(topic_partition, path)
        try:
            partition = self.partition(topic_partition)
        except NotLeaderOrFollowerError as error:
            raise ReplicaNotAvailableError(str(error)) from error
        future = self._logs.create_future(topic_partition)
        if future is not None:
            self._move(partition, future)

    def _continue_move(self, partition: Partition) -> None:
        future = self._logs.future(partition.topic_partition)
        if future is not None:
            self._move(partition, future)

    def _move(self, partition: Partition, future: Log) -> None:
        if self._moves is None:
            if self._make_moves is None:
                return
            self._moves = self._make_moves()
        self._moves.start(partition, future)

    def log_moved(self, partition: Partition, log: Log) -> None:
        """Use ``log``, which has replaced the partition's log; check the requests that wait for its fsyncs."""
        partition.replace_log(log)
        log.durability.listener = partial(self._on_fsync_ended, partition)
        self._on_fsync_ended(partition)

    # followers of this leader

    def follower_fetched(self, partition: Partition, broker_id: int, fetch_offset: int, log_start_offset: int) -> None:
        """Note that a replica has all records below ``fetch_offset``; check waiting requests.

        A follower that has caught up is proposed as in sync. Raises ``NotLeaderOrFollowerError`` for a broker that is
        no replica of the partition.
        """
        has_news = partition.follower_fetched(broker_id, fetch_offset, log_start_offset)
        if partition.replica_may_join(broker_id) and self._cluster.is_alive(broker_id):
            self._propose(partition, (*partition.isr.committed, broker_id))
        if has_news:
            self.purgatory.check(partition.topic_partition)

    def withholds_records(self, partition: Partition, broker_id: int) -> bool:
        """Tell whether a leader answers a follower without records now: it is throttled, and not in sync."""
        return (
            self._throttle is not None
            and broker_id not in partition.isr.committed
            and self._throttle.is_exceeded_for(partition)
        )

    def count_throttled_bytes(self, sizes: Iterable[tuple[TopicPartition, int]]) -> None:
        """Count the answer to a follower's fetch for the quota: the bytes of records of its throttled partitions."""
        throttle = self._throttle
        if throttle is None:
            return
        total = RESPONSE_SIZE
        for topic_partition, size in sizes:
            partition = self.partitions.get(topic_partition)
            if partition is not None and throttle.covers(partition):
                total += PARTITION_SIZE + size
        throttle.quota.record(total)

    def has_all(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        fetch_offset: int,
        high_watermark: int,
        log_start_offset: int,
    ) -> bool:
        """Tell whether a follower that fetches at ``fetch_offset``, and knows these offsets, lacks nothing.

        It has all records then, knows the high watermark and the log start, and is in sync.
        """
        partition = self.partitions.get(topic_partition)
        return partition is not None and partition.has_all(broker_id, fetch_offset, high_watermark, log_start_offset)

    def has_records_for(self, topic_partition: TopicPartition, broker_id: int) -> bool:
        """Tell whether the follower has to fetch: there are records that it lacks, or it will be answered an error."""
        partition = self.partitions.get(topic_partition)
        replica = partition.remotes.get(broker_id) if partition is not None and partition.is_leader else None
        return partition is None or replica is None or replica.log_end_offset != partition.log.log_end_offset

    def was_caught_up(self, topic_partition: TopicPartition, broker_id: int, at_ms: int) -> None:
        """Note that a follower, if still in sync, had all records at ``at_ms``: that fetch left the partition out."""
        partition = self.partitions.get(topic_partition)
        if partition is not None and broker_id in partition.remotes and broker_id in partition.isr.maximal:
            partition.remotes[broker_id].was_caught_up(at_ms)

    def shrink_in_sync_sets(self) -> Steps[None]:
        """Propose ISRs without the followers that lag; called each ``replica.lag.time.max.ms`` / 2 in steps.

        A follower outside of them that had caught up stops counting for the high watermark when it lags for too long.
        """
        for piece in pieces(list(self.partitions.values())):
            for partition in piece:
                if partition.remotes:  # otherwise it has no followers, or is one
                    self._shrink(partition)
            yield

    def _shrink(self, partition: Partition) -> None:
        if partition.advance_high_watermark():
            self.purgatory.check(partition.topic_partition)
        outside = partition.lagging_replicas()
        if not outside:
            return
        logger.info(
            "%s: the replicas %s have not caught up with the leader's end offset %d for %d ms",
            partition.topic_partition, list(outside), partition.log.log_end_offset, self._lag_max_ms,
        )  # fmt: skip
        self._propose(partition, tuple(each for each in partition.isr.committed if each not in outside))

    def isr_written(self, partition: Partition, proposal: LeaderIsr, written: LeaderIsr) -> None:
        """Use the in-sync replicas of ``written``, which the store has in answer to ``proposal``."""
        if partition.isr_answered(proposal, written):
            logger.info(
                "%s: the in-sync replicas are %s, version %d",
                partition.topic_partition, list(written.isr), written.zk_version,
            )  # fmt: skip
            self.purgatory.check(partition.topic_partition)

    def isr_refused(self, partition: Partition, proposal: LeaderIsr) -> None:
        """Keep the in-sync replicas: ``proposal`` was not written."""
        if partition.withdraw_proposal(proposal):
            self.purgatory.check(partition.topic_partition)

    def _propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        if self._isr_writer is None:
            if self._make_isr_writer is None:
                return
            self._isr_writer = self._make_isr_writer()
        self._isr_writer.propose(partition, partition.propose_isr(isr))

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        """A partition that this broker follows has another high watermark: check the consumers that wait for it."""
        self.purgatory.check(topic_partition)

    def preferred_read_replica(self, partition: Partition, offset: int, rack: str, listener: str) -> int:
        """Return the follower from which a consumer in ``rack`` should read ``offset`` (KIP-392).

        ``listener`` is the one that the consumer uses. ``NO_BROKER_ID`` means this broker: it leads and none is nearer,
        or it follows, so that it does not know where the others are.
        """
        if self._racks_of is None or not partition.is_leader:
            return NO_BROKER_ID
        racks = self._racks_of(partition.topic_partition, listener)
        if racks.get(self.broker_id) == rack:
            return NO_BROKER_ID
        return partition.closest_replica(offset, {broker_id for broker_id, each in racks.items() if each == rack})

    # lookups

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Return a partition that this broker holds.

        Raises ``KafkaStorageError`` when its data directory is offline, ``UnknownTopicOrPartitionError`` when the
        cluster does not have it, else ``NotLeaderOrFollowerError``.
        """
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition
        self._check_online(topic_partition)
        if self._cluster.lacks(*topic_partition):
            raise UnknownTopicOrPartitionError(f"there is no {topic_partition}")
        raise NotLeaderOrFollowerError(f"this broker has no replica of {topic_partition}")

    def has_topic_id(self, topic: str, topic_id: UUID) -> bool:
        """Tell whether a topic has this id: not one that was created in place of another."""
        return self._cluster.has_id(topic, topic_id)

    def check_topic_id(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        """Check that the partition's topic has this id.

        Raises ``InconsistentTopicIdError`` when it was created in place of another, ``UnknownTopicOrPartitionError``
        when it is being deleted: the metadata lack it already, and this broker has its log still.
        """
        if self._cluster.has_id(topic_partition.topic, topic_id):
            return
        if self._cluster.lacks(*topic_partition):
            raise UnknownTopicOrPartitionError(f"{topic_partition} is being deleted")
        raise InconsistentTopicIdError(f"{topic_partition} has another topic id than {topic_id}")

    def low_watermark(self, topic_partition: TopicPartition) -> int:
        """Return ``Partition.low_watermark``; raises what that and ``partition`` raise."""
        return self.partition(topic_partition).low_watermark(self._cluster.is_alive)

    # appending

    def append(
        self,
        topic_partition: TopicPartition,
        records: memoryview | bytearray | CheckedBatch | ValidatedBatch,
        *,
        required_acks: int = 1,
        from_client: bool = True,
    ) -> AppendResult:
        """Append one batch as the leader and check waiting requests. Raises what ``Partition.append`` raises."""
        return self.append_to(
            self.partition(topic_partition), records, required_acks=required_acks, from_client=from_client
        )

    def append_to(
        self,
        partition: Partition,
        records: memoryview | bytearray | CheckedBatch | ValidatedBatch,
        *,
        required_acks: int = 1,
        from_client: bool = True,
    ) -> AppendResult:
        """As ``append``, for a partition that the caller has looked up."""
        result = partition.append(records, required_acks=required_acks, from_client=from_client)
        self.purgatory.check(partition.topic_partition)
        return result

    def append_internal(
        self,
        topic_partition: TopicPartition,
        batch: bytes | bytearray | ValidatedBatch,
        timeout_ms: int,
        required_acks: int = ALL_IN_SYNC,
    ) -> "AppendResult | asyncio.Future[AppendResult]":
        """Append a coordinator's batch: the result if it is acknowledged at once, else a future of it.

        Futures are answered in the order of the appends, so that a coordinator replays a transaction's commits before
        the marker. So an append behind an unanswered one gets a future even if it is acknowledged.

        With other ``required_acks`` than -1 only this broker must have it, and on the disk if the append is owed.
        Raises what ``append`` and ``Partition.is_acknowledged`` do; the future fails with the latter, or with
        ``RequestTimedOutError``.
        """
        partition = self.partitions.get(topic_partition) or self.partition(topic_partition)
        records = bytearray(batch) if isinstance(batch, bytes) else batch
        result = partition.append(records, required_acks=required_acks, from_client=False)
        self.purgatory.check(topic_partition)
        is_first = not self._unanswered or topic_partition not in self._unanswered
        if is_first and not (partition.remotes or partition.log.durability.is_owing):
            return result  # no other replica and no fsync to wait for: the append is acknowledged at once
        next_offset = result.last_offset + 1
        if is_first and partition.is_acknowledged(next_offset, required_acks):
            return result
        future: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        self._unanswered[topic_partition] += 1
        future.add_done_callback(partial(self._answered, topic_partition))  # right before the coordinator's callback

        def answer(errors: "asyncio.Future[list[BrokerError | None]]") -> None:
            if future.cancelled():
                return
            error = errors.result()[0]
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        pending = PendingAck(topic_partition, next_offset, required_acks)
        self.wait_for_acks([pending], timeout_ms).add_done_callback(answer)
        return future

    def _answered(self, topic_partition: TopicPartition, _: "asyncio.Future[AppendResult]") -> None:
        self._unanswered[topic_partition] -= 1
        if not self._unanswered[topic_partition]:
            del self._unanswered[topic_partition]

    def is_acknowledged(self, pending: PendingAck) -> bool:
        """True if the append is acknowledged now; False if it still waits, or failed."""
        return self._acknowledgement(pending) is True

    def wait_for_acks(
        self, appends: Sequence[PendingAck], timeout_ms: int
    ) -> "asyncio.Future[list[BrokerError | None]]":  # fmt: skip
        """Wait until every append is acknowledged or failed; the result has an error or None for each, in order."""
        return self.when_acknowledged(appends, timeout_ms, list)

    def when_acknowledged(
        self, appends: Sequence[PendingAck], timeout_ms: int, build: Callable[[list[BrokerError | None]], T]
    ) -> "asyncio.Future[T]":  # fmt: skip
        """As ``wait_for_acks``; the result is what ``build`` makes of the errors. The future can't be hurried."""

        def attempt(changed: TopicPartition | None) -> T | None:
            answers: list[BrokerError | None] = []
            for pending in appends:
                answer = self._acknowledgement(pending)
                if answer is False and changed is not None:
                    return None
                if answer is False:
                    answer = RequestTimedOutError("the records were not replicated, or not fsynced, in time")
                answers.append(answer if isinstance(answer, BrokerError) else None)
            return build(answers)

        # Other work runs between the appends of a request to many partitions, so all may be acknowledged already; then
        # no later ``check`` would finish it.
        built = attempt(appends[0].topic_partition)
        if built is not None:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            future.set_result(built)
            return future
        awaited = [pending.topic_partition for pending in appends]
        return self.purgatory.wait(awaited, attempt, timeout_ms, can_be_hurried=False)

    def _acknowledgement(self, pending: PendingAck) -> BrokerError | bool:
        try:
            return self.partition(pending.topic_partition).is_acknowledged(pending.next_offset, pending.required_acks)
        except BrokerError as error:
            return error
