"""Incremental fetch sessions (KIP-227): a session keeps a client's partitions, so that requests name only changes.

A full request (epoch 0) may open a session; an incremental one (epoch n) continues it and gets only the partitions
that have something new. Sessions are kept in a cache of ``max.incremental.fetch.session.cache.slots``. When it is
full a new session displaces one that was idle for two minutes, or one of lower value: consumers' before followers' (a
consumer's session is displaced by another consumer's only after two minutes of life), fewer partitions before more.
All sessions together have at most ``kafkapy.fetch.session.partitions.max`` partitions (about 400 bytes each): a session
beyond that is not opened or continued, and its client names all partitions in each request, as KIP-227 provides for.
A client may name topics that don't exist, with up to 32 kB of text: such a partition counts as several.

From Fetch 13 on a session has the ids of topics and not their names (KIP-516). It keeps ids that no topic has, since
the topic may be too new for this broker, and the name that a topic had when it was found first: so a client of a topic
that is deleted, or replaced by another of its name, gets the error for just that.
"""

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.replication.fetching import FetchWish, PartitionRead
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.text import text_size
from kafkapy.types import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from kafkapy.replication.quiet import QuietPartitions

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
DEFAULT_SLOTS = 1000
DEFAULT_MAX_PARTITIONS = 500_000
EVICTION_MS = 120_000
PARTITION_BYTES = 400
"""The approximate size of a partition of a session, with a name as topics have it."""
_MAX_INT32 = 0x7FFFFFFF

PartitionKey: TypeAlias = TopicPartition | TopicIdPartition
"""A partition as the client of a session names it: all partitions of a session in the same way."""

TopicNames = dict[UUID, str]
"""Names of topics by id."""


class SessionPartition:
    """A partition of a session: its wish, and the offsets in the last response about it."""

    __slots__ = ("wish", "high_watermark", "log_start_offset")

    def __init__(self, wish: FetchWish) -> None:
        self.wish = wish
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, *, size: int, error_code: int, high_watermark: int, log_start_offset: int) -> bool:
        """Tell whether an incremental response must carry the partition, and keep the offsets of that response.

        After an error the next response carries the partition too, so that the client sees it recover.
        """
        news = size > 0 or self.high_watermark != high_watermark or self.log_start_offset != log_start_offset
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        if error_code:
            self.high_watermark = -1
            return True
        return news


