"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, so that it names only changes.

A full request (epoch 0) may open a session; an incremental one (epoch n) continues it and gets only the partitions
that have something new. Sessions are kept in a cache of ``max.incremental.fetch.session.cache.slots``. When it is
full a new session takes the place of one that was idle for two minutes, or of one that is worth less: consumers'
before followers' (a consumer's session can be displaced by a consumer's only after two minutes of life), fewer
partitions before more.
"""

import random
from typing import Self

from kafkapy.clock import Clock
from kafkapy.cluster.fetching import FetchWish
from kafkapy.types import TopicPartition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
DEFAULT_SLOTS = 1000
EVICTION_MS = 120_000
_MAX_INT32 = 0x7FFFFFFF


class SessionPartition:
    """A partition of a session: the wish, and what the client was last told."""

    __slots__ = ("wish", "high_watermark", "log_start_offset")

    def __init__(self, wish: FetchWish) -> None:
        self.wish = wish
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, *, size: int, error_code: int, high_watermark: int, log_start_offset: int) -> bool:
        """Tell whether an incremental response must carry the partition, and remember what it says.

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

    __slots__ = ("session_id", "epoch", "is_follower", "partitions", "created_ms", "last_used_ms")

    def __init__(self, session_id: int, *, is_follower: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.is_follower = is_follower
        self.partitions: dict[TopicPartition, SessionPartition] = {}
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    def update(self, wishes: dict[TopicPartition, FetchWish], forgotten: list[TopicPartition]) -> Self:
        """Take in the changes that an incremental request names."""
        for topic_partition, wish in wishes.items():
            known = self.partitions.get(topic_partition)
            if known is None:
                self.partitions[topic_partition] = SessionPartition(wish)
            else:
                known.wish = wish
        for topic_partition in forgotten:
            self.partitions.pop(topic_partition, None)
        return self

    def served(self, topic_partition: TopicPartition) -> None:
        """A partition that an incremental response told of goes to the end, so that the others get their turn."""
        self.partitions[topic_partition] = self.partitions.pop(topic_partition)

    def value(self) -> tuple[bool, int]:
        """What the session is worth when places are scarce."""
        return self.is_follower, len(self.partitions)


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request after ``epoch``: it wraps to 1, 0 begins a session."""
    return 1 if epoch >= _MAX_INT32 else epoch + 1


class FetchSessionCache:
    """The sessions of one broker."""

    __slots__ = ("_clock", "_slots", "_sessions", "_random")

    def __init__(self, clock: Clock, slots: int = DEFAULT_SLOTS, generator: random.Random | None = None) -> None:
        self._clock = clock
        self._slots = slots
        # In the order of last use, least recent first.
        self._sessions: dict[int, FetchSession] = {}
        self._random = generator or random.SystemRandom()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session, if it is still there."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Close a session; one that is not there is no error."""
        self._sessions.pop(session_id, None)

    def touch(self, session: FetchSession) -> None:
        """The session was used now."""
        session.last_used_ms = self._clock.now_ms()
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session

    def create(self, wishes: dict[TopicPartition, FetchWish], *, is_follower: bool) -> FetchSession | None:
        """Open a session; None when there is no place for one of its worth."""
        now_ms = self._clock.now_ms()
        if len(self._sessions) >= self._slots and not self._make_room((is_follower, len(wishes)), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_INT32)
        session = FetchSession(session_id, is_follower=is_follower, now_ms=now_ms).update(wishes, [])
        self._sessions[session_id] = session
        return session

    def _make_room(self, value: tuple[bool, int], now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.remove(oldest.session_id)
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
