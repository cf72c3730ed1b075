"""The records of ``__consumer_offsets``: groups and their offsets, to bytes and back.

Every key starts with an int16 version that tells its kind, every value with the version of its layout. The layouts of
Kafka 2.7 are written:

    key 1   offset of a group's partition   value 3, or 1 if the client named a retention time
    key 2   metadata of a classic group     value 3
    key 3–8 consumer groups (KIP-848)       ``consumer/records.py``
    key 16  their regular expressions       ``consumer/records.py``
    value null                              tombstone: expired or deleted

With an older ``inter.broker.protocol.version`` the values have the layout of that release (``settings``). Key 0 is an
older form of 1 and read like it; keys of later Kafka releases are skipped. Layouts: ``protocol/messages/stored``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.coordinator.group.calls import Producer
from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.protocol.messages.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataKey
from kafkapy.protocol.messages.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkapy.protocol.primitives import Message, Reader, Writer
from kafkapy.records.batch import TRANSACTIONAL_BIT, own_batch
from kafkapy.records.record import Record, write_record
from kafkapy.records.validate import ValidatedBatch, validated_batch_of
from kafkapy.records.varint import write_varint
from kafkapy.turns import PIECE, Steps
from kafkapy.types import NO_PRODUCER_ID, TopicPartition

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_WITH_EXPIRY_VERSION = 1

_KNOWN_KEYS = 4096
"""A group commits the same partitions again and again, and each commit writes a key and reads it back."""
_LONGEST_KNOWN = 1024
"""The longest group id or key that is kept: one may have 32 kB, and the caches would take 660 MB."""
_VERSION = Struct(">h")
_OFFSET_3 = Struct(">hqih")
"""Version, offset, leader epoch and the length of the metadata, which the timestamp follows."""
_TIMESTAMP = Struct(">q")
_OFFSET_3_AND_HEADERS = Struct(">hqihqb")
"""The whole value of a commit without metadata, then the number of the record's headers."""


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    """The key of a classic group's metadata."""

    group_id: str


class ConsumerGroupKey(NamedTuple):
    """The key of a consumer group's epoch (KIP-848)."""

    group_id: str


class ConsumerAssignmentEpochKey(NamedTuple):
    """The key of the epoch of a consumer group's target assignment."""

    group_id: str


class ConsumerMemberKey(NamedTuple):
    """The key of the subscription of a consumer group's member."""

    group_id: str
    member_id: str


class ConsumerTargetKey(NamedTuple):
    """The key of the target assignment of a consumer group's member."""

    group_id: str
    member_id: str


class ConsumerCurrentKey(NamedTuple):
    """The key of the current assignment of a consumer group's member."""

    group_id: str
    member_id: str


class ConsumerExpressionKey(NamedTuple):
    """The key of the topics that a regular expression of a consumer group's members selects."""

    group_id: str
    pattern: str


ConsumerKey = (
    ConsumerGroupKey
    | ConsumerAssignmentEpochKey
    | ConsumerMemberKey
    | ConsumerTargetKey
    | ConsumerCurrentKey
    | ConsumerExpressionKey
)
CONSUMER_KEYS: Final[tuple[type[ConsumerKey], ...]] = (
    ConsumerGroupKey,
    ConsumerMemberKey,
    ConsumerAssignmentEpochKey,
    ConsumerTargetKey,
    ConsumerCurrentKey,
    ConsumerExpressionKey,
)
RecordKey = OffsetKey | GroupKey | ConsumerKey


def encode_versioned(message: Message, version: int) -> bytes:
    """The bytes of a key or value: its version, then the message."""
    writer = Writer()
    message.write(writer, version)
    return _VERSION.pack(version) + writer.getvalue()


def versioned(data: bytes) -> tuple[int, Reader]:
    """The version of a key or value, and a reader of the bytes after it."""
    reader = Reader(memoryview(data))
    return reader.read_int16(), reader


def decode_key(key: bytes) -> RecordKey | None:
    """A record's key; None if only a later release knows its kind. Raises ``ProtocolError`` if it is cut off."""
    return _known_key(key) if len(key) <= _LONGEST_KNOWN else _known_key.__wrapped__(key)


@lru_cache(maxsize=_KNOWN_KEYS)
def _known_key(key: bytes) -> RecordKey | None:
    version, reader = versioned(key)
    read = KEYS.get(version)
    return None if read is None else read(reader, version)


def _read_offset_key(reader: Reader, version: int) -> OffsetKey:
    key = OffsetCommitKey.read(reader, version)
    return OffsetKey(key.group, TopicPartition(key.topic, key.partition))


def _read_group_key(reader: Reader, version: int) -> GroupKey:
    return GroupKey(GroupMetadataKey.read(reader, version).group)


def _consumer_key(stored: type[Message], key: Callable[..., RecordKey]) -> Callable[[Reader, int], RecordKey]:
    """A function that reads a key whose fields are those of ``key``, in this order."""

    def read(reader: Reader, version: int) -> RecordKey:
        message = stored.read(reader, version)
        return key(*(getattr(message, name) for name in message.__slots__ if name != "unknown_tagged_fields"))

    return read


