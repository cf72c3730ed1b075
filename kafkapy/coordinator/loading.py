"""Load a partition of an internal topic from its start, so that its coordinator can replay every record.

A load is cut into steps, so that a large partition does not delay other requests. Records that can't be decoded are
skipped, counted and logged: one bad record must not make a whole partition unavailable. In a damaged segment the load
searches for the readable batches. Only a partition that can't be read at all (a disk error) is not loaded.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol

from kafkapy.errors import BrokerError
from kafkapy.metrics import Counters
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.records.batch import BatchHeader, crc_is_valid
from kafkapy.records.errors import CorruptRecordError, RecordsError
from kafkapy.records.record import Record, iterate_records, read_records
from kafkapy.storage.log.salvage import Damage
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

LARGEST_STEP: Final = 65_536
"""Bytes that are read at once, where Kafka's buffer has 5 MB. A larger batch is read as a whole."""
BATCHES_IN_A_STEP: Final = 64
RECORDS_IN_A_STEP: Final = 256
SKIPPED_LINES: Final = 10
"""Lines in the log for the undecodable records of one partition."""
UNDECODABLE: Final = (ProtocolError, BrokerError)
"""The errors of the replay of a record with a key or value that no broker writes."""


class PartitionSource(Protocol):
    """The broker's partitions (``ReplicaManager``)."""

    def partition(self, topic_partition: TopicPartition, /) -> Any:
        """The partition, with its ``log``."""
        ...


class LoadProgress:
    """The progress of one load of a partition, and the records that it skipped."""

    __slots__ = ("offset", "end_offset", "topic_partition", "_skipped", "_later_kinds", "_counters")

    def __init__(self, topic_partition: TopicPartition, counters: Counters) -> None:
        self.offset = 0
        """The offset at which the next batch is expected."""
        self.end_offset = 0
        self.topic_partition = topic_partition
        self._skipped = 0
        self._later_kinds = 0
        self._counters = counters

    def check(self, content: bytes, position: int, header: BatchHeader) -> None:
        """Raise ``CorruptRecordError`` unless the batch has the right CRC and the expected offsets."""
        if not self.offset <= header.last_offset < self.end_offset:
            raise CorruptRecordError(f"offsets up to {header.last_offset} where {self.offset} was expected")
        if not crc_is_valid(content, position, header):
            raise CorruptRecordError(f"the CRC of the batch at offset {header.base_offset} is wrong")

    def skip(self, offset: int, error: Exception, count: int = 1) -> None:
        """Count records from ``offset`` on that can't be decoded; only the first ``SKIPPED_LINES`` calls are logged."""
        if self._skipped < SKIPPED_LINES:
            reason = str(error).encode("unicode_escape").decode()
            logger.warning(
                "Skipped %d undecodable records at offset %d of %s: %s", count, offset, self.topic_partition, reason
            )
        self._skipped += 1
        self._counters.skipped_records += count

    def skip_later_kind(self) -> None:
        """Count a record of a kind that only a later release of Kafka knows."""
        self._later_kinds += 1

    def skip_damage(self, damage: Damage) -> None:
        """Count the records of bytes that are not a batch."""
        error = CorruptRecordError(f"{damage.size} bytes at {damage.position} of {damage.path} are not a record batch")
        self.skip(damage.offset, error, max(damage.next_offset - damage.offset, 1))

    def finish(self) -> None:
        """Log the number of skipped records that were not logged one by one."""
        if self._skipped > SKIPPED_LINES:
            logger.warning(
                "Skipped undecodable records at %d more places of %s",
                self._skipped - SKIPPED_LINES,
                self.topic_partition,
            )
        if self._later_kinds:
            logger.info(
                "Skipped %d records of %s whose key is of a version that is not known",
                self._later_kinds,
                self.topic_partition,
            )


def replay_records(
    content: bytes, header: BatchHeader, position: int, progress: LoadProgress, replay: Callable[[Record], bool]
) -> Steps[Record | None]:
    """Replay the records of a batch one by one and skip those that can't be decoded; returns the last record.

    ``replay`` raises one of ``UNDECODABLE``, or returns False for a record of a kind that is not known.
    """
    record, count = None, 0
    try:
        for record in _records(content, header, position):
            try:
                if not replay(record):
                    progress.skip_later_kind()
            except UNDECODABLE as error:
                progress.skip(record.offset, error)
            count += 1
            if count % RECORDS_IN_A_STEP == 0:
                yield
    except RecordsError as error:
        progress.skip(header.base_offset + count, error, max(header.record_count - count, 1))
    return record


def _records(content: bytes, header: BatchHeader, position: int) -> Iterable[Record]:
    """Return all records at once if they are few, as in nearly all batches: a third faster than one by one."""
    if header.record_count <= RECORDS_IN_A_STEP:
        with suppress(RecordsError):
            return read_records(content, header, position)
    return iterate_records(content, header, position)


ReplayBatches = Callable[[bytes, LoadProgress], Steps[int | None]]
"""Replays the whole batches of one read; returns the offset behind the last one, None if there is none.

Raises ``CorruptRecordError`` for bytes that are not an undamaged batch.
"""


def read_partition(
    source: PartitionSource, progress: LoadProgress, buffer_size: int, replay_batches: ReplayBatches
) -> Steps[bool]:
    """Give the partition of ``progress`` to ``replay_batches``, from the start of its log to the end.

    Returns False if the log could not be read to its end. The partition is then not served, since a part of the state
    would be worse than none: clients repeat their requests until a broker has loaded the partition.
    """
    is_complete = True
    size = min(buffer_size, LARGEST_STEP)
    try:
        partition = source.partition(progress.topic_partition)
        progress.offset = partition.log.log_start_offset
        while progress.offset < (log := partition.log).log_end_offset:  # it may move to another data directory
            progress.end_offset = log.log_end_offset
            yield from _replay_next(log, progress, size, replay_batches)
            if progress.offset < log.log_end_offset:
                yield
    except BrokerError:
        logger.exception("Could not load %s", progress.topic_partition)
        is_complete = False
    progress.finish()
    return is_complete


def _replay_next(log: Any, progress: LoadProgress, size: int, replay_batches: ReplayBatches) -> Steps[None]:
    """Replay one read. If its bytes are damaged, replay the whole batches that are found in the rest of the segment."""
    offset = progress.offset
    try:
        records = log.read(offset, size, up_to_offset=None).records
        if not isinstance(records, bytes):
            file_slice = records
            with as_storage_error(log, "read"):
                records = file_slice.read()
            file_slice.release()
        next_offset = yield from replay_batches(records, progress)
        if next_offset is not None and next_offset > offset:
            progress.offset = next_offset
            return
    except (CorruptRecordError, KafkaStorageError) as error:
        logger.warning("%s is damaged behind offset %d: %s", progress.topic_partition, progress.offset, error)
    # a read also returns no batch if compaction has removed all batches up to the end
    progress.offset = offset
    progress.offset = yield from log.salvage(offset, lambda run: replay_batches(run, progress), progress.skip_damage)