class FetchSession:
    """One client's session; ``partitions`` in the order in which they are served."""

    __slots__ = (
        "session_id",
        "epoch",
        "is_follower",
        "topic_names",
        "partitions",
        "due",
        "quiet",
        "on_wake",
        "is_closed",
        "counted",
        "created_ms",
        "last_used_ms",
    )

    def __init__(self, session_id: int, *, is_follower: bool, topic_names: TopicNames | None, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.is_follower = is_follower
        self.topic_names = topic_names
        """The topics that were found by their ids; None if the client names topics by their names."""
        self.partitions: dict[PartitionKey, SessionPartition] = {}
        self.due: dict[PartitionKey, None] = {}
        """The partitions that a fetch has to look at: all but the quiet ones."""
        self.quiet: QuietPartitions | None = None
        """The other ones, if the client is a follower that names topics by their names."""
        self.on_wake: Callable[[bool], None] | None = None
        """Ends the waiting of the last fetch, if it waits still: a quiet partition is due again. See ``fetching``."""
        self.is_closed = False
        """The session has left the cache; a fetch of it may still wait."""
        self.counted = 0
        """The number that the partitions count towards the limit of all sessions: see ``count_of``."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    @property
    def uses_topic_ids(self) -> bool:
        """Whether its client names topics by their ids."""
        return self.topic_names is not None

    def key_of(self, topic_partition: TopicPartition, topic_id: UUID) -> PartitionKey:
        """Return the key in ``partitions`` of a partition whose topic has this id."""
        return TopicIdPartition(topic_id, topic_partition.partition) if self.uses_topic_ids else topic_partition

    def named(self) -> list[TopicPartition]:
        """Return the partitions with the names of their topics; those whose ids no topic had are left out."""
        names = self.topic_names or {}
        return [
            key if isinstance(key, TopicPartition) else TopicPartition(names[key.topic_id], key.partition)
            for key in self.partitions
            if isinstance(key, TopicPartition) or key.topic_id in names
        ]

    def wishes(self, partitions: Iterable[PartitionKey] | None = None) -> dict[PartitionKey, FetchWish]:
        """Return the wishes in the order in which they are served: those due, or of ``partitions`` those left."""
        known = self.partitions
        return {each: known[each].wish for each in (self.due if partitions is None else partitions) if each in known}

    def move_to_end(self, key: PartitionKey) -> None:
        """Serve a partition after all others in the next response, because this response carries it."""
        if key in self.partitions:
            self.due.pop(key, None)
            self.due[key] = None

    def is_due(self, key: PartitionKey) -> None:
        """Look at a partition in the next fetch, and in those after it until it is quiet again."""
        self.due[key] = None
        if self.quiet is not None and isinstance(key, TopicPartition):
            self.quiet.remove(key)

    def leave_out_quiet(
        self, replicas: ReplicaManager, replica_id: int, topic_partitions: Iterable[TopicPartition]
    ) -> None:
        """Leave partitions out of the next fetches until they change, if the follower knows their present state."""
        from kafkapy.replication.quiet import QuietPartitions  # only the leaders of followers need it

        if self.is_closed or self.uses_topic_ids:
            return
        if self.quiet is None:
            self.quiet = QuietPartitions(replicas, replica_id, self._woken)
        for each in topic_partitions:
            known = self.partitions.get(each)
            if known is not None and self.quiet.add_if_quiet(
                each, known.wish.offset, known.high_watermark, known.log_start_offset
            ):
                self.due.pop(each, None)

    def continued(self, now_ms: int) -> None:
        """A fetch of the session has come; it reads some of the quiet partitions too."""
        self.last_used_ms = now_ms
        if self.quiet is not None:
            self.quiet.fetched(now_ms)
            for each in self.quiet.take_some():
                self.due[each] = None

    def close(self) -> None:
        """Leave nothing behind in the purgatory, now and later."""
        self.is_closed = True
        if self.quiet is not None:
            self.quiet.clear()
            self.quiet = None

    def has_untold(self, reads: Iterable[PartitionRead]) -> bool:
        """Tell whether an offset of the reads has moved that the last response about the partition did not have."""
        return any(self.is_untold(each.topic_partition, each.high_watermark, each.log_start_offset) for each in reads)

    def is_untold(self, topic_partition: TopicPartition, high_watermark: int, log_start_offset: int) -> bool:
        """Tell whether the last response about the partition had other offsets than these."""
        known = self.partitions.get(topic_partition)
        return known is not None and (
            known.high_watermark != high_watermark or known.log_start_offset != log_start_offset
        )

    def _woken(self, topic_partition: TopicPartition, can_wait: bool) -> None:
        self.due[topic_partition] = None
        if self.on_wake is not None:
            self.on_wake(can_wait)

    def value(self) -> tuple[bool, int]:
        """The session's value when the cache is full: a session of the lowest value is displaced."""
        return self.is_follower, len(self.partitions)


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request after ``epoch``: it wraps to 1, 0 begins a session."""
    return 1 if epoch >= _MAX_INT32 else epoch + 1


def count_of(key: PartitionKey) -> int:
    """Return as how many partitions one counts: 1, or more if its topic's name takes more than any topic's can."""
    return max(1, text_size(key.topic) // PARTITION_BYTES) if isinstance(key, TopicPartition) else 1


class FetchSessionCache:
    """The sessions of one broker."""

    __slots__ = ("refused", "_clock", "_slots", "_partitions_left", "_sessions", "_random")

    def __init__(
        self,
        clock: Clock,
        slots: int = DEFAULT_SLOTS,
        generator: random.Random | None = None,
        *,
        max_partitions: int = DEFAULT_MAX_PARTITIONS,
    ) -> None:
        self.refused = 0
        """Sessions that were not opened or continued because all sessions together had too many partitions."""
        self._clock = clock
        self._slots = slots
        self._partitions_left = max_partitions
        # In the order of last use, least recent first.
        self._sessions: dict[int, FetchSession] = {}
        self._random = generator or random.SystemRandom()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session, if it is still open."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Close a session if it is open."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions_left += session.counted
            session.counted = 0
            session.close()

    def touch(self, session: FetchSession) -> None:
        """Record that the session was used now."""
        session.continued(self._clock.now_ms())
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session

    def create(self, count: int, *, is_follower: bool, topic_names: TopicNames | None = None) -> FetchSession | None:
        """Open an empty session for ``count`` partitions; None when the cache has no place for one of its value.

        ``topic_names`` has the topics that were found by their ids; None: the client names topics by their names.
        """
        now_ms = self._clock.now_ms()
        while count > self._partitions_left:
            if not self._evict_idle(now_ms):
                self.refused += 1
                return None
        if len(self._sessions) >= self._slots and not self._make_room((is_follower, count), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_INT32)
        session = FetchSession(session_id, is_follower=is_follower, topic_names=topic_names, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def remember(self, session: FetchSession, wishes: Iterable[tuple[PartitionKey, FetchWish]]) -> bool:
        """Add partitions to a session, or change them; False if the session was closed before, or is closed now."""
        if self._sessions.get(session.session_id) is not session:
            return False
        partitions = session.partitions
        for key, wish in wishes:
            known = partitions.get(key)
            if known is not None:
                known.wish = wish
                session.is_due(key)
                continue
            count = count_of(key)
            while count > self._partitions_left:
                if not self._make_room_in(session):
                    return False
            self._partitions_left -= count
            session.counted += count
            partitions[key] = SessionPartition(wish)
            session.due[key] = None
        return True

    def forget(self, session: FetchSession, forgotten: Iterable[PartitionKey]) -> None:
        """Take partitions out of a session."""
        for key in forgotten:
            session.is_due(key)
            del session.due[key]
            if session.partitions.pop(key, None) is not None and session.counted:
                count = count_of(key)
                session.counted -= count
                self._partitions_left += count

    def _make_room_in(self, session: FetchSession) -> bool:
        """Make room for more partitions of a session, or close the session if that is not possible."""
        if self._evict_idle(self._clock.now_ms()):
            return session.session_id in self._sessions
        self.refused += 1
        self.remove(session.session_id)
        return False

    def _evict_idle(self, now_ms: int) -> bool:
        """Close the session that was idle for the longest time, if that is more than two minutes."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms <= EVICTION_MS:
            return False
        self.remove(oldest.session_id)
        return True

    def _make_room(self, value: tuple[bool, int], now_ms: int) -> bool:
        if self._evict_idle(now_ms):
            return True
        is_follower = value[0]
        least: FetchSession | None = None
        for session in self._sessions.values():
            is_settled = now_ms - session.created_ms > EVICTION_MS
            displaceable = is_settled if session.is_follower == is_follower else is_follower
            if displaceable and (least is None or session.value() < least.value()):
                least = session
        if least is None or value < least.value():
            return False
        self.remove(least.session_id)
        return True