KEYS: Final[Mapping[int, Callable[[Reader, int], RecordKey]]] = {
    **dict.fromkeys(OFFSET_KEY_VERSIONS, _read_offset_key),
    GROUP_KEY_VERSION: _read_group_key,
    3: _consumer_key(ConsumerGroupMetadataKey, ConsumerGroupKey),
    5: _consumer_key(ConsumerGroupMemberMetadataKey, ConsumerMemberKey),
    6: _consumer_key(ConsumerGroupTargetAssignmentMetadataKey, ConsumerAssignmentEpochKey),
    7: _consumer_key(ConsumerGroupTargetAssignmentMemberKey, ConsumerTargetKey),
    8: _consumer_key(ConsumerGroupCurrentMemberAssignmentKey, ConsumerCurrentKey),
    16: _consumer_key(ConsumerGroupRegularExpressionKey, ConsumerExpressionKey),
}
"""The kinds of records: the version of a key → the function that reads the key."""


def decode_offset(value: bytes) -> CommittedOffset:
    """A committed offset, of any version."""
    if len(value) >= _OFFSET_3.size:  # without a Reader for the version of nearly all records
        version, offset, leader_epoch, size = _OFFSET_3.unpack_from(value)
        end = _OFFSET_3.size + size
        if version == OFFSET_VALUE_VERSION and size >= 0 and len(value) == end + _TIMESTAMP.size:
            metadata = value[_OFFSET_3.size : end].decode("utf-8", "replace") if size else ""
            return CommittedOffset(offset, leader_epoch, metadata, _TIMESTAMP.unpack_from(value, end)[0])
    version, reader = versioned(value)
    stored = OffsetCommitValue.read(reader, version)
    return CommittedOffset(
        stored.offset, stored.leader_epoch, stored.metadata, stored.commit_timestamp, stored.expire_timestamp
    )


def offset_record(
    group_id: str,
    topic_partition: TopicPartition,
    committed: CommittedOffset | None,
    timestamp_ms: int,
    value_version: int = OFFSET_VALUE_VERSION,
) -> Record:
    """The record of a committed offset; ``None`` makes it a tombstone."""
    key = offset_key(group_id, topic_partition)
    if committed is None:
        return Record(key, None, timestamp_ms)
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRY
    if value_version == OFFSET_VALUE_VERSION and not has_expiry and not committed.metadata:
        # without a Writer, as above: nearly all commits of consumers have no metadata
        head = _OFFSET_3.pack(value_version, committed.offset, committed.leader_epoch, 0)
        return Record(key, head + _TIMESTAMP.pack(committed.commit_timestamp_ms), timestamp_ms)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    version = OFFSET_VALUE_WITH_EXPIRY_VERSION if has_expiry else value_version
    return Record(key, encode_versioned(value, version), timestamp_ms)


def offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    """The key of a record about the group's offset of the partition."""
    encode = _known_offset_key if len(group_id) <= _LONGEST_KNOWN else _known_offset_key.__wrapped__
    return encode(group_id, topic_partition)


@lru_cache(maxsize=_KNOWN_KEYS)
def _known_offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    key = OffsetCommitKey(group_id, topic_partition.topic, topic_partition.partition)
    return encode_versioned(key, OFFSET_KEY_VERSIONS[-1])


# Commits as one batch. Nearly all have neither metadata nor a retention time, and a group commits the same
# partitions again and again, so that only the value's numbers change: what ``offset_record`` and ``encode_batch`` would
# write, byte for byte, in a fifth of the time.


def plain_commits(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], timestamp_ms: int, producer: Producer
) -> ValidatedBatch | None:
    """The batch, uncompressed, with values of version 3; None if a commit has metadata or a retention."""
    body = b""
    head = _head if len(group_id) <= _LONGEST_KNOWN else _head.__wrapped__
    for place, (topic_partition, (offset, leader_epoch, metadata, commit_ms, expire_ms)) in enumerate(offsets.items()):
        if metadata or expire_ms != NO_EXPIRY:
            return None
        body += head(group_id, topic_partition, place)
        body += _OFFSET_3_AND_HEADERS.pack(OFFSET_VALUE_VERSION, offset, leader_epoch, 0, commit_ms, 0)
    attributes = 0 if producer.producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    buffer, header = own_batch(body, len(offsets), timestamp_ms, producer, attributes)
    return validated_batch_of((buffer, header, timestamp_ms, 0))


def commits_in_steps(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], timestamp_ms: int, producer: Producer
) -> Steps[ValidatedBatch | None]:
    """Build the batch of a large commit, uncompressed, with values of version 3, with metadata too.

    None if a commit has a retention time, for which values of version 3 have no field.
    """
    body = bytearray()
    for place, (topic_partition, committed) in enumerate(offsets.items()):
        if committed.expire_timestamp_ms != NO_EXPIRY:
            return None
        write_record(body, offset_record(group_id, topic_partition, committed, timestamp_ms), 0, place)
        if place % PIECE == 0:
            yield
    attributes = 0 if producer.producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    buffer, header = own_batch(body, len(offsets), timestamp_ms, producer, attributes)
    return validated_batch_of((buffer, header, timestamp_ms, 0))


@lru_cache(maxsize=_KNOWN_KEYS)
def _head(group_id: str, topic_partition: TopicPartition, place: int) -> bytes:
    """A record up to its value (``records/record.py`` has the layout)."""
    key = offset_key(group_id, topic_partition)
    body = bytearray(2)  # attributes, and the difference to the batch's timestamp
    write_varint(body, place)
    write_varint(body, len(key))
    body += key
    write_varint(body, _OFFSET_3_AND_HEADERS.size - 1)
    head = bytearray()
    write_varint(head, len(body) + _OFFSET_3_AND_HEADERS.size)
    return bytes(head + body)
