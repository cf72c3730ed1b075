"""The mirror's side of an incremental fetch session with one leader (KIP-227).

The leader remembers the partitions of a session: a request names those whose position has changed and those that are
fetched no more, and a response those that have something new. So partitions without new records cost nothing. A leader
may refuse a session (id 0 in its response), or forget it; then the next request names all partitions again.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.clients.mirror.common import Place, by_topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

FIRST_VERSION: Final = 7
"""The first version of Fetch with sessions."""
SESSION_ERRORS: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = 0x7FFF_FFFF


class Wish(NamedTuple):
    """The offset from which a partition is fetched, and the most bytes of it."""

    offset: int
    max_bytes: int


class SourceSession:
    """One request is under way at a time."""

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: Mapping[Place, Wish] = {}

    @property
    def lasts(self) -> bool:
        """Whether the leader remembers what the request before has named."""
        return self._epoch != _FIRST_EPOCH

    def name(self, request: FetchRequest, wishes: Mapping[Place, Wish], *, version: int) -> None:
        """Put partitions into a request: all in their order, or in a session only what has changed.

        Wishes that were given for the request before, the same object, cost nothing.
        """
        if version < FIRST_VERSION:
            request.topics = _topics(wishes, wishes)
            return
        request.session_id, request.session_epoch = self._session_id, self._epoch
        if self._epoch == _FIRST_EPOCH:
            request.topics = _topics(wishes, wishes)
        elif wishes is not self._known:
            request.topics = _topics(
                (place for place, wish in wishes.items() if self._known.get(place) != wish), wishes
            )
            gone = by_topic(self._known.keys() - wishes.keys())
            request.forgotten_topics_data = [
                ForgottenTopic(topic, partitions=indexes) for topic, indexes in gone.items()
            ]
        self._known = wishes

    def answered(self, response: FetchResponse) -> bool:
        """Take in a response; returns whether its partitions count. If not, the session has ended."""
        if response.error_code in SESSION_ERRORS:
            self._epoch = _FIRST_EPOCH
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = _NO_SESSION
            return False
        self._session_id = response.session_id
        if self._session_id == _NO_SESSION:
            self._epoch = _FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch >= _LAST_EPOCH else self._epoch + 1
        return True


def _topics(places: Iterable[Place], wishes: Mapping[Place, Wish]) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    index, fetch_offset=wishes[topic, index].offset, partition_max_bytes=wishes[topic, index].max_bytes
                )
                for index in partitions
            ],
        )
        for topic, partitions in by_topic(places).items()
    ]
