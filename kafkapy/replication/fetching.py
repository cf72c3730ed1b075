"""Reading many partitions for one fetch, at once or when there is enough.

Consumers see records below the high watermark (read_committed: below the last stable offset), followers everything.
A consumer may read from a follower, below the high watermark that the follower knows; the leader may send it to one in
its rack (KIP-392).
The limits are Kafka's: each partition's own, the response's, and at least one batch whatever the limits say, as long
as nothing was found before it. Clients that are too old to expect more than the requested size get that batch cut.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

from kafkapy.clock import TimerHandle
from kafkapy.delayed import Delayed
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import UnknownTopicOrPartitionError
from kafkapy.network.loop import late_replies
from kafkapy.platform.files import FileSlice
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.replication.partition import Partition
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.storage.log.converted import ConvertedSlice
from kafkapy.storage.log.log import LogPosition
from kafkapy.turns import MaybeSteps, Steps, at_once_or_in_turns
from kafkapy.types import NO_BROKER_ID, NO_EPOCH, NO_OFFSET, TopicPartition, maker

if TYPE_CHECKING:
    from kafkapy.storage.log.log import Log

T = TypeVar("T")

TELL_WITHIN_MS: Final = 10
"""The longest delay of a new high watermark for a follower: it gets no response for that alone after each batch."""

MOST_ITERATIONS: Final = 4
"""Iterations of a busy loop for which a follower's response is held back, so that batches which arrive together leave
together. With 64 kB batches and acks=all three brokers need a tenth less processor time than with 0, at equal speed."""

CHUNK_SIZE: Final = 50
"""Partitions that are read, or registered, in one step: some hundred microseconds."""

MANY: Final = 100
"""A waiting fetch of up to so many partitions is not charged to the memory budget."""
WAITING_PARTITION_SIZE: Final = 1_000
"""Bytes that are charged for each partition of a larger one."""

_position_of: Final = maker(LogPosition)

EMPTY: Final = b""


class FetchWish(NamedTuple):
    """The request of a client for one partition; sizes in bytes, -1 for an epoch or offset that it does not name."""

    offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET
    last_fetched_epoch: int = NO_EPOCH
    topic_id: UUID | None = None
    """The id by which the client names the topic; None if it names it by its name."""


class FetchLimits(NamedTuple):
    """The limits of a client for the whole response."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    replica_id: int = NO_BROKER_ID
    cuts_first_batch: bool = False
    from_any_replica: bool = False
    """A follower answers too: the client is a consumer that knows of preferred read replicas."""
    rack: str = ""
    """Where the client is; empty if it does not tell."""
    listener: str = ""
    """The listener through which the client reaches the brokers."""

    @property
    def is_follower(self) -> bool:
        """Whether another broker asks."""
        return self.replica_id >= 0

    def end_offset(self, partition: Partition, current_leader_epoch: int) -> int:
        """Return the offset below which the client may read.

        Raises what ``Partition.check_leader`` raises, or only what ``check_epoch`` does if any replica may answer.
        """
        if self.from_any_replica:
            partition.check_epoch(current_leader_epoch)
        else:
            partition.check_leader(current_leader_epoch)
        log = partition.log
        if self.replica_id >= 0:
            return log.log_end_offset
        return log.last_stable_offset if self.read_committed else log.high_watermark


def replica_id_of(request: FetchRequest) -> int:
    """Return the broker that fetches; ``NO_BROKER_ID``, or another negative number, for a consumer (KIP-903)."""
    state = request.replica_state  # in place of the replica id from version 15 on
    return request.replica_id if state is None else state.replica_id


class PartitionRead(NamedTuple):
    """The result of a read of one partition, or its error."""

    topic_partition: TopicPartition
    records: FileSlice | ConvertedSlice | bytes = EMPTY
    error_code: int = 0
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted: list[tuple[int, int]] | None = None
    diverging: tuple[int, int] | None = None
    preferred_read_replica: int = NO_BROKER_ID
    """The broker that the client should read from instead; nothing was read then."""
    topic_id: UUID | None = None
    """That of the wish."""


_read_of: Final = maker(PartitionRead)

