"""Checks the batches that a follower has fetched from its leader, before they are appended as they are."""

from collections.abc import Sequence

from kafkapy.records.batch import MAGIC, BatchHeader, crc_is_valid
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.errors import UnexpectedAppendOffsetError
from kafkapy.storage.log.segment import MAX_RELATIVE_OFFSET, AppendedRange
from kafkapy.types import TopicPartition


def check_replicated(
    topic_partition: TopicPartition,
    log_end_offset: int,
    records: bytes | bytearray | memoryview,
    batches: Sequence[tuple[int, BatchHeader]],
) -> AppendedRange:
    """Return the range of ``batches``, the whole ones in ``records`` with their positions.

    Raises ``UnexpectedAppendOffsetError`` if there is none, or one begins below the end of those before it, and
    ``CorruptRecordError`` for a wrong checksum.
    """
    if not batches:
        raise UnexpectedAppendOffsetError(f"No whole batch came for {topic_partition}")
    next_offset = log_end_offset
    max_timestamp = max_timestamp_offset = -1
    for position, header in batches:
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise UnexpectedAppendOffsetError(
                f"{topic_partition} expected offset {next_offset}, a batch begins at {header.base_offset}"
            )
        if not crc_is_valid(records, position, header):
            raise CorruptRecordError(f"The batch at offset {header.base_offset} of {topic_partition} is corrupt")
        next_offset = header.next_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = header.max_timestamp, header.last_offset
    first_offset = batches[0][1].base_offset
    if batches[0][1].magic < MAGIC:
        # A wrapper's header has its last offset only. Its first one is at or above the log's end, and at most the
        # range of a segment below the last.
        first_offset = max(log_end_offset, next_offset - 1 - MAX_RELATIVE_OFFSET)
    size = batches[-1][0] + batches[-1][1].size
    return AppendedRange(first_offset, next_offset - 1, max_timestamp, max_timestamp_offset, size)
