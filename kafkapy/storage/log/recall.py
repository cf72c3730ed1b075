"""Looks up the batches that a snapshot leaves out: it has only the last of a producer's last five batches.

After a broker's stop a producer sends the requests again that got no response, up to five. The batches among them that
are in the log must be recognized as duplicates, also if a roll is between them. If only the last one were known, the
first would seem to be out of order, and the producer would fail, or begin a new epoch and write the batches twice (this
happens with Apache Kafka 2.7). So the batches before the snapshot are looked up in the log, as far back as the bytes of
five of the largest requests. After an unclean stop the search runs at the start. After a clean stop, when most
responses have reached the producers, and after a truncation it is done when a sequence seems to be out of order.

Clients may set a topic's ``max.message.bytes`` so high that only ``socket.request.max.bytes`` limits a request: then
these are 500 MiB, maybe of very small batches. The search therefore reads only the header of each batch, and has places
to pause. While it is paused, the log may change:

- Others may append. Their batches are above the snapshot; batches whose sequence seems to be out of order wait for the
  same search. What it has found is added to the producers as they are at its end.
- A truncation loads the producers again, from a snapshot below its offset. That ends the search, and a request that
  waits begins another one.
- Segments that are deleted or compacted stay readable until their files are removed; after that they are left out. If
  the log itself is deleted, the search ends, and the append reports that the partition does not exist.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import Final

from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import CONTROL_BIT, LOG_OVERHEAD, MAGIC, SEQUENCE_MODULUS, SMALLEST_LENGTH
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.log.log_file import LogFile
from kafkapy.storage.log.producer_state import (
    BATCHES_TO_KEEP,
    PRODUCERS_IN_A_STEP,
    ProducedBatch,
    ProducerEntry,
    ProducerState,
)
from kafkapy.storage.log.segment import Segment, Segments
from kafkapy.turns import Steps
from kafkapy.types import maker

_READ_BYTES: Final = 32 * 1024
"""Bytes that are read in one step; the smallest batches in them take some tenths of a millisecond."""
SIZES_IN_A_STEP: Final = 64
"""Segments whose sizes are added up in one step."""
_HEADER: Final = Struct(">qi4xb4xhi8xqqhi")
"""Base offset, length, magic, attributes, last offset delta, max timestamp, producer id, epoch and first sequence."""

Found = dict[int, list[tuple[int, ProducedBatch]]]
"""By producer id its last batches in the log, with their epochs."""

_batch_of: Final = maker(ProducedBatch)


def recall(state: ProducerState, segments: Segments, largest_batch: int) -> Steps[None]:
    """Complete the last batches of the producers in the snapshot, if that is not done yet.

    Callers at the same time continue one search. ``largest_batch`` is the size in bytes of the largest batch that a
    producer may have sent. Raises ``OSError``, then another call begins again; a damaged batch only ends the search.
    """
    while state.unrecalled_below:
        search = state.search
        if search is None:
            search = _search(state, segments, BATCHES_TO_KEEP * largest_batch)
        state.search = None  # it stays so if the search fails
        try:
            next(search)
            state.search = search
        except StopIteration:
            state.end_recall()
        yield


def _search(state: ProducerState, segments: Segments, wanted: int) -> Iterator[None]:
    """Search the last ``wanted`` bytes before the snapshot, then add the results to the producers."""
    found: Found = {}
    parts: list[tuple[Segment, int, int]] = []
    with suppress(CorruptRecordError, KafkaStorageError, FileNotFoundError):
        yield from _find_parts(segments, state.unrecalled_below, wanted, parts)
        for segment, position, end in reversed(parts):
            with suppress(FileNotFoundError):
                yield from _collect(segment.log, position, end, state, found)
    batches_by_id = iter(found.items())
    while piece := list(islice(batches_by_id, PRODUCERS_IN_A_STEP)):
        for producer_id, batches in piece:
            entry = state.producers.get(producer_id)
            if entry is not None and entry.batches:
                _put_before(entry, batches)
        yield


def _find_parts(
    segments: Segments, end_offset: int, wanted: int, parts: list[tuple[Segment, int, int]]
) -> Iterator[None]:
    """Add the places of the last ``wanted`` bytes before ``end_offset`` to ``parts``: segment, first and end position.

    The newest segment comes first. Raises ``FileNotFoundError`` if the log was deleted.
    """
    for number, segment in enumerate(reversed(segments.between(0, end_offset)), 1):
        found = None if parts else segment.translate(end_offset)
        end = found[0] if found else segment.size
        first = segment.offset_index.position_before(end - wanted) if end > wanted else 0
        parts.append((segment, first, end))
        wanted -= end
        if wanted <= 0:
            break
        if number % SIZES_IN_A_STEP == 0:
            yield


def _collect(log: LogFile, position: int, end: int, state: ProducerState, found: Found) -> Iterator[None]:
    """Add the batches from ``position`` to ``end`` to ``found``, without a call for each of them.

    Raises ``CorruptRecordError`` at bytes that are no batch, or an incomplete one.
    """
    producers, unpack = state.producers, _HEADER.unpack_from
    while position + _HEADER.size <= end:
        chunk = log.read_at(min(_READ_BYTES, end - position), position)
        at, last, limit = 0, len(chunk) - _HEADER.size, end - position
        if last < 0:
            raise CorruptRecordError(f"{log.path} ends before position {end}")
        while at <= last:
            offset, length, magic, attributes, delta, timestamp, producer_id, epoch, sequence = unpack(chunk, at)
            at += length + LOG_OVERHEAD
            if length < SMALLEST_LENGTH or at > limit:
                raise CorruptRecordError(f"{log.path} holds a batch of {length} bytes before position {position + at}")
            if producer_id in producers and magic == MAGIC and not attributes & CONTROL_BIT:
                batches = found.setdefault(producer_id, [])
                if len(batches) == BATCHES_TO_KEEP:
                    del batches[0]
                last_sequence = (sequence + delta) % SEQUENCE_MODULUS
                batches.append((epoch, _batch_of((last_sequence, offset + delta, delta, timestamp))))
        position += at
        yield


def _put_before(entry: ProducerEntry, found: list[tuple[int, ProducedBatch]]) -> None:
    """Add the latest of the ``found`` batches whose sequences lead without a gap to the first batch of ``entry``.

    Batches before a gap may be of an earlier instance of the producer, whose sequences are independent.
    """
    for epoch, batch in reversed(found):
        first = entry.batches[0]
        if batch.last_offset >= first.last_offset:
            continue
        follows = epoch == entry.producer_epoch and (batch.last_sequence + 1) % SEQUENCE_MODULUS == first.first_sequence
        if not follows or len(entry.batches) == BATCHES_TO_KEEP:
            return
        entry.batches.insert(0, batch)