Wishes = Mapping[TopicPartition, FetchWish]
Reads = Sequence[PartitionRead]
Built: TypeAlias = T | Awaitable[T]
Build = Callable[[Reads], T | Awaitable[T] | Steps[T | Awaitable[T]]]
"""Makes a response of the reads, or an awaitable of it; in steps if that is much."""


class FollowerWishes(Protocol):
    """A follower's session: it has partitions that are not read, but may have to be while a fetch waits (``quiet``)."""

    on_wake: Callable[[bool], None] | None
    """Called when one of them has to be read again, and with True if that can wait for ``TELL_WITHIN_MS``."""

    def wishes(self) -> dict[TopicPartition, FetchWish]:
        """Return the wishes for the partitions that have to be read now."""
        ...

    def has_untold(self, reads: Reads) -> bool:
        """Tell whether a high watermark or a log start has moved that the follower was not told."""
        ...

    def is_untold(self, topic_partition: TopicPartition, high_watermark: int, log_start_offset: int, /) -> bool:
        """Tell the same of one partition, which has these offsets now."""
        ...


def fetch(
    replicas: ReplicaManager,
    wishes: Wishes,
    limits: FetchLimits,
    build: Build[T],
    session: FollowerWishes | None = None,
) -> MaybeSteps[Built[T] | Delayed[Built[T]]]:
    """Return what ``build`` makes of the reads: now if there is enough, an error or no time, else a future of it.

    A step is some partitions. The result of the future is an awaitable if its last reads take long.
    """
    reading = _Reading(replicas, limits)
    if len(wishes) > CHUNK_SIZE:
        return _fetch_many(reading, wishes, build, session)
    reading.add(wishes.items())
    return _build_or_wait(reading, wishes, build, session)


def _fetch_many(
    reading: "_Reading", wishes: Wishes, build: Build[T], session: FollowerWishes | None
) -> Steps[Built[T] | Delayed[Built[T]]]:
    yield from reading.add_many(wishes)
    answer = _build_or_wait(reading, wishes, build, session)
    return (yield from answer) if isinstance(answer, Generator) else answer


def _build_or_wait(
    reading: "_Reading", wishes: Wishes, build: Build[T], session: FollowerWishes | None
) -> MaybeSteps[Built[T] | Delayed[Built[T]]]:
    replicas, limits, reads = reading.replicas, reading.limits, reading.reads()
    if reading.is_enough() or limits.max_wait_ms <= 0 or not (wishes or session):
        return build(reads)
    if session is None:
        return _FetchWait(replicas, wishes, limits, build).begin()
    return _FollowerWait(replicas, wishes, limits, build, session).begin_in_steps(reads)


class _FetchWait(Generic[T]):
    """The waiting of a fetch until there is enough, or its time is over; then everything is read again."""

    __slots__ = ("replicas", "limits", "pending", "build", "waiting")

    def __init__(self, replicas: ReplicaManager, wishes: Wishes, limits: FetchLimits, build: Build[T]) -> None:
        self.replicas = replicas
        self.limits = limits
        self.pending = _PendingFetch(replicas, wishes, limits)
        self.build = build
        self.waiting: Delayed[Built[T]] = replicas.purgatory.wait((), self.attempt, limits.max_wait_ms)

    def begin(self) -> MaybeSteps[Delayed[Built[T]]]:
        """Wait for all partitions; return the future of the response."""
        wishes = self.pending.wishes
        if len(wishes) > CHUNK_SIZE:
            return self._begin_many(wishes)
        self._add(wishes)
        return self.waiting

    def _begin_many(self, wishes: Wishes) -> Steps[Delayed[Built[T]]]:
        if len(wishes) > MANY:
            self.waiting.held_size = len(wishes) * WAITING_PARTITION_SIZE
        remaining = iter(wishes)
        while not self.waiting.done() and (chunk := tuple(islice(remaining, CHUNK_SIZE))):
            self._add(chunk)
            yield
        return self.waiting

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        # First the wait, then the count: nothing that is appended in between goes unnoticed.
        self.replicas.purgatory.add(self.waiting, partitions)
        if self.pending.begin(partitions):
            self.waiting.hurry()

    def attempt(self, changed: TopicPartition | None) -> Built[T] | None:
        """See ``Purgatory.wait``."""
        return self.read_again() if changed is None or self.pending.update(changed) else None

    def wishes_now(self) -> Wishes:
        """Return the partitions to read for the response."""
        return self.pending.wishes

    def read_again(self) -> Built[T]:
        """Return the response, or an awaitable of it if that takes long."""
        reading, wishes = _Reading(self.replicas, self.limits), self.wishes_now()
        if len(wishes) > CHUNK_SIZE:
            return at_once_or_in_turns(self._read_many(reading, wishes))
        reading.add(wishes.items())
        built = self.build(reading.reads())
        return at_once_or_in_turns(built) if isinstance(built, GeneratorType) else built  # type: ignore[return-value]

    def _read_many(self, reading: "_Reading", wishes: Wishes) -> Steps[Built[T]]:
        yield from reading.add_many(wishes)
        built = self.build(reading.reads())
        return (yield from built) if isinstance(built, Generator) else built


