"""One partition on this broker: its log, its leadership, and the offsets of the other replicas.

Leadership comes from LeaderAndIsr alone. Only the leader appends for clients and answers fetches; it moves the high
watermark by the rules below. Everything is synchronous; requests that wait for a high watermark are in ``delayed``.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.metadata.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.platform.disk_errors import as_storage_error, is_passing, storage_error
from kafkapy.records.validate import CheckedBatch, ValidatedBatch
from kafkapy.replication.copying import append_copied, fill_gap, restart_log, take_offsets
from kafkapy.storage.log.log import AppendResult, Log
from kafkapy.types import NO_BROKER_ID, NO_EPOCH, NO_OFFSET, NO_TOPIC_ID, TopicPartition

logger = logging.getLogger(__name__)

# The in-sync replicas of a partition, as its leader sees them: pure functions and values.
#
# Laws (Kafka's ``Partition`` and ``Replica``; KIP-497 for changes in flight):
#
# - the high watermark is the smallest log end offset of the local log and of every remote replica that is in the
#   *maximal* in-sync set or was caught up within ``replica.lag.time.max.ms``; on a leader it never goes back;
# - the maximal set is the committed one joined with the one that was proposed to the controller and is not answered;
# - a replica is lagging when its end is not the leader's and it was last caught up too long ago;
# - a replica may join when it reached the high watermark and the start of the leader's epoch, and no change is
#   in flight.


class RemoteReplica:
    """A leader's state of one follower, which comes from its fetches only."""

    __slots__ = (
        "broker_id",
        "log_end_offset",
        "log_start_offset",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_offset_at_last_fetch",
    )

    def __init__(self, broker_id: int, last_caught_up_ms: int = 0) -> None:
        self.broker_id = broker_id
        self.log_end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = 0
        self.leader_end_offset_at_last_fetch = NO_OFFSET

    def fetched(self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Take in a fetch: the follower holds everything below ``fetch_offset``.

        It counts as caught up now if it fetches from the leader's end, and as caught up at its previous fetch if it
        fetches from the end of that time: a follower of a busy leader would otherwise never be.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms

    def was_caught_up(self, at_ms: int) -> None:
        """Note a fetch at ``at_ms`` from the leader's end that was not processed for this partition."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, at_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, at_ms)

    def begin_epoch(self, leader_end_offset: int, now_ms: int, *, is_in_sync: bool) -> None:
        """Count the replica as caught up now if it is in sync, else not before it fetches; its offsets stay known."""
        self.last_caught_up_ms = now_ms if is_in_sync else 0
        self.last_fetch_ms = now_ms
        self.leader_end_offset_at_last_fetch = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Tell whether the replica has everything, or had so within ``lag_max_ms``."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


@dataclass(frozen=True, slots=True)
class InSyncReplicas:
    """The committed in-sync set, in the order of the controller, and a change that the controller has not answered."""

    committed: tuple[int, ...]
    proposed: tuple[int, ...] | None = None

    @property
    def maximal(self) -> Collection[int]:
        """Every replica that may count as in sync, whatever the controller answers; each once."""
        return self.committed if self.proposed is None else {*self.committed, *self.proposed}

    @property
    def in_flight(self) -> bool:
        """Whether a change waits for the controller's answer."""
        return self.proposed is not None


def high_watermark(
    local_end_offset: int, remotes: Iterable[RemoteReplica], maximal: Collection[int], *, now_ms: int, lag_max_ms: int
) -> int:
    """Return the offset below which every replica that counts holds all records."""
    lowest = local_end_offset
    for replica in remotes:
        counts = replica.broker_id in maximal or now_ms - replica.last_caught_up_ms <= lag_max_ms
        if counts and replica.log_end_offset < lowest:
            lowest = replica.log_end_offset
    return lowest


def lagging(
    isr: InSyncReplicas, remotes: Iterable[RemoteReplica], leader_end_offset: int, *, now_ms: int, lag_max_ms: int
) -> tuple[int, ...]:
    """Return the members that should leave the in-sync set; none while a change is in flight."""
    if isr.in_flight:
        return ()
    return tuple(
        replica.broker_id
        for replica in remotes
        if replica.broker_id in isr.committed and not replica.is_caught_up(leader_end_offset, now_ms, lag_max_ms)
    )


def may_join(
    isr: InSyncReplicas, replica: RemoteReplica, *, leader_high_watermark: int, epoch_start_offset: int
) -> bool:
    """Tell whether the replica has caught up far enough to be added to the in-sync set."""
    return (
        not isr.in_flight
        and replica.broker_id not in isr.committed
        and replica.log_end_offset >= max(leader_high_watermark, epoch_start_offset)
    )


ALL_IN_SYNC = -1


@dataclass(frozen=True, slots=True)
class LeaderAndIsrPartition:
    """The fields of LeaderAndIsr for one partition."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    """The replica did not exist before: its log may be made although a data directory is offline."""
    topic_id: UUID = NO_TOPIC_ID
    """The id of the topic; ``NO_TOPIC_ID`` below version 5."""


class Partition:
    """A replica that this broker holds (``log``), as leader or as follower."""

    __slots__ = (
        "topic_partition",
        "log",
        "state",
        "isr",
        "is_leader",
        "leader_epoch",
        "epoch_start_offset",
        "zk_version",
        "proposal",
        "remotes",
        "cut_listener",
        "_broker_id",
        "_clock",
        "_lag_max_ms",
    )

    def __init__(
        self, topic_partition: TopicPartition, log: Log, *, broker_id: int, clock: Clock, lag_max_ms: int
    ) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.state: LeaderAndIsrPartition | None = None
        self.isr = InSyncReplicas(())
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.epoch_start_offset = 0
        self.zk_version = 0
        """Version of the partition's state in the metadata store, as the controller last said."""
        self.proposal: LeaderIsr | None = None
        """The state with other in-sync replicas that is not confirmed yet."""
        self.remotes: dict[int, RemoteReplica] = {}
        self.cut_listener: Callable[[int], object] | None = None
        """Called before the log is cut to an offset, or begins again there: a future replica has to follow."""
        self._broker_id = broker_id
        self._clock = clock
        self._lag_max_ms = lag_max_ms

    # leadership

    def make_leader(self, state: LeaderAndIsrPartition) -> None:
        """Lead from now on; the epoch begins at the log's end.

        In-sync followers count as caught up now. The position of a follower is unknown until it fetches; a leader that
        stays the leader in the next epoch keeps the positions. Raises ``KafkaStorageError`` when the disk is broken;
        nothing has changed then.
        """
        new_epoch = state.leader_epoch > self.leader_epoch
        if new_epoch:
            self._note_epoch(state.leader_epoch)
        self._take(state)
        self.is_leader = True
        if new_epoch:
            self.epoch_start_offset = self.log.log_end_offset
            self.log.durability.sync_if_configured()
            self.remotes = {
                broker_id: self.remotes.get(broker_id) or RemoteReplica(broker_id)
                for broker_id in state.replicas
                if broker_id != self._broker_id
            }
            now_ms = self._clock.now_ms()
            for broker_id, replica in self.remotes.items():
                replica.begin_epoch(self.epoch_start_offset, now_ms, is_in_sync=broker_id in state.isr)
        self.advance_high_watermark()

    def _note_epoch(self, leader_epoch: int) -> None:
        try:
            self.log.leader_epochs.assign(leader_epoch, self.log.log_end_offset)
        except OSError as error:
            refusal = storage_error(self.log, "written", error)
            if not is_passing(error):
                raise refusal from error
            # A full disk: the present files can be read, and the first record of the epoch will add the entry.

    def make_follower(self, state: LeaderAndIsrPartition) -> None:
        """Follow ``state.leader`` (-1: there is no leader; keep the log and wait)."""
        self._take(state)
        self.is_leader = False
        self.remotes = {}
        # After an unclean stop no fsync has been requested for the recovered records, and fetching waits for one.
        self.log.durability.sync_if_configured()

    def replace_log(self, log: Log) -> None:
        """Use ``log``, which has the same records in another data directory, from now on."""
        self.log = log

    # the follower's work

    def append_as_follower(self, records: bytes | bytearray | memoryview) -> None:
        """Append whole batches, one or more, as the leader sent them. Raises what ``Log.append_as_follower`` raises."""
        append_copied(self.log, records)

    def take_leader_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """Move the high watermark to the leader's, as far as the log reaches, and hide what the leader has deleted.

        Tell whether the high watermark moved. Raises ``KafkaStorageError`` when the disk is broken.
        """
        before = self.log.high_watermark
        take_offsets(self.log, high_watermark, log_start_offset)
        return self.log.high_watermark != before

    def truncate_to(self, offset: int) -> None:
        """Drop the records from ``offset`` on, which the leader does not have; raises ``KafkaStorageError``."""
        log = self.log
        if offset < log.high_watermark:
            logger.warning(
                "%s is truncated to offset %d, below its high watermark %d: records that were acknowledged may be lost",
                self.topic_partition, offset, log.high_watermark,
            )  # fmt: skip
        before = log.log_end_offset
        if self.cut_listener is not None:
            self.cut_listener(offset)
        with as_storage_error(log, "truncated"):
            log.truncate_to(offset)
        if log.log_end_offset != before:
            logger.info("%s was truncated from offset %d to %d", self.topic_partition, before, log.log_end_offset)

    def fill_gap(self, offset: int) -> None:
        """Continue at ``offset``, below which the leader has no more batches; raises as ``append_as_follower`` does."""
        fill_gap(self.log, offset, self.leader_epoch)

    def restart_at(self, offset: int) -> None:
        """Drop all records and begin again at ``offset``; raises ``KafkaStorageError``."""
        if self.cut_listener is not None:
            self.cut_listener(offset)
        restart_log(self.log, offset)

    def _take(self, state: LeaderAndIsrPartition) -> None:
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.isr = InSyncReplicas(state.isr)
        self.zk_version = state.zk_version
        self.proposal = None

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse a request that is not for this leader.

        Raises ``FencedLeaderEpochError`` or ``UnknownLeaderEpochError`` when the client names another epoch (KIP-320),
        ``NotLeaderOrFollowerError`` when this broker doesn't lead.
        """
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            raise self._wrong_epoch(current_leader_epoch)
        if not self.is_leader:
            raise NotLeaderOrFollowerError(f"this broker does not lead {self.topic_partition}")

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare the epoch that a client knows (``NO_EPOCH``: none) with the partition's."""
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            raise self._wrong_epoch(current_leader_epoch)

    def _wrong_epoch(self, current_leader_epoch: int) -> FencedLeaderEpochError | UnknownLeaderEpochError:
        text = f"{self.topic_partition} has leader epoch {self.leader_epoch}, the request {current_leader_epoch}"
        if current_leader_epoch < self.leader_epoch:
            return FencedLeaderEpochError(text)
        return UnknownLeaderEpochError(text)

    # the leader's work

    def append(
        self,
        records: memoryview | bytearray | CheckedBatch | ValidatedBatch,
        *,
        required_acks: int = 1,
        from_client: bool = True,
    ) -> AppendResult:
        """Append one batch and move the high watermark as far as the other replicas allow.

        Raises ``NotLeaderOrFollowerError``, ``NotEnoughReplicasError``, and what ``Log.append_as_leader`` raises.
        """
        if not self.is_leader:
            raise NotLeaderOrFollowerError(f"this broker does not lead {self.topic_partition}")
        log = self.log
        if required_acks == ALL_IN_SYNC and len(self.isr.committed) < log.config.min_insync_replicas:
            raise NotEnoughReplicasError(
                f"{self.topic_partition} has {len(self.isr.committed)} in-sync replicas,"
                f" min.insync.replicas is {log.config.min_insync_replicas}"
            )
        result = log.append_as_leader(records, self.leader_epoch, from_client=from_client)
        if self.remotes or log.durability.is_owing:
            self.advance_high_watermark()
        else:
            log.update_high_watermark(log.log_end_offset)
        return result

    def advance_high_watermark(self) -> bool:
        """Recompute the high watermark; tell whether it moved. On a leader it never goes back."""
        log = self.log
        now_ms = self._clock.now_ms()
        reached = high_watermark(
            log.durability.settled_end_offset,
            self.remotes.values(),
            self.isr.maximal,
            now_ms=now_ms,
            lag_max_ms=self._lag_max_ms,
        )
        before = log.high_watermark
        return reached > before and log.update_high_watermark(reached) > before

    def follower_fetched(self, broker_id: int, fetch_offset: int, log_start_offset: int) -> bool:
        """A replica has all records below ``fetch_offset``.

        Tell whether the high watermark or the replica's log start moved, for which requests may wait.

        Raises ``NotLeaderOrFollowerError`` when ``broker_id`` is no replica of this partition.
        """
        replica = self.remotes.get(broker_id)
        if replica is None:
            raise NotLeaderOrFollowerError(f"broker {broker_id} is not a replica of {self.topic_partition}")
        has_trimmed = log_start_offset > replica.log_start_offset
        replica.fetched(fetch_offset, log_start_offset, self.log.log_end_offset, self._clock.now_ms())
        return self.advance_high_watermark() or has_trimmed

    def has_all(self, broker_id: int, fetch_offset: int, high_watermark: int, log_start_offset: int) -> bool:
        """See ``ReplicaManager.has_all``."""
        log, replica, isr = self.log, self.remotes.get(broker_id), self.isr
        return (
            replica is not None
            and fetch_offset == log.log_end_offset == replica.log_end_offset
            and high_watermark == log.high_watermark
            and log_start_offset == log.log_start_offset
            and isr.proposed is None
            and broker_id in isr.committed
        )

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """Return the lowest log start of this replica and of those whose brokers are alive.

        Raises ``NotLeaderOrFollowerError`` when this broker does not lead: only a leader knows it.
        """
        self.check_leader()
        lowest = self.log.log_start_offset
        for replica in self.remotes.values():
            if replica.log_start_offset < lowest and is_alive(replica.broker_id):
                lowest = replica.log_start_offset
        return lowest

    def closest_replica(self, offset: int, nearby: Collection[int]) -> int:
        """Return the follower of ``nearby`` that has ``offset`` and the most records; ``NO_BROKER_ID`` if none has it.

        Of several, the one that was caught up last is taken, then the one with the highest id, as by Apache Kafka's
        ``RackAwareReplicaSelector``; a follower need not be in sync.
        """
        found = [
            (replica.log_end_offset, replica.last_caught_up_ms, replica.broker_id)
            for replica in self.remotes.values()
            if replica.broker_id in nearby and replica.log_start_offset <= offset <= replica.log_end_offset
        ]
        return max(found)[2] if found else NO_BROKER_ID

    def replica_may_join(self, broker_id: int) -> bool:
        """Tell whether the follower is not in sync and has caught up far enough to be."""
        replica = self.remotes.get(broker_id)
        return replica is not None and may_join(
            self.isr, replica,
            leader_high_watermark=self.log.high_watermark, epoch_start_offset=self.epoch_start_offset,
        )  # fmt: skip

    def lagging_replicas(self) -> tuple[int, ...]:
        """Return the followers that should leave the in-sync set: those that are behind for too long."""
        return lagging(
            self.isr, self.remotes.values(), self.log.log_end_offset,
            now_ms=self._clock.now_ms(), lag_max_ms=self._lag_max_ms,
        )  # fmt: skip

    def propose_isr(self, isr: tuple[int, ...]) -> LeaderIsr:
        """Ask for other in-sync replicas: return the state to be written.

        Until it is confirmed or another LeaderAndIsr comes, both the old and the new set count (``maximal``).
        """
        assert self.is_leader, "only a leader proposes in-sync replicas"
        assert self.state is not None, "a leader has a state"
        assert self.proposal is None, "one change at a time"
        self.isr = InSyncReplicas(self.isr.committed, isr)
        controller_epoch = self.state.controller_epoch
        self.proposal = LeaderIsr(self._broker_id, self.leader_epoch, isr, controller_epoch, self.zk_version)
        return self.proposal

    def isr_answered(self, proposal: LeaderIsr, confirmed: LeaderIsr) -> bool:
        """Take over what the store holds now; tell whether ``proposal`` was waited for.

        The high watermark is computed again: a member that has left does not hold it back any more.
        """
        if self.proposal is not proposal:
            return False
        self.proposal = None
        self.isr = InSyncReplicas(confirmed.isr)
        self.zk_version = confirmed.zk_version
        self.advance_high_watermark()
        return True

    def withdraw_proposal(self, proposal: LeaderIsr) -> bool:
        """``proposal`` was refused, and nothing was written: the committed set stays. Tell whether it was waited for.

        The high watermark is computed again: a replica that would have joined does not hold it back any more.
        """
        if self.proposal is not proposal:
            return False
        self.proposal = None
        self.isr = InSyncReplicas(self.isr.committed)
        self.advance_high_watermark()
        return True

    def is_acknowledged(self, next_offset: int, required_acks: int = ALL_IN_SYNC) -> bool:
        """Tell whether every record below ``next_offset`` is held as ``required_acks`` and ``kafkapy.flush`` ask.

        Raises ``NotLeaderOrFollowerError``, ``KafkaStorageError`` when the disk refused them, and
        ``NotEnoughReplicasAfterAppendError`` when the in-sync set became too small.
        """
        if not self.is_leader:
            raise NotLeaderOrFollowerError(f"this broker no longer leads {self.topic_partition}")
        if self.log.durability.is_owing and not self.log.durability.is_settled(next_offset):
            return False
        if required_acks != ALL_IN_SYNC:
            return True
        if self.log.high_watermark < next_offset:
            return False
        if len(self.isr.maximal) < self.log.config.min_insync_replicas:
            raise NotEnoughReplicasAfterAppendError(f"too few in-sync replicas of {self.topic_partition}")
        return True
