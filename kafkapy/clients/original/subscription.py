"""The subscription of a consumer: topics by name, or by a white or black list, each with a number of streams.

A consumer publishes it in its registration, ``/consumers/<group>/ids/<consumer>``, and the others read it there.
Kafka 0.8.2 writes ``{"version":1,"subscription":{"flights":2},"pattern":"static","timestamp":"1416847228312"}``; with a
list the subscription has the regular expression in place of names, and the pattern is ``white_list`` or ``black_list``.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

from kafkapy.clients.errors import ClientError

STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets"})
"""Topics that ``exclude.internal.topics`` leaves out. Kafka 0.8.2 knows this one alone; members must agree on it."""


class SubscriptionError(ClientError):
    """A subscription that names no streams, has no valid expression, or a registration that can't be read."""


class TopicFilter(NamedTuple):
    """Topics whose whole name a regular expression matches (``WHITE_LIST``), or does not (``BLACK_LIST``)."""

    pattern: str
    expression: str

    @classmethod
    def white_list(cls, expression: str) -> Self:
        """The topics that match; a comma separates alternatives. Raises SubscriptionError."""
        return cls._of(WHITE_LIST, expression)

    @classmethod
    def black_list(cls, expression: str) -> Self:
        """The topics that do not match. Raises SubscriptionError."""
        return cls._of(BLACK_LIST, expression)

    @classmethod
    def _of(cls, pattern: str, expression: str) -> Self:
        text = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            re.compile(text)
        except re.error as error:
            raise SubscriptionError(f"{expression!r} is no regular expression: {error}") from None
        return cls(pattern, text)

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        """Whether the topic is wanted."""
        if exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return (re.fullmatch(self.expression, topic) is not None) == (self.pattern == WHITE_LIST)


class Subscription(NamedTuple):
    """Topic → number of streams, or with ``topic_filter`` one number for every topic that it allows."""

    streams: Mapping[str, int]
    topic_filter: TopicFilter | None = None

    @classmethod
    def of_topics(cls, streams: Mapping[str, int]) -> Self:
        """These topics; raises SubscriptionError unless each has at least one stream."""
        if not streams or min(streams.values()) < 1:
            raise SubscriptionError("name at least one topic, and at least one stream for each")
        return cls(dict(streams))

    @classmethod
    def of_filter(cls, topic_filter: TopicFilter, streams: int) -> Self:
        """All topics of a list; raises SubscriptionError unless there is at least one stream."""
        if streams < 1:
            raise SubscriptionError("at least one stream is needed")
        return cls({topic_filter.expression: streams}, topic_filter)

    def wants(self, topic: str, *, exclude_internal: bool) -> int:
        """The number of streams for a topic, 0 if it is not wanted."""
        if self.topic_filter is None:
            return self.streams.get(topic, 0)
        allowed = self.topic_filter.allows(topic, exclude_internal=exclude_internal)
        return next(iter(self.streams.values())) if allowed else 0

    def topics_of(self, existing: Iterable[str], *, exclude_internal: bool) -> list[str]:
        """The wanted topics: those named, or the existing ones that the list allows."""
        if self.topic_filter is None:
            return sorted(self.streams)
        return sorted(topic for topic in existing if self.wants(topic, exclude_internal=exclude_internal))

    def to_json(self, timestamp_ms: int) -> bytes:
        """The content of the consumer's registration."""
        content = {
            "version": 1,
            "subscription": dict(self.streams),
            "pattern": STATIC if self.topic_filter is None else self.topic_filter.pattern,
            "timestamp": str(timestamp_ms),
        }
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """The content of a registration; raises SubscriptionError for another content."""
        try:
            found = json.loads(content)
            streams = {str(topic): int(count) for topic, count in found["subscription"].items()}
            pattern = found.get("pattern", STATIC)
            if pattern == STATIC:
                return cls(streams)
            if pattern not in (WHITE_LIST, BLACK_LIST) or len(streams) != 1:
                raise SubscriptionError(f"a registration of a consumer with the pattern {pattern!r}")
            (expression,) = streams
            re.compile(expression)
            return cls(streams, TopicFilter(pattern, expression))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, re.error) as error:
            raise SubscriptionError(f"no registration of a consumer: {content[:200]!r} ({error!r})") from None
