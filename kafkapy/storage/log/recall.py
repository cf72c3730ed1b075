"""The batches that a snapshot leaves out: of the last five batches of a producer it holds one.

A producer whose broker stopped sends again what it had no answer to, up to five requests. Those that the log holds have
to be known as duplicates, whether or not a roll lies between them. Where only the last one is, the first seems to be
out of order, and the producer gives up for good, or begins a new epoch and writes them twice (Apache Kafka 2.7 does
that to it). So the batches that lie before the snapshot are looked up in the log, as far back as five of the largest
requests reach: after an unclean stop at once, after a clean one, whose answers mostly came to the producers, when a
sequence seems to be out of order.
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
    """Complete the batches of the producers that a snapshot told of; return whether that had still to be done.

    ``max_message_bytes`` is the size of the largest batch that a producer may have sent. Raises ``OSError``; damage,
    which readers will meet, only ends the search.
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
    """Take the latest of ``batches`` that follow one another up to what ``entry`` knows.

    Before a gap there may be an earlier life of the producer, with sequences of its own.
    """
    for batch in reversed(batches):
        follows = (batch.last_sequence + 1) % SEQUENCE_MODULUS == entry.batches[0].first_sequence
        if not follows or len(entry.batches) == BATCHES_TO_KEEP:
            return
        entry.batches.insert(0, batch)


def _headers_before(segments: Segments, end_offset: int, wanted: int) -> Iterator[BatchHeader]:
    """Those of the batches below ``end_offset``, the last ``wanted`` bytes of them."""
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
