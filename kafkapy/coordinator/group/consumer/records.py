"""The records of consumer groups in ``__consumer_offsets``, to bytes and back (Apache Kafka 4.4).

    key 3    the group: its epoch and the hash of the topics that its members subscribe to
    key 5    a member: its subscription
    key 6    the target assignment: its epoch
    key 7    a member's target assignment
    key 8    a member's current assignment: its epoch and its partitions
    key 16   a regular expression: the topics that it selects

The value of a record that is deleted is null. Key 4, the topics of the subscriptions, was written before Kafka 4.1: it
is not read, and deleted with the group.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafkapy.coordinator.group.consumer.calls import Partitions
from kafkapy.coordinator.group.consumer.members import (
    Assigned,
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from kafkapy.coordinator.group.records import (
    encode_versioned,
    versioned,
)
from kafkapy.protocol.messages.stored.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from kafkapy.protocol.primitives import Message
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.record import Record
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.coordinator.group.consumer.group import ConsumerGroup

VALUE_VERSION: Final = 0
NO_IMAGE_VERSION: Final = 0
"""The version of the metadata with which an expression was resolved: a loaded group resolves it again."""


def group_record(group_id: str, epoch: int | None, metadata_hash: int, timestamp_ms: int) -> Record:
    """The group's epoch; None deletes the group."""
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch, metadata_hash)
    return _record(3, ConsumerGroupMetadataKey(group_id), value, timestamp_ms)


def topics_tombstone(group_id: str, timestamp_ms: int) -> Record:
    """The deletion of the record that brokers before Kafka 4.1 write."""
    return _record(4, ConsumerGroupPartitionMetadataKey(group_id), None, timestamp_ms)


def member_record(group_id: str, member_id: str, metadata: MemberMetadata | None, timestamp_ms: int) -> Record:
    """A member's subscription; None deletes it."""
    value = None
    if metadata is not None:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=list(metadata.topic_names),
            subscribed_topic_regex=metadata.topic_regex,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.server_assignor,
            classic_member_metadata=_stored_classic(metadata.classic),
        )
    return _record(5, ConsumerGroupMemberMetadataKey(group_id, member_id), value, timestamp_ms)


def assignment_epoch_record(group_id: str, epoch: int | None, computed_ms: int, timestamp_ms: int) -> Record:
    """The epoch of the target assignment, and the time at which it was computed; None deletes the record."""
    value = None if epoch is None else ConsumerGroupTargetAssignmentMetadataValue(epoch, computed_ms)
    return _record(6, ConsumerGroupTargetAssignmentMetadataKey(group_id), value, timestamp_ms)


def target_record(group_id: str, member_id: str, target: Partitions | None, timestamp_ms: int) -> Record:
    """A member's target assignment; None deletes it."""
    value = None
    if target is not None:
        topics = [TopicPartition(topic_id, sorted(partitions)) for topic_id, partitions in target.items()]
        value = ConsumerGroupTargetAssignmentMemberValue(topics)
    return _record(7, ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value, timestamp_ms)


def current_record(group_id: str, member_id: str, current: CurrentAssignment | None, timestamp_ms: int) -> Record:
    """A member's epoch and partitions; None deletes them."""
    value = None
    if current is not None:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state,
            assigned_partitions=_stored(current.assigned),
            partitions_pending_revocation=_stored(current.revoking),
        )
    return _record(8, ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), value, timestamp_ms)


def expression_record(group_id: str, pattern: str, topics: AbstractSet[str] | None, timestamp_ms: int) -> Record:
    """The topics that a regular expression selects; None deletes them."""
    value = None
    if topics is not None:
        value = ConsumerGroupRegularExpressionValue(sorted(topics), NO_IMAGE_VERSION, timestamp_ms)
    return _record(16, ConsumerGroupRegularExpressionKey(group_id, pattern), value, timestamp_ms)


def member_tombstones(group_id: str, member_id: str, timestamp_ms: int) -> list[Record]:
    """The records that remove a member."""
    return [
        current_record(group_id, member_id, None, timestamp_ms),
        target_record(group_id, member_id, None, timestamp_ms),
        member_record(group_id, member_id, None, timestamp_ms),
    ]


def group_tombstones(group_id: str, timestamp_ms: int) -> list[Record]:
    """The records that delete a group without members."""
    return [
        assignment_epoch_record(group_id, None, 0, timestamp_ms),
        topics_tombstone(group_id, timestamp_ms),
        group_record(group_id, None, 0, timestamp_ms),
    ]


