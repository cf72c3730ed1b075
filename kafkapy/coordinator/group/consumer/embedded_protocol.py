"""The consumers' own messages in JoinGroup and SyncGroup: ConsumerProtocolSubscription and ConsumerProtocolAssignment.

Each starts with an int16 version. Fields are only added at the end, so that a later version is read as the last known
one, as Kafka's ``ConsumerProtocol`` does it. All functions that read raise ``ProtocolError`` for other bytes.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from kafkapy.coordinator.group.consumer.calls import Partitions
from kafkapy.coordinator.group.consumer.topics import TopicImages
from kafkapy.coordinator.group.records import encode_versioned, versioned
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafkapy.protocol.primitives import ProtocolError, Reader


class ClassicSubscription(NamedTuple):
    """What a member says in its JoinGroup."""

    topic_names: tuple[str, ...]
    """Sorted, each once."""
    rack_id: str | None
    owned: Partitions
    """The partitions that the member still reads; none if its strategy revokes all before a rebalance."""


def read_subscription(metadata: bytes, image: TopicImages) -> ClassicSubscription:
    """Read the metadata of one protocol of a member; owned partitions of topics that do not exist are left out."""
    version, reader = _open(metadata)
    stored = ConsumerProtocolSubscription.read(reader, min(version, ConsumerProtocolSubscription.MAX_VERSION))
    owned = _by_id(stored.owned_partitions, image)
    return ClassicSubscription(tuple(sorted(set(stored.topics))), stored.rack_id or None, owned)


def read_assignment(assignment: bytes, image: TopicImages) -> tuple[Partitions, bytes]:
    """Read the partitions of a member, without topics that do not exist, and the bytes of the strategy's own.

    A member that its leader has left out has an assignment of no bytes.
    """
    if not assignment:
        return {}, b""
    version, reader = _open(assignment)
    stored = ConsumerProtocolAssignment.read(reader, min(version, ConsumerProtocolAssignment.MAX_VERSION))
    return _by_id(stored.assigned_partitions, image), stored.user_data or b""


def write_assignment(assigned: Partitions, topic_name: Callable[[UUID], str | None], metadata: bytes) -> bytes:
    """The assignment of a member, in the version of its metadata; topics that were deleted are left out."""
    version, _ = _open(metadata)
    names = ((topic_name(topic_id), partitions) for topic_id, partitions in assigned.items())
    topics = [ConsumerProtocolAssignmentTopicPartition(name, sorted(each)) for name, each in names if name]
    return encode_versioned(ConsumerProtocolAssignment(topics), min(version, ConsumerProtocolAssignment.MAX_VERSION))


def _open(data: bytes) -> tuple[int, Reader]:
    version, reader = versioned(data)
    if version < 0:
        raise ProtocolError(f"version {version} of the consumers' protocol")
    return version, reader


def _by_id(
    topics: Iterable[ConsumerProtocolAssignmentTopicPartition | ConsumerProtocolSubscriptionTopicPartition],
    image: TopicImages,
) -> dict[UUID, frozenset[int]]:
    found: dict[UUID, frozenset[int]] = {}
    for each in topics:
        topic_id = image.topic_id(each.topic)
        if topic_id.int:
            found[topic_id] = found.get(topic_id, frozenset()) | frozenset(each.partitions)
    return found
