"""Reads which topics consumers subscribe to, out of the metadata with which they join.

The metadata of protocol type ``consumer`` is ConsumerProtocolSubscription: an int16 version, then the fields of that
version, of which version 0 (an array of topics, then bytes) is the prefix of all. Only that prefix is read, so that
clients of any future version are understood.
"""

from collections.abc import Iterable

from kafkapy.coordinator.group.members import Member
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkapy.protocol.primitives import ProtocolError, Reader

CONSUMER_PROTOCOL_TYPE = "consumer"


def topics_of(metadata: bytes) -> list[str]:
    """The topics of one member's metadata; ``ProtocolError`` when it is something else."""
    reader = Reader(memoryview(metadata))
    reader.read_int16()  # any version, negative ones too
    return ConsumerProtocolSubscription.read(reader, 0).topics


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Iterable[Member]
) -> frozenset[str] | None:
    """The topics that the members consume under the chosen protocol; ``None`` when that can't be known."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if protocol_name is None:
        return frozenset()
    try:
        return frozenset(topic for member in members for topic in topics_of(member.metadata(protocol_name)))
    except ProtocolError:
        return None