def all_tombstones(group: "ConsumerGroup", timestamp_ms: int) -> Steps[list[Record]]:
    """The records that delete a group with its members, in Kafka's order."""
    group_id, members = group.group_id, list(group.members)
    assignment_epoch, topics, epoch = group_tombstones(group_id, timestamp_ms)
    records: list[Record] = []
    for piece in pieces(members):
        records += (current_record(group_id, each, None, timestamp_ms) for each in piece)
        yield
    for piece in pieces(members):
        records += (target_record(group_id, each, None, timestamp_ms) for each in piece)
        yield
    records.append(assignment_epoch)
    for piece in pieces(members):
        records += (member_record(group_id, each, None, timestamp_ms) for each in piece)
        yield
    records += (expression_record(group_id, each, None, timestamp_ms) for each in group.expressions.topics)
    return [*records, topics, epoch]


def _record(key_version: int, key: Message, value: Message | None, timestamp_ms: int) -> Record:
    encoded = None if value is None else encode_versioned(value, VALUE_VERSION)
    return Record(encode_versioned(key, key_version), encoded, timestamp_ms)


def _stored_classic(classic: ClassicMetadata | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
    return ClassicMemberMetadata(classic.session_timeout_ms, protocols)


def _classic(stored: ClassicMemberMetadata | None) -> ClassicMetadata | None:
    """The fields of a member of the classic protocol; a record without them, as of Kafka 3.7, has no protocols."""
    if stored is None or not stored.supported_protocols:
        return None
    protocols = tuple((each.name, each.metadata) for each in stored.supported_protocols)
    return ClassicMetadata(stored.session_timeout_ms, protocols)


def _stored(assigned: Assigned) -> list[TopicPartitions]:
    stored = []
    for topic_id, epochs in assigned.items():
        partitions = sorted(epochs)
        stored.append(TopicPartitions(topic_id, partitions, [epochs[each] for each in partitions]))
    return stored


# Decode: each raises ``InvalidRecordError`` or ``ProtocolError`` for a value that no broker writes


def decode_group(value: bytes) -> ConsumerGroupMetadataValue:
    """The group's epoch and the hash of its topics."""
    _, reader = versioned(value)
    return ConsumerGroupMetadataValue.read(reader, VALUE_VERSION)


def decode_assignment_epoch(value: bytes) -> ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment."""
    _, reader = versioned(value)
    return ConsumerGroupTargetAssignmentMetadataValue.read(reader, VALUE_VERSION)


def decode_member(value: bytes) -> MemberMetadata:
    """A member's subscription."""
    _, reader = versioned(value)
    stored = ConsumerGroupMemberMetadataValue.read(reader, VALUE_VERSION)
    return MemberMetadata(
        stored.instance_id,
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        tuple(stored.subscribed_topic_names),
        stored.subscribed_topic_regex or "",
        stored.rebalance_timeout_ms,
        stored.server_assignor,
        _classic(stored.classic_member_metadata),
    )


def decode_target(value: bytes) -> dict[UUID, frozenset[int]]:
    """A member's target assignment."""
    _, reader = versioned(value)
    stored = ConsumerGroupTargetAssignmentMemberValue.read(reader, VALUE_VERSION)
    return {each.topic_id: frozenset(each.partitions) for each in stored.topic_partitions}


def decode_current(value: bytes) -> CurrentAssignment:
    """A member's epoch and partitions."""
    _, reader = versioned(value)
    stored = ConsumerGroupCurrentMemberAssignmentValue.read(reader, VALUE_VERSION)
    known = set(MemberState)
    return CurrentAssignment(
        stored.member_epoch,
        stored.previous_member_epoch,
        MemberState(stored.state) if stored.state in known else MemberState.UNKNOWN,
        _assigned(stored.assigned_partitions, stored.member_epoch),
        _assigned(stored.partitions_pending_revocation, stored.member_epoch),
    )


def decode_expression(value: bytes) -> ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression selects, and the time at which they were searched."""
    _, reader = versioned(value)
    return ConsumerGroupRegularExpressionValue.read(reader, VALUE_VERSION)


def _assigned(stored: Iterable[TopicPartitions], member_epoch: int) -> dict[UUID, dict[int, int]]:
    """The partitions with their epochs. Older releases do not write these: the member's epoch stands for them."""
    assigned: dict[UUID, dict[int, int]] = {}
    for each in stored:
        epochs = each.assignment_epochs
        if not epochs:
            assigned[each.topic_id] = dict.fromkeys(each.partitions, member_epoch)
        elif len(epochs) == len(each.partitions):
            assigned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
        else:
            raise InvalidRecordError("the numbers of partitions and of their epochs differ")
    return assigned
