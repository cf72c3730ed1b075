"""Nouns that every layer shares.

Offsets, epochs and broker ids are plain ints everywhere (a ``NewType`` costs a call for each value on the produce
and fetch paths); their names carry the meaning and the unit comes last: ``base_offset``, ``leader_epoch``,
``retention_ms``.
"""

import base64
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

NO_BROKER_ID: Final = -1
"""No broker: a consumer in the place of a replica, or a broker whose id is generated."""
NO_LEADER: Final = -1
"""No replica can lead; producers and consumers have to wait."""
LEADER_DURING_DELETE: Final = -2
"""In UpdateMetadata: the partition is being deleted."""
EPOCH_DURING_DELETE: Final = -2
"""In StopReplica and UpdateMetadata: higher than any leader epoch."""
NO_EPOCH: Final = -1
"""No epoch of a leader, producer or broker is known."""
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
"""The base sequence of a batch of a producer without an id."""
NO_TOPIC_ID: Final = UUID(int=0)
"""No id of a topic is known; messages have it in the place of an id (KIP-516)."""
READ_COMMITTED: Final = 1
"""The isolation level at which records above the last stable offset, and of aborted transactions, are left out."""

N = TypeVar("N", bound=tuple[Any, ...])


def maker(kind: type[N]) -> Callable[[tuple[Any, ...]], N]:
    """Return a function that makes the named tuple from a plain tuple of all its fields, without any check.

    It is for named tuples that every request makes: calling the class takes more than twice as long (CPython 3.11).
    """
    return partial(tuple.__new__, kind)


def as_long(value: int) -> int:
    """Wrap a sum or difference to 64 bits, as Java's arithmetic does: clients may send any number."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def base64_id(data: bytes) -> str:
    """An id of 16 bytes as Kafka writes it: base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def id_of(text: str) -> UUID:
    """The id that ``base64_id`` has written; raises ValueError for other text."""
    return UUID(bytes=base64.b64decode(f"{text}==", altchars="-_", validate=True))


class TopicPartition(NamedTuple):
    """A partition of a topic, as Kafka names it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


topic_partition_of = maker(TopicPartition)
"""Make a ``TopicPartition`` from a tuple (topic, partition)."""


class TopicIdPartition(NamedTuple):
    """A partition of a topic, as a client names it that knows the topic's id (KIP-516)."""

    topic_id: UUID
    partition: int
