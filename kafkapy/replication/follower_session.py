"""The follower's side of an incremental fetch session (KIP-227): the content of the next request.

The leader remembers the partitions of a session, so a request names only those whose offset or epoch has changed since
the last one, and those that are fetched no more. The leader may refuse a session (session id 0 in its response); then
every request names all partitions. After any failure it is not known what the leader has understood: the next request
closes the session, if there was one, and begins another with all partitions.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafkapy.replication.fetching import FetchLimits, FetchWish
from kafkapy.types import TopicPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = 0x7FFF_FFFF


class SessionRequest(NamedTuple):
    """One request of a session."""

    request: FetchRequest
    is_full: bool
    """It names every partition, and requests a new session."""


class FollowerSession:
    """The session of one fetcher with its leader; one request is in flight at a time."""

    __slots__ = ("_session_id", "_epoch", "_wishes", "_changed", "_forgotten")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._wishes: dict[TopicPartition, FetchWish] = {}
        """The leader's state of the session's partitions after the next request."""
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, None] = {}

    def fetch(self, topic_partition: TopicPartition, wish: FetchWish) -> None:
        """Fetch a partition so from the next request on."""
        if self._wishes.get(topic_partition) != wish:
            self._wishes[topic_partition] = wish
            self._changed[topic_partition] = None
            self._forgotten.pop(topic_partition, None)

    def leave_out(self, topic_partition: TopicPartition) -> None:
        """Fetch a partition no more, if it is fetched."""
        if self._wishes.pop(topic_partition, None) is not None:
            self._changed.pop(topic_partition, None)
            self._forgotten[topic_partition] = None

    def request(self, limits: FetchLimits) -> SessionRequest:
        """Return the next request: all partitions, or those that have changed since the last one."""
        is_full = self._epoch == FIRST_EPOCH
        wishes = self._wishes if is_full else {each: self._wishes[each] for each in self._changed}
        request = FetchRequest(
            replica_id=limits.replica_id,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=_topics(wishes),
            forgotten_topics_data=_forgotten(() if is_full else self._forgotten),
        )
        self._changed.clear()
        self._forgotten.clear()
        return SessionRequest(request, is_full)

    def answered(self, response: FetchResponse) -> None:
        """Take in a response without an error at its top."""
        if response.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch >= _LAST_EPOCH else self._epoch + 1

    def failed(self, *, is_unknown: bool = False) -> None:
        """No response came, or one with an error; ``is_unknown``: the leader has no such session any more."""
        self._epoch = FIRST_EPOCH
        if is_unknown:
            self._session_id = NO_SESSION


def _topics(wishes: Mapping[TopicPartition, FetchWish]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, index), wish in wishes.items():
        topics.setdefault(topic, FetchTopic(topic)).partitions.append(
            FetchPartition(
                index,
                wish.current_leader_epoch,
                wish.offset,
                wish.last_fetched_epoch,
                wish.log_start_offset,
                wish.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[TopicPartition]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for topic, index in partitions:
        topics.setdefault(topic, ForgottenTopic(topic)).partitions.append(index)
    return list(topics.values())
