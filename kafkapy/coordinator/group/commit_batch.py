"""A commit as one batch, written in one go: nearly all commits have neither metadata nor a retention of their own.

What ``records.offset_record`` and ``encode_batch`` would write, byte for byte, in a fifth of the time: a group commits
the same partitions again and again, and all but the value's numbers stays.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Final

from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.coordinator.group.records import OFFSET_VALUE_VERSION, offset_key, offset_record
from kafkapy.coordinator.group.results import Producer
from kafkapy.coordinator.steps import PIECE
from kafkapy.records.batch import TRANSACTIONAL_BIT, own_batch
from kafkapy.records.record import write_record
from kafkapy.records.validate import ValidatedBatch, validated_batch_of
from kafkapy.records.varint import write_varint
from kafkapy.turns import Steps
from kafkapy.types import NO_PRODUCER_ID, TopicPartition

_KNOWN_HEADS: Final = 4096
_VALUE: Final = Struct(">hqihqb")
"""Version, offset, leader epoch, the length of no metadata, timestamp; and behind the value the number of headers."""


def plain_commits(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], timestamp_ms: int, producer: Producer
) -> ValidatedBatch | None:
    """The batch, uncompressed, with values of version 3; None if one of the commits has more to say."""
    body = b""
    for place, (partition, (offset, leader_epoch, metadata, commit_ms, expire_ms)) in enumerate(offsets.items()):
        if metadata or expire_ms != NO_EXPIRY:
            return None
        body += _head(group_id, partition, place)
        body += _VALUE.pack(OFFSET_VALUE_VERSION, offset, leader_epoch, 0, commit_ms, 0)
    attributes = 0 if producer.producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    buffer, header = own_batch(body, len(offsets), timestamp_ms, producer, attributes)
    return validated_batch_of((buffer, header, timestamp_ms, 0))


def commits_in_steps(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], timestamp_ms: int, producer: Producer
) -> Steps[ValidatedBatch | None]:
    """Build the batch of a large commit, uncompressed, with values of version 3; metadata may stand beside offsets.

    None if a commit has a retention of its own, which values of version 3 can't tell.
    """
    body = bytearray()
    for place, (partition, committed) in enumerate(offsets.items()):
        if committed.expire_timestamp_ms != NO_EXPIRY:
            return None
        write_record(body, offset_record(group_id, partition, committed, timestamp_ms), 0, place)
        if place % PIECE == 0:
            yield
    return _batch(body, len(offsets), timestamp_ms, producer)


def _batch(body: bytes | bytearray, count: int, timestamp_ms: int, producer: Producer) -> ValidatedBatch:
    attributes = 0 if producer.producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    buffer, header = own_batch(body, count, timestamp_ms, producer, attributes)
    return validated_batch_of((buffer, header, timestamp_ms, 0))


@lru_cache(maxsize=_KNOWN_HEADS)
def _head(group_id: str, partition: TopicPartition, place: int) -> bytes:
    """A record up to its value (``records/record.py`` has the layout)."""
    key = offset_key(group_id, partition)
    body = bytearray(2)  # attributes, and the difference to the batch's timestamp
    write_varint(body, place)
    write_varint(body, len(key))
    body += key
    write_varint(body, _VALUE.size - 1)
    head = bytearray()
    write_varint(head, len(body) + _VALUE.size)
    return bytes(head + body)
