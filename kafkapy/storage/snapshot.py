"""``….snapshot``: every producer as of the offset in the file's name.

version i16 (1), CRC-32C u32 of everything after it, count i32, then 46 bytes each: producer id i64, epoch i16, last
sequence i32, last offset i64, offset delta i32 (of the last batch), timestamp i64 (ms), coordinator epoch i32, first
offset of the open transaction i64 (-1 none). Of the last five batches only one is in it; ``recall`` finds the others.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

from kafkapy.records.crc import crc32c
from kafkapy.storage.errors import CorruptSnapshotError
from kafkapy.storage.producer_entry import NO_OFFSET, ProducedBatch, ProducerEntry

VERSION: Final = 1
EMPTY_SIZE: Final = 10
"""Bytes of a snapshot without producers."""
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the file's content."""
    packed = [_encode_entry(entry) for entry in entries]
    body = b"".join([_COUNT.pack(len(packed)), *packed])
    return _HEADER.pack(VERSION, crc32c(body)) + body


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else ProducedBatch(-1, NO_OFFSET, 0, -1)
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Return the producers of a file.

    Raises ``CorruptSnapshotError``.
    """
    try:
        version, crc = _HEADER.unpack_from(content)
        (count,) = _COUNT.unpack_from(content, _HEADER.size)
    except error as cause:
        raise CorruptSnapshotError(f"{len(content)} bytes are no producer snapshot") from cause
    if version != VERSION:
        raise CorruptSnapshotError(f"a producer snapshot of unknown version {version}")
    if crc32c(memoryview(content)[_HEADER.size :]) != crc:
        raise CorruptSnapshotError("the producer snapshot's CRC is wrong")
    body = content[_HEADER.size + _COUNT.size :]
    if len(body) != count * _ENTRY.size:
        raise CorruptSnapshotError(f"the producer snapshot announces {count} entries in {len(body)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body)]


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    entry = ProducerEntry(producer_id)
    entry.producer_epoch = epoch
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = txn_first_offset
    if offset >= 0:
        entry.batches.append(ProducedBatch(sequence, offset, delta, timestamp))
    return entry
