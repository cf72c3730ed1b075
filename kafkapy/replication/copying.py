"""Appends batches to a log as another log has them.

A follower copies its leader's log; a future replica copies the current log in another data directory (KIP-113).
"""

import logging
from collections.abc import Iterator
from typing import Final

from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.records.batch import iterate_headers, read_header
from kafkapy.records.record import Record, encode_batch, encode_empty_batch
from kafkapy.storage.log.log import Log

logger = logging.getLogger(__name__)

BATCHES_IN_A_STEP: Final = 64
"""Batches that are appended between two places to pause: some hundred microseconds unless they are large."""


def steps_of(records: bytes | bytearray | memoryview) -> Iterator[memoryview]:
    """Split ``records`` between batches; an incomplete last batch is left out. Raises ``CorruptRecordError``."""
    view = memoryview(records)
    start = end = count = 0
    for position, header in iterate_headers(records):
        end = position + header.size
        count += 1
        if count == BATCHES_IN_A_STEP:
            yield view[start:end]
            start, count = end, 0
    if count:
        yield view[start:end]


def append_copied(log: Log, records: bytes | bytearray | memoryview) -> None:
    """Append whole batches, one or more, as the other log has them.

    They are appended one by one if they have more than ``segment.bytes`` together: the topic's configuration may have
    changed since they were written. Raises what ``Log.append_as_follower`` raises.
    """
    first = read_header(records)
    if log.log_start_offset == log.log_end_offset and first.base_offset < log.log_end_offset <= first.last_offset:
        # The other log starts within this batch (DeleteRecords): an empty log takes the batch as a whole.
        restart_log(log, first.base_offset)
    if len(records) <= log.config.segment_bytes:
        log.append_as_follower(records)
        return
    view = memoryview(records)
    for position, header in iterate_headers(records):
        log.append_as_follower(view[position : position + header.size])


def take_offsets(log: Log, high_watermark: int, log_start_offset: int) -> None:
    """Move the high watermark to the other log's, as far as ``log`` reaches, and hide the records that are deleted
    there.

    Raises ``KafkaStorageError`` when the disk is broken.
    """
    reached = log.update_high_watermark(high_watermark)
    if log.log_start_offset < log_start_offset <= reached:
        log.advance_log_start_offset(log_start_offset)


def fill_gap(log: Log, offset: int, leader_epoch: int) -> None:
    """Continue at ``offset``: the other log has no batch between the end of ``log`` and that offset.

    Compaction leaves such a gap where it removes the last batch of the part that it compacts, as Apache Kafka does
    before 4.1 (KAFKA-17076). The caller knows it by a read at the end of ``log`` which had to return at least one
    batch, had there been one. ``log`` gets the batch without records that 4.1 keeps there, of ``leader_epoch``: so its
    end is the same after a restart. Raises what ``Log.append_as_follower`` raises.
    """
    logger.info("%s continues at offset %d: no batch is left from %d on", log.directory, offset, log.log_end_offset)
    last = encode_batch([Record(None, None)], base_offset=offset - 1, partition_leader_epoch=leader_epoch)
    log.append_as_follower(encode_empty_batch(read_header(last)))


def restart_log(log: Log, offset: int) -> None:
    """Drop all records and begin again at ``offset``; raises ``KafkaStorageError``."""
    logger.info(
        "%s begins again at offset %d, its records from %d to %d are dropped",
        log.directory, offset, log.log_start_offset, log.log_end_offset,
    )  # fmt: skip
    with as_storage_error(log, "truncated"):
        log.truncate_fully_and_start_at(offset)
