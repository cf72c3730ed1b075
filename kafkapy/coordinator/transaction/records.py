"""The records of ``__transaction_state``: transactional ids, to bytes and back.

    key 0    transactional id
    value 0  producer, time-out, state, partitions, timestamps; null: the transactional id has expired
    value 1  the same with tagged fields: the client's transaction version, the previous and the next producer id

Value 1 is written for clients of transaction version 2 alone, so that Apache Kafka before 3.8 loads all other ids.
Empty has null for partitions, every other state a list. Layouts: ``protocol/messages/stored/transaction_log.py``.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from kafkapy.coordinator.transaction.states import EMPTY, TransactionState
from kafkapy.coordinator.transaction.transaction import TransactionData
from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.stored.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kafkapy.protocol.primitives import Message, Reader, Writer
from kafkapy.records.batch import own_batch
from kafkapy.records.record import Record, write_record
from kafkapy.records.validate import ValidatedBatch, validated_batch_of
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

KEY_VERSION = 0
VALUE_VERSION = 0
TAGGED_VALUE_VERSION = 1

_VERSION = Struct(">h")
_HEAD = Struct(">qhib")
"""The first fields of a value behind its version: producer id and epoch, time-out, state."""
_TAIL = Struct(">qq")
"""The last fields of a value: time of the last update, start of the transaction."""
_KNOWN_KEYS = _KNOWN_VALUES = 256
_NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
_KNOWN_PARTITIONS = 64
"""The largest number of partitions of a value that is kept."""


class UnknownTransactionStateError(BrokerError):
    """A record has a state that no release of Kafka writes."""


def _encode(message: Message, version: int) -> bytes:
    writer = Writer(_VERSION.pack(version))
    message.write(writer, version)
    return bytes(writer.buffer)  # the whole message: these messages carry no records


@lru_cache(maxsize=_KNOWN_KEYS)
def _key(transactional_id: str) -> bytes:
    return _encode(TransactionLogKey(transactional_id), KEY_VERSION)


def decode_key(key: bytes) -> str | None:
    """The transactional id; None if only a later release knows the key. Raises ``ProtocolError`` if it is cut off."""
    reader = Reader(memoryview(key))
    version = reader.read_int16()
    return TransactionLogKey.read(reader, version).transactional_id if version == KEY_VERSION else None


def decode_value(value: bytes) -> TransactionData:
    """The content of a record. Raises ``ProtocolError`` if it is cut off or of an unknown version."""
    reader = Reader(memoryview(value))
    stored = TransactionLogValue.read(reader, reader.read_int16())
    try:
        state = TransactionState(stored.transaction_status)
    except ValueError:
        raise UnknownTransactionStateError(f"transaction state {stored.transaction_status}") from None
    return TransactionData(
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_timeout_ms,
        state,
        tuple(
            TopicPartition(each.topic, index)
            for each in stored.transaction_partitions or ()
            for index in each.partition_ids
        ),
        stored.transaction_last_update_timestamp_ms,
        stored.transaction_start_timestamp_ms,
        stored.client_transaction_version,
        stored.next_producer_id,
        stored.previous_producer_id,
    )


def transaction_record(transactional_id: str, data: TransactionData | None, timestamp_ms: int) -> Record:
    """The record of a transactional id; ``None`` makes it a tombstone."""
    key = _key(transactional_id)
    if data is None:
        return Record(key, None, timestamp_ms)
    if data.client_version:
        return Record(key, _tagged_value(data), timestamp_ms)
    partitions = None if data.state is EMPTY else data.partitions
    is_kept = partitions is None or len(partitions) <= _KNOWN_PARTITIONS
    value = bytearray(_value(partitions) if is_kept else _value.__wrapped__(partitions))
    _HEAD.pack_into(value, _VERSION.size, data.producer_id, data.producer_epoch, data.timeout_ms, data.state)
    _TAIL.pack_into(value, len(value) - _TAIL.size, data.last_update_ms, data.start_ms)
    return Record(key, bytes(value), timestamp_ms)


@lru_cache(maxsize=_KNOWN_VALUES)
def _value(partitions: tuple[TopicPartition, ...] | None) -> bytes:
    """A value with these partitions, all numbers 0: a producer writes to the same ones again and again."""
    return _encode(TransactionLogValue(transaction_partitions=_schemas(partitions)), VALUE_VERSION)


def _tagged_value(data: TransactionData) -> bytes:
    value = TransactionLogValue(
        data.producer_id,
        data.producer_epoch,
        data.timeout_ms,
        data.state,
        _schemas(None if data.state is EMPTY else data.partitions),
        data.last_update_ms,
        data.start_ms,
        previous_producer_id=data.previous_producer_id,
        next_producer_id=data.next_producer_id,
        client_transaction_version=data.client_version,
    )
    return _encode(value, TAGGED_VALUE_VERSION)


def _schemas(partitions: tuple[TopicPartition, ...] | None) -> list[PartitionsSchema] | None:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions or ():
        topics.setdefault(topic, []).append(index)
    return None if partitions is None else [PartitionsSchema(*each) for each in topics.items()]


def batch_of(records: Sequence[Record], timestamp_ms: int) -> ValidatedBatch:
    """Return records with one timestamp as a batch: the bytes of ``encode_batch``, which the log need not validate."""
    body = bytearray()
    for place, record in enumerate(records):
        write_record(body, record, 0, place)
    buffer, header = own_batch(body, len(records), timestamp_ms, _NO_PRODUCER)
    return validated_batch_of((buffer, header, timestamp_ms, 0))