class _FollowerWait(_FetchWait[T]):
    """The waiting of a follower's fetch.

    It is answered when the loop has handled all events that are ready now: the batches that arrive together make one
    response and not one each. It gets a new high watermark within ``TELL_WITHIN_MS``, and sooner with records; a
    response for the high watermark alone after each batch would double the number of fetches.
    """

    __slots__ = ("_session", "_ends_soon", "_telling")

    def __init__(
        self,
        replicas: ReplicaManager,
        wishes: Wishes,
        limits: FetchLimits,
        build: Build[T],
        session: FollowerWishes,
    ) -> None:
        super().__init__(replicas, wishes, limits, build)
        self._session = session
        self._ends_soon = False
        self._telling: TimerHandle | None = None

    def begin_in_steps(self, reads: Reads) -> Steps[Delayed[Built[T]]]:
        """As ``begin``; ``reads`` were found."""
        session = self._session
        session.on_wake = self._woken
        begun = self.begin()
        waiting = (yield from begun) if isinstance(begun, Generator) else begun
        if session.wishes().keys() - self.pending.wishes.keys():  # woken while the wishes were collected
            waiting.hurry()
        elif session.has_untold(reads):
            self._tell_soon()
        return waiting

    def wishes_now(self) -> Wishes:
        """See ``_FetchWait``: with the partitions that were woken meanwhile."""
        return self._session.wishes()

    def attempt(self, changed: TopicPartition | None) -> Built[T] | None:
        """See ``Purgatory.wait``."""
        if changed is None:
            return self.read_again()
        if self._ends_soon:
            return None
        if self.pending.update(changed):
            self._end_soon()
        elif self._telling is None:
            # Another follower, which fetched later, has moved the high watermark.
            partition = self.replicas.partitions.get(changed)
            log = None if partition is None else partition.log
            if log is not None and self._session.is_untold(changed, log.high_watermark, log.log_start_offset):
                self._tell_soon()
        return None

    def _tell_soon(self) -> None:
        """Some offset has moved: end the waiting within ``TELL_WITHIN_MS``."""
        if self._telling is None and not self.waiting.done():
            self._telling = self.replicas.clock.call_later(TELL_WITHIN_MS, self._end)
            self.waiting.add_done_callback(self._told)

    def _told(self, _: object) -> None:
        if self._telling is not None:
            self._telling.cancel()

    def _woken(self, can_wait: bool) -> None:
        if can_wait:
            self._tell_soon()
        else:
            self._end_soon()

    def _end_soon(self) -> None:
        if not self._ends_soon:
            self._ends_soon = True
            asyncio.get_running_loop().call_soon(self._end_when_quiet, MOST_ITERATIONS)

    def _end_when_quiet(self, iterations_left: int) -> None:
        """End the waiting unless sockets are ready, from which more records may come."""
        if iterations_left and late_replies().ready_count:
            asyncio.get_running_loop().call_soon(self._end_when_quiet, iterations_left - 1)
        else:
            self._end()

    def _end(self) -> None:
        self.waiting.hurry()  # which does nothing when the response is made, or is not needed any more


