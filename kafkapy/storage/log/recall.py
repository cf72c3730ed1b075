"""Looks up the batches that a snapshot leaves out: it has only the last of a producer's last five batches.

After a broker's stop a producer sends the requests again that got no response, up to five. The batches among them that
are in the log must be recognized as duplicates, also if a roll is between them. If only the last one were known, the
first would seem to be out of order, and the producer would fail, or begin a new epoch and write the batches twice (this
happens with Apache Kafka 2.7). So the batches before the snapshot are looked up in the log, as far back as the bytes of
five of the largest requests. That is done at once after an unclean stop. After a clean stop, when most responses have
reached the producers, it is done when a sequence seems to be out of order.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from kafkapy.records.batch import SEQUENCE_MODULUS, BatchHeader
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.storage.log.producer_state import BATCHES_TO_KEEP, ProducedBatch, ProducerEntry, ProducerState
from kafkapy.storage.log.segment import Segment, Segments


def recall(state: ProducerState, segments: Segments, max_message_bytes: int) -> bool:
    """Complete the last batches of the producers in the snapshot; return whether that was necessary.

    ``max_message_bytes`` is the size of the largest batch that a producer may have sent. Raises ``OSError``; a damaged
    batch only ends the search.
    """
    producers, end_offset = state.producers, state.unrecalled_below
    state.unrecalled_below = 0
    if not producers or not end_offset:
        return False
    found: dict[int, deque[ProducedBatch]] = {}
    with suppress(CorruptRecordError, KafkaStorageError):
        for header in _headers_before(segments, end_offset, BATCHES_TO_KEEP * max_message_bytes):
            entry = producers.get(header.producer_id)
            if entry is not None and _is_earlier(header, entry):
                batch = ProducedBatch(
                    header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
                )
                found.setdefault(header.producer_id, deque(maxlen=BATCHES_TO_KEEP - 1)).append(batch)
    for producer_id, batches in found.items():
        _put_before(producers[producer_id], batches)
    return True


def _is_earlier(header: BatchHeader, entry: ProducerEntry) -> bool:
    return (
        not header.is_control
        and header.producer_epoch == entry.producer_epoch
        and bool(entry.batches)
        and header.last_offset < entry.batches[0].last_offset
    )


def _put_before(entry: ProducerEntry, batches: deque[ProducedBatch]) -> None:
    """Add the latest of ``batches`` whose sequences lead without a gap to the first batch of ``entry``.

    Batches before a gap may be of an earlier instance of the producer, whose sequences are independent.
    """
    for batch in reversed(batches):
        follows = (batch.last_sequence + 1) % SEQUENCE_MODULUS == entry.batches[0].first_sequence
        if not follows or len(entry.batches) == BATCHES_TO_KEEP:
            return
        entry.batches.insert(0, batch)


def _headers_before(segments: Segments, end_offset: int, wanted: int) -> Iterator[BatchHeader]:
    """Yield the headers of the batches below ``end_offset``, in the last ``wanted`` bytes before it."""
    parts: list[tuple[Segment, int, int]] = []
    for segment in reversed(segments.between(0, end_offset)):
        found = segment.translate(end_offset)
        end = found[0] if found else segment.size
        parts.append((segment, segment.offset_index.position_before(end - wanted), end))
        wanted -= end
        if wanted <= 0:
            break
    for segment, position, end in reversed(parts):
        for _, header, _ in segment.batches(position, end):
            yield header
