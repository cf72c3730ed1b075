"""The content of a data directory's files as rows: a row maps names to numbers, texts and bytes."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kafkapy.platform.files import Files
from kafkapy.records.batch import MAGIC, BatchHeader
from kafkapy.records.compression import CODEC_NAMES
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.record import Record, read_records
from kafkapy.storage.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT, decode
from kafkapy.storage.inspection.index_files import aborted_entries, offset_entries, time_entries
from kafkapy.storage.inspection.log_scan import ScannedBatch
from kafkapy.storage.log.leader_epochs import LEADER_EPOCHS_NAME
from kafkapy.storage.log.producer_state import decode_snapshot
from kafkapy.storage.log.segment import BASE_DIGITS, LOG_SUFFIX

Row = dict[str, Any]

_STATE: Final = re.compile(r"(\.\d+)?\.(deleted|swap|cleaned)$")
"""Suffixes of a segment's file that is being added or removed."""


class UnknownFileError(Exception):
    """The file is not a known file of a data directory; the message lists those that are."""


def kind_of(path: str) -> str:
    """The part of the name that shows the kind of file: ``.log``, ``.index`` …, or a checkpoint's whole name."""
    name = os.path.basename(path)
    base, suffix = name[:BASE_DIGITS], _STATE.sub("", name[BASE_DIGITS:])
    return suffix if base.isdecimal() and suffix.startswith(".") else name


def base_of(path: str) -> int:
    """The offset in the name of a segment's file."""
    return int(os.path.basename(path)[:BASE_DIGITS])


def require_known(path: str) -> None:
    """Raise ``UnknownFileError`` unless the file is one of a data directory that can be shown."""
    if kind_of(path) not in _KNOWN:
        raise UnknownFileError(
            f"{path} is no file of a data directory that can be shown: these are {', '.join(_KNOWN)}"
        )


def entries(files: Files, path: str) -> Iterator[Row]:
    """The entries of any file but a ``.log``.

    Raises ``UnknownFileError``, and ``CorruptSnapshotError`` or ``MalformedCheckpointError`` for bad content.
    """
    require_known(path)
    return _READERS[kind_of(path)](files, path)


def _offsets(files: Files, path: str) -> Iterator[Row]:
    for offset, position in offset_entries(files, path, base_of(path)):
        yield {"offset": offset, "position": position}


def _times(files: Files, path: str) -> Iterator[Row]:
    for timestamp, offset in time_entries(files, path, base_of(path)):
        yield {"timestamp": timestamp, "offset": offset}


def _aborted(files: Files, path: str) -> Iterator[Row]:
    for version, entry in aborted_entries(files, path):
        yield {"version": version, **entry._asdict()}


def _producers(files: Files, path: str) -> Iterator[Row]:
    for entry in decode_snapshot(files.read(path)):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": last.last_offset if last else -1,
            "offset_delta": last.offset_delta if last else 0,
            "timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "open_transaction_from": entry.current_txn_first_offset,
        }


def _checkpoint(files: Files, path: str) -> Iterator[Row]:
    for topic, partition, offset in decode(files.read(path), 3):
        yield {"topic": topic, "partition": int(partition), "offset": int(offset)}


def _epochs(files: Files, path: str) -> Iterator[Row]:
    for epoch, start_offset in decode(files.read(path), 2):
        yield {"epoch": int(epoch), "start_offset": int(start_offset)}


def _properties(files: Files, path: str) -> Iterator[Row]:
    for line in files.read(path).decode("utf-8", "replace").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            yield {"key": key, "value": value}


_READERS: Final[dict[str, Callable[[Files, str], Iterator[Row]]]] = {
    ".index": _offsets,
    ".timeindex": _times,
    ".txnindex": _aborted,
    ".snapshot": _producers,
    RECOVERY_POINT: _checkpoint,
    HIGH_WATERMARK: _checkpoint,
    LOG_START_OFFSET: _checkpoint,
    CLEANER: _checkpoint,
    LEADER_EPOCHS_NAME: _epochs,
    "meta.properties": _properties,
}

_KNOWN: Final = (LOG_SUFFIX, *_READERS)


def batches(scan: Iterable[ScannedBatch], from_offset: int = 0) -> Iterator[tuple[Row, ScannedBatch]]:
    """The batches of a ``.log`` that hold ``from_offset`` or later ones; ``LogScan.problem`` has the error, if any."""
    for scanned in scan:
        if scanned.header.last_offset >= from_offset:
            yield _batch(scanned), scanned


def _batch(scanned: ScannedBatch) -> Row:
    header = scanned.header
    row: Row = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "position": scanned.position,
        "size": header.size,
        "magic": header.magic,
        "compression": _codec(header),
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "crc": "ok" if scanned.crc_is_valid else "WRONG",
    }
    if header.magic >= MAGIC:
        row["leader_epoch"] = header.partition_leader_epoch
        row["producer_id"] = header.producer_id
        row["producer_epoch"] = header.producer_epoch
        row["base_sequence"] = header.base_sequence
        row["kind"] = _kind(scanned)
    return row


def _codec(header: BatchHeader) -> str:
    return CODEC_NAMES[header.compression] if header.compression < len(CODEC_NAMES) else f"codec {header.compression}"


def _kind(scanned: ScannedBatch) -> str:
    header = scanned.header
    if not header.is_control:
        return "transactional" if header.is_transactional else "data"
    if scanned.content is None or not scanned.crc_is_valid:
        return "control"
    control = read_control(scanned.content, header)
    names = {each.value: each.name.lower().replace("_", " ") for each in ControlType}
    return names.get(control.type, f"control {control.type}")


def records(scanned: ScannedBatch) -> list[Record]:
    """The records of a batch; raises as ``read_records`` does, and ``UnknownFileError`` if the batch is too large."""
    if scanned.content is None:
        raise UnknownFileError(
            f"the batch at {scanned.position} has {scanned.header.size} bytes: too large to be shown"
        )
    return read_records(scanned.content, scanned.header)