class _PendingFetch:
    """The bytes that count towards ``min_bytes`` of a fetch that found too few of them, by Apache Kafka's rules.

    For each partition the bytes between the fetch offset and the end that this client may read count, up to the
    partition's ``max_bytes``; the response's ``max_bytes`` does not matter here. If that end is in another segment than
    the fetch offset was when the fetch began, the fetch is answered at once: an answer holds bytes of one segment only,
    so waiting would add nothing to it. Nothing is read for this but the position of the end.
    """

    __slots__ = ("wishes", "replicas", "limits", "_starts", "_counts", "_total")

    def __init__(self, replicas: ReplicaManager, wishes: Wishes, limits: FetchLimits) -> None:
        self.wishes = wishes
        self.replicas = replicas
        self.limits = limits
        self._starts: dict[TopicPartition, LogPosition] = {}
        self._counts: dict[TopicPartition, int] = {}
        self._total = 0

    def begin(self, partitions: Iterable[TopicPartition]) -> bool:
        """Locate the fetch offsets of ``partitions``; tell whether the fetch must be answered now."""
        for topic_partition in partitions:
            wish = self.wishes[topic_partition]
            try:
                partition = self.replicas.partition(topic_partition)
                log = partition.log
                if wish.offset == log.log_end_offset == self.limits.end_offset(partition, wish.current_leader_epoch):
                    active = log.segments.active  # most fetches wait here: 1.5 us less than the plain way below
                    self._starts[topic_partition] = _position_of((active.base_offset, active.size))
                    continue
                self._starts[topic_partition] = log.locate(wish.offset)
            except BrokerError:
                return True
            if self.update(topic_partition):
                return True
        return False

    def update(self, changed: TopicPartition) -> bool:
        """Count the bytes of ``changed`` again; tell whether the fetch must be answered now."""
        try:
            count = self._count(self.replicas.partition(changed), self.wishes[changed], self._starts[changed])
        except BrokerError:
            return True
        if count is None:
            return True
        self._total += count - self._counts.get(changed, 0)
        self._counts[changed] = count
        return self._total >= self.limits.min_bytes

    def _count(self, partition: Partition, wish: FetchWish, start: LogPosition) -> int | None:
        """Return the bytes that count, None if the fetch must be answered; raises what the answer would say."""
        log, limits = partition.log, self.limits
        end_offset = limits.end_offset(partition, wish.current_leader_epoch)
        if limits.is_follower and limits.replica_id not in partition.remotes:
            return 0  # it is given no records
        if _divergence(partition, wish) is not None:
            return None
        if end_offset == wish.offset:
            return 0  # after a roll this offset is in a new segment, and there is nothing to be read yet
        if limits.is_follower and self.replicas.withholds_records(partition, limits.replica_id):
            return 0  # it is given no records now
        end = log.locate(end_offset)
        if end.segment_base_offset != start.segment_base_offset:
            return None
        return max(min(end.position - start.position, wish.max_bytes), 0)


class _Reading:
    """Reads partitions one after the other, within the limits of the response."""

    __slots__ = ("replicas", "limits", "_reads", "_size", "_must_answer")

    def __init__(self, replicas: ReplicaManager, limits: FetchLimits) -> None:
        self.replicas = replicas
        self.limits = limits
        self._reads: list[PartitionRead] = []
        self._size = 0
        self._must_answer = False

    def add(self, wishes: Iterable[tuple[TopicPartition, FetchWish]]) -> None:
        """Read some more partitions, in their order."""
        replicas, limits, size = self.replicas, self.limits, self._size
        for topic_partition, wish in wishes:
            left = max(limits.max_bytes - size, 0) if size else limits.max_bytes
            read = read_one(
                replicas, topic_partition, wish, limits, min(wish.max_bytes, left),
                min_one_batch=limits.cuts_first_batch or not size,
            )  # fmt: skip
            size += len(read.records)
            if read.error_code or read.diverging or read.preferred_read_replica != NO_BROKER_ID:
                self._must_answer = True
            self._reads.append(read)
        self._size = size

    def add_many(self, wishes: Wishes) -> Steps[None]:
        """Read any number of partitions; a step is ``CHUNK_SIZE`` of them."""
        remaining = iter(wishes.items())
        while chunk := list(islice(remaining, CHUNK_SIZE)):
            self.add(chunk)
            yield

    def is_enough(self) -> bool:
        """Whether to answer at once: there are ``min_bytes``, or something that the client must know."""
        return self._must_answer or self._size >= self.limits.min_bytes

    def reads(self) -> Reads:
        """Return the reads; partitions that don't exist come last."""
        if self._must_answer:
            self._reads.sort(key=lambda read: read.error_code == UnknownTopicOrPartitionError.error_code)
        return self._reads


