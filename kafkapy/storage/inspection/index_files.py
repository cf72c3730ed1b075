"""Reads the entries of index files, which are arrays of fixed-size entries, a page at a time and without checks."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kafkapy.platform.files import Files
from kafkapy.storage.log.index import OffsetIndex, TimeIndex
from kafkapy.storage.log.transaction_index import ENTRY as TRANSACTION_ENTRY
from kafkapy.storage.log.transaction_index import AbortedTransaction

_ENTRIES_AT_ONCE: Final = 4096


def raw_entries(files: Files, path: str, entry: Struct) -> Iterator[tuple[int, ...]]:
    """The whole entries of a file, as they are stored."""
    size = files.size(path) // entry.size * entry.size
    descriptor = files.open(path, 0)
    step = _ENTRIES_AT_ONCE * entry.size
    for position in range(0, size, step):
        yield from entry.iter_unpack(files.read_at(descriptor, min(step, size - position), position))


def offset_entries(files: Files, path: str, base_offset: int) -> Iterator[tuple[int, int]]:
    """(offset, position) of each entry; zeros, which a crash of Apache Kafka leaves after the last one, end it."""
    for number, (relative, position) in enumerate(raw_entries(files, path, OffsetIndex.ENTRY)):
        if relative == 0 and position == 0 and number > 0:
            return
        if (relative, position) != (0, 0) or files.size(path) <= OffsetIndex.ENTRY.size:
            yield base_offset + relative, position


def time_entries(files: Files, path: str, base_offset: int) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each entry; zeros after the last one end it.

    The first entry may be zeros itself, for a first record with timestamp 0, unless only zeros follow.
    """
    is_zero_first = False
    for number, (timestamp, relative) in enumerate(raw_entries(files, path, TimeIndex.ENTRY)):
        if timestamp == 0 and relative == 0:
            if number > 0:
                return
            is_zero_first = True
            continue
        if is_zero_first:
            yield 0, base_offset
            is_zero_first = False
        yield timestamp, base_offset + relative
    if is_zero_first:
        yield 0, base_offset


def aborted_entries(files: Files, path: str) -> Iterator[tuple[int, AbortedTransaction]]:
    """(version, transaction) of each entry."""
    for version, *fields in raw_entries(files, path, TRANSACTION_ENTRY):
        yield version, AbortedTransaction._make(fields)


def zero_tail(files: Files, path: str, entry: Struct) -> int:
    """The bytes of zeros at the file's end, in whole entries: Apache Kafka preallocates, and a crash leaves them."""
    size = files.size(path)
    descriptor = files.open(path, 0)
    end = size
    while end > 0:
        start = max(0, end - _ENTRIES_AT_ONCE * entry.size)
        kept = len(files.read_at(descriptor, end - start, start).rstrip(b"\0"))
        if kept:
            end = start + kept
            break
        end = start
    return (size - end) // entry.size * entry.size
