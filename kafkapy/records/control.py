"""Control batches: the markers that end a transaction, and the leader-change message of Kafka's raft log.

A control batch has attribute bit 5 and one record. Its key is ``int16 version, int16 type``; a transaction marker's
value is ``int16 version, int32 coordinator_epoch`` (KIP-98). A consumer skips types that it doesn't know.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kafkapy.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, ReadableBuffer, own_batch
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.record import Record, encode_batch, read_records, write_record
from kafkapy.records.validate import ValidatedBatch
from kafkapy.types import NO_EPOCH, NO_SEQUENCE

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """The types of control records. 3 to 6 are in raft logs only; 2.7 has none but defines LEADER_CHANGE as 3."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2


class ControlRecord(NamedTuple):
    """The content of a control batch. ``type`` is a plain number, as later releases may add types."""

    type: int
    value: bytes
    version: int = _VERSION

    @property
    def coordinator_epoch(self) -> int:
        """The epoch of the transaction coordinator that wrote a commit or abort marker.

        Raises:
            InvalidRecordError: the value is shorter than a marker.
        """
        if len(self.value) < _MARKER.size:
            raise InvalidRecordError(f"An end transaction marker of {len(self.value)} bytes")
        return int(_MARKER.unpack_from(self.value)[1])


class Marker(NamedTuple):
    """The end of a transaction: its producer, and the epoch of the coordinator that ended it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def encode_marker(
    control_type: ControlType, marker: Marker, timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """A commit or abort marker as a batch: transactional, without a sequence."""
    return encode_batch(
        [_record(control_type, marker, timestamp_ms)],
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )


def _record(control_type: ControlType, marker: Marker, timestamp_ms: int) -> Record:
    return Record(_KEY.pack(_VERSION, control_type), _MARKER.pack(_VERSION, marker.coordinator_epoch), timestamp_ms)


class MarkerBatch(ValidatedBatch):
    """A marker that this broker has encoded: the log need neither validate it nor read its ``control`` record."""

    control: ControlRecord


def marker_batch(control_type: ControlType, marker: Marker, timestamp_ms: int) -> MarkerBatch:
    """The marker that ``encode_marker`` makes, as a batch for a log that assigns the offset."""
    record = _record(control_type, marker, timestamp_ms)
    body = bytearray()
    write_record(body, record, 0, 0)
    producer = marker.producer_id, marker.producer_epoch, NO_SEQUENCE
    buffer, header = own_batch(body, 1, timestamp_ms, producer, TRANSACTIONAL_BIT | CONTROL_BIT)
    batch = MarkerBatch(buffer, header, timestamp_ms, 0)
    batch.control = ControlRecord(control_type, record.value or b"")
    return batch


def encode_leader_change(
    message: bytes, timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = NO_EPOCH
) -> bytes:
    """A leader-change batch around an encoded ``LeaderChangeMessage`` (KIP-595)."""
    record = Record(_KEY.pack(_VERSION, ControlType.LEADER_CHANGE), message, timestamp_ms)
    return encode_batch([record], base_offset=base_offset, partition_leader_epoch=leader_epoch, is_control=True)


def read_control(batch: ReadableBuffer, header: BatchHeader | None = None, position: int = 0) -> ControlRecord:
    """Read the one record of a control batch.

    Raises:
        InvalidRecordError: not exactly one record, or its key is too short.
    """
    records = read_records(batch, header, position)
    if len(records) != 1:
        raise InvalidRecordError(f"A control batch holds one record, this one holds {len(records)}")
    key = records[0].key
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError("Invalid key for a control record")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"A control record can't have version {version}")
    return ControlRecord(control_type, records[0].value or b"", version)