def read_one(
    replicas: ReplicaManager,
    topic_partition: TopicPartition,
    wish: FetchWish,
    limits: FetchLimits,
    max_bytes: int,
    *,
    min_one_batch: bool = True,
) -> PartitionRead:
    """Read one partition; an error is part of the result."""
    topic_id = wish.topic_id
    try:
        partition = replicas.partition(topic_partition)
        if topic_id is not None:
            replicas.check_topic_id(topic_partition, topic_id)
        end_offset = limits.end_offset(partition, wish.current_leader_epoch)
        if limits.replica_id >= 0:
            return _read_as_follower(replicas, partition, wish, limits.replica_id, max_bytes, min_one_batch)
        log = partition.log
        stable = log.last_stable_offset
        if limits.rack:
            preferred = replicas.preferred_read_replica(partition, wish.offset, limits.rack, limits.listener)
            if preferred != NO_BROKER_ID:
                offsets = log.high_watermark, stable, log.log_start_offset
                return _read_of((topic_partition, EMPTY, 0, *offsets, None, None, preferred, topic_id))
        diverging = _divergence(partition, wish)
        if diverging is not None:
            offsets = log.high_watermark, stable, log.log_start_offset
            return _read_of((topic_partition, EMPTY, 0, *offsets, None, diverging, NO_BROKER_ID, topic_id))
        if max_bytes < 0:
            _check_size(log, wish.offset, end_offset)
        found = log.read(wish.offset, max_bytes, up_to_offset=end_offset, min_one_batch=min_one_batch)
        records = found.records
        if limits.cuts_first_batch and len(records) > max(max_bytes, 0):
            assert isinstance(records, FileSlice), "no bytes are longer than nothing"
            records.size = max_bytes
        aborted = None
        if limits.read_committed:
            end = min(end_offset, log.upper_bound(found)) if records else 0
            aborted = log.aborted_transactions(wish.offset, end) if records else []
        return _read_of(
            (topic_partition, records, 0, log.high_watermark, stable, log.log_start_offset,
             aborted, None, NO_BROKER_ID, topic_id)
        )  # fmt: skip
    except BrokerError as error:
        return PartitionRead(topic_partition, error_code=error.error_code, topic_id=topic_id)


def _read_as_follower(
    replicas: ReplicaManager,
    partition: Partition,
    wish: FetchWish,
    replica_id: int,
    max_bytes: int,
    min_one_batch: bool,
) -> PartitionRead:
    """Read for another replica, up to the log's end; the fetch says how far it is."""
    log = partition.log
    topic_partition = partition.topic_partition
    diverging = _divergence(partition, wish)
    records: FileSlice | bytes = EMPTY
    if diverging is None:
        if max_bytes < 0:
            _check_size(log, wish.offset, log.log_end_offset)
        records = log.read(wish.offset, max_bytes, min_one_batch=min_one_batch).records
        # Where compaction has removed all batches up to the end, the follower has everything, as in Apache Kafka.
        reached = wish.offset if records or log.has_batch_from(wish.offset) else log.log_end_offset
        is_replica = replica_id in partition.remotes
        if not is_replica or replicas.withholds_records(partition, replica_id):
            # To a broker that is no replica Kafka answers without records, and without an error if the offset is there.
            if isinstance(records, FileSlice):
                records.release()
            records = EMPTY
        if is_replica:
            replicas.follower_fetched(partition, replica_id, reached, wish.log_start_offset)
    offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
    return PartitionRead(topic_partition, records, 0, *offsets, None, diverging, topic_id=wish.topic_id)


def _check_size(log: "Log", offset: int, bound: int) -> None:
    """A negative size is, where there is something to be read, an unknown error (-1), as in Kafka."""
    if log.log_start_offset <= offset < bound:
        raise BrokerError("a negative number of bytes can't be read")


def _divergence(partition: Partition, wish: FetchWish) -> tuple[int, int] | None:
    """Return (epoch, end offset) where the log that the client has read leaves this one (KIP-595), None if not."""
    if wish.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.log.leader_epochs.end_offset_for(wish.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRangeError(f"the leader knows no epoch {wish.last_fetched_epoch}")
    if epoch < wish.last_fetched_epoch or end_offset < wish.offset:
        return epoch, end_offset
    return None
