"""Reads which topics consumers subscribe to, out of the metadata with which they join.

The metadata of protocol type ``consumer`` is ConsumerProtocolSubscription: an int16 version, then the fields of that
version, of which version 0 (an array of topics, then bytes) is the prefix of all. Only that prefix is read, so that
clients of any future version are understood.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from kafkapy.coordinator.group.metadata_budget import TOPIC_BYTES, MetadataBudget
from kafkapy.protocol.primitives import ProtocolError, Reader
from kafkapy.turns import Steps, finish

CONSUMER_PROTOCOL_TYPE = "consumer"
TOPICS_IN_A_STEP: Final = 512


def read_topics(metadata: bytes, topics: set[str]) -> Steps[None]:
    """Add the topics of one member's metadata to ``topics``; raise ``ProtocolError`` when it is something else."""
    reader = Reader(memoryview(metadata))
    reader.read_int16()  # any version, negative ones too
    remaining = reader.read_count()
    while remaining:
        count = min(remaining, TOPICS_IN_A_STEP)
        topics.update(reader.read_strings(count))
        remaining -= count
        yield
    reader.read_nullable_bytes()


def topics_of(metadata: bytes) -> set[str]:
    """Return the topics of one member's metadata; raise ``ProtocolError`` when it is something else."""
    topics: set[str] = set()
    finish(read_topics(metadata, topics))
    return topics


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, subscriptions: Sequence[bytes], budget: MetadataBudget
) -> Steps[AbstractSet[str] | None]:
    """Return the topics of all ``subscriptions``, which are the members' metadata of the chosen protocol.

    None when that can't be known, also because ``budget`` has no room for so many.
    """
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    if protocol_name is not None:
        try:
            for metadata in subscriptions:
                for _ in read_topics(metadata, topics):
                    if not budget.has_room(TOPIC_BYTES * len(topics)):
                        return None
                    yield
        except ProtocolError:
            return None
    return topics
