"""Decoders of the records in Kafka's internal topics: committed offsets and groups, transactional ids."""

import re
from collections.abc import Callable
from typing import Any, Final

from kafkapy.coordinator.group.classic.records import decode_group
from kafkapy.coordinator.group.records import GroupKey, OffsetKey, decode_key, decode_offset
from kafkapy.coordinator.transaction.states import STATE_NAMES
from kafkapy.protocol.messages.stored.transaction_log import TransactionLogKey, TransactionLogValue
from kafkapy.protocol.primitives import ProtocolError, Reader
from kafkapy.records.record import Record

AUTO: Final = "auto"
NONE: Final = "none"
OFFSETS: Final = "offsets"
TRANSACTIONS: Final = "transactions"

Decoded = tuple[Any, Any]
Decoder = Callable[[Record], Decoded]

_TOPICS: Final = {"__consumer_offsets": OFFSETS, "__transaction_state": TRANSACTIONS}


def decoder(name: str, path: str) -> Decoder:
    """The decoder called ``name``; ``auto`` takes the one for the topic whose folder is in ``path``."""
    if name == AUTO:
        found = re.search(r"(__[a-z_]+)-\d+(?:/|$)", path)
        name = _TOPICS.get(found[1], NONE) if found else NONE
    return {OFFSETS: _offsets, TRANSACTIONS: _transactions}.get(name, plain)


def plain(record: Record) -> Decoded:
    """Key and value without decoding."""
    return record.key, record.value


def _offsets(record: Record) -> Decoded:
    try:
        return _group_record(record)
    except ProtocolError:
        return plain(record)


def _group_record(record: Record) -> Decoded:
    key = decode_key(record.key or b"")
    if isinstance(key, OffsetKey):
        said: dict[str, Any] = {"group": key.group_id, "partition": str(key.topic_partition)}
        return said, None if record.value is None else decode_offset(record.value)._asdict()
    if isinstance(key, GroupKey):
        return {"group": key.group_id}, None if record.value is None else _group(record.value)
    return plain(record)


def _group(value: bytes) -> dict[str, Any]:
    group = decode_group(value)
    return {
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": [
            {"member_id": each.member_id, "client_id": each.client_id, "client_host": each.client_host}
            for each in group.members
        ],
    }


def _transactions(record: Record) -> Decoded:
    try:
        reader = Reader(memoryview(record.key or b""))
        key = TransactionLogKey.read(reader, reader.read_int16()).transactional_id
        return {"transactional_id": key}, None if record.value is None else _transaction(record.value)
    except ProtocolError:
        return plain(record)


def _transaction(value: bytes) -> dict[str, Any]:
    reader = Reader(memoryview(value))
    stored = TransactionLogValue.read(reader, reader.read_int16())
    state = stored.transaction_status
    return {
        "producer_id": stored.producer_id,
        "producer_epoch": stored.producer_epoch,
        "timeout_ms": stored.transaction_timeout_ms,
        "state": STATE_NAMES[state] if 0 <= state < len(STATE_NAMES) else f"state {state}",
        "partitions": [
            f"{each.topic}-{index}" for each in stored.transaction_partitions or () for index in each.partition_ids
        ],
        "last_update_timestamp": stored.transaction_last_update_timestamp_ms,
        "start_timestamp": stored.transaction_start_timestamp_ms,
    }
