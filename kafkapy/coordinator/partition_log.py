"""The log of an internal topic as a coordinator uses it: append and hear when it is safe, read it all when leading.

One thread owns everything, so a decision, its append and its replay need no locks; only an acknowledgement by other
brokers, and the reading of a large partition, let others run in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from kafkapy.clock import Clock
from kafkapy.coordinator.group.results import NO_PRODUCER
from kafkapy.coordinator.steps import Background
from kafkapy.errors import BrokerError
from kafkapy.metrics import Counters
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.records.batch import BatchHeader, crc_is_valid, own_batch
from kafkapy.records.errors import CorruptRecordError, RecordsError
from kafkapy.records.record import Record, iterate_records, read_records, write_record
from kafkapy.records.validate import ValidatedBatch, validated_batch_of
from kafkapy.replication.partition import ALL_IN_SYNC
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.storage.log.log import AppendResult
from kafkapy.storage.recovery.salvage import Damage
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

LARGEST_STEP = 65_536
"""Bytes that are read at once, where Kafka's buffer has 5 MB. One larger batch is read as a whole."""
BATCHES_IN_A_STEP: Final = 64
RECORDS_IN_A_STEP: Final = 256
SKIPPED_LINES: Final = 10
"""Lines in the log for the undecodable records of one partition."""
UNDECODABLE: Final = (ProtocolError, BrokerError)
"""What the replay of a record raises whose key or value is none that a broker writes."""


class BrokerLog(Protocol):
    """What is asked of the broker's partitions (``ReplicaManager``)."""

    def append(
        self, tp: TopicPartition, records: Any, /, *, required_acks: int, from_client: bool = True
    ) -> AppendResult:
        """Write to the local log, at once."""
        ...

    def append_internal(
        self, tp: TopicPartition, batch: bytes | ValidatedBatch, timeout_ms: int, required_acks: int, /
    ) -> "AppendResult | asyncio.Future[AppendResult]":
        """Write: the result if all in-sync replicas have it (``required_acks`` -1), or this broker has, else later."""
        ...

    def partition(self, tp: TopicPartition, /) -> Any:
        """The partition, with its ``log``."""
        ...


Finish = Callable[[int, AppendResult | None], None]
OnLoaded = Callable[[bool, float], Steps[None]]


def batch_of(records: Sequence[Record], timestamp_ms: int) -> ValidatedBatch:
    """Records of one time as a batch: what ``encode_batch`` makes of them, which the log need not look at again."""
    body = bytearray()
    for place, record in enumerate(records):
        write_record(body, record, 0, place)
    buffer, header = own_batch(body, len(records), timestamp_ms, NO_PRODUCER)
    return validated_batch_of((buffer, header, timestamp_ms, 0))


def append_safely(
    log: BrokerLog,
    tp: TopicPartition,
    batch: bytes | ValidatedBatch,
    timeout_ms: int,
    finish: Finish,
    *,
    required_acks: int = ALL_IN_SYNC,
) -> None:
    """Append; once it is safe call ``finish(0, result)``, at an error ``finish(its code, None)``.

    Safe is what all in-sync replicas have; with other ``required_acks`` what this broker has. With one replica that is
    before this returns.
    """
    try:
        appended = log.append_internal(tp, batch, timeout_ms, required_acks)
    except BrokerError as error:
        finish(error.error_code, None)
        return
    if isinstance(appended, AppendResult):
        finish(0, appended)
    else:
        when_appended(appended, finish)


def when_appended(future: "asyncio.Future[AppendResult]", finish: Finish) -> None:
    """Call ``finish`` as ``append_safely`` does, at once if ``future`` is done."""
    if future.done():
        _append_ended(finish, future)
    else:
        future.add_done_callback(partial(_append_ended, finish))


def _append_ended(finish: Finish, future: "asyncio.Future[AppendResult]") -> None:
    if future.cancelled():
        finish(ErrorCode.NOT_COORDINATOR, None)
        return
    error = future.exception()
    if error is None:
        finish(0, future.result())
    elif isinstance(error, BrokerError):
        finish(error.error_code, None)
    else:
        raise error


class Reading:
    """One loading of a partition: how far it has come, and the records that it had to skip."""

    __slots__ = ("offset", "end_offset", "topic_partition", "_skipped", "_later_kinds", "_counters")

    def __init__(self, tp: TopicPartition, counters: Counters) -> None:
        self.offset = 0
        """Where the next batch is expected."""
        self.end_offset = 0
        self.topic_partition = tp
        self._skipped = 0
        self._later_kinds = 0
        self._counters = counters

    def check(self, content: bytes, position: int, header: BatchHeader) -> None:
        """Raise ``CorruptRecordError`` unless the batch is what was written and its offsets are those expected."""
        if not self.offset <= header.last_offset < self.end_offset:
            raise CorruptRecordError(f"offsets up to {header.last_offset} where {self.offset} was expected")
        if not crc_is_valid(content, position, header):
            raise CorruptRecordError(f"the CRC of the batch at offset {header.base_offset} is wrong")

    def skip(self, offset: int, error: Exception, count: int = 1) -> None:
        """Count records from ``offset`` on that can't be decoded; the first ones of a partition get a line each."""
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
        """Count bytes that are no batch."""
        error = CorruptRecordError(f"{damage.size} bytes at {damage.position} of {damage.path} are no record batch")
        self.skip(damage.offset, error, max(damage.next_offset - damage.offset, 1))

    def finish(self) -> None:
        """Log what was skipped and has no line of its own."""
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
    content: bytes, header: BatchHeader, position: int, reading: Reading, replay: Callable[[Record], bool]
) -> Steps[Record | None]:
    """Replay the records of a batch one by one; those that can't be decoded are skipped. Returns the last one.

    ``replay`` raises one of ``UNDECODABLE``, or returns False for a record of a kind that is not known.
    """
    record, count = None, 0
    try:
        for record in _records(content, header, position):
            try:
                if not replay(record):
                    reading.skip_later_kind()
            except UNDECODABLE as error:
                reading.skip(record.offset, error)
            count += 1
            if count % RECORDS_IN_A_STEP == 0:
                yield
    except RecordsError as error:
        reading.skip(header.base_offset + count, error, max(header.record_count - count, 1))
    return record


def _records(content: bytes, header: BatchHeader, position: int) -> Iterable[Record]:
    """All records at once where they are few, as nearly always: a third faster than one by one."""
    if header.record_count <= RECORDS_IN_A_STEP:
        with suppress(RecordsError):
            return read_records(content, header, position)
    return iterate_records(content, header, position)


Take = Callable[[bytes, Reading], Steps[int | None]]
"""Takes over the whole batches of one read; returns the offset behind the last of them, None if there was none.

Raises ``CorruptRecordError`` where the bytes are no batch as it was written.
"""


class Loading:
    """Reads partitions of one internal topic from their starts, one buffer at a time.

    What can't be decoded is skipped and counted: one bad record must not make a whole partition unavailable. Only a
    partition that can't be read at all (its disk fails) is not loaded.
    """

    def __init__(self, topic: str, log: BrokerLog, clock: Clock, buffer_size: int, background: Background) -> None:
        self.running: dict[int, Steps[None]] = {}
        """By partition, those that are being read."""
        self._topic = topic
        self._log = log
        self._clock = clock
        self._buffer_size = min(buffer_size, LARGEST_STEP)
        self._background = background

    def start(self, partition: int, take: Take, loaded: OnLoaded) -> None:
        """Give all that is there to ``take``, then tell ``loaded`` whether all could be read, and in how many ms.

        What takes a moment only is there when this returns.
        """
        steps = self.running[partition] = self._steps(TopicPartition(self._topic, partition), take, loaded)
        self._background.run(steps)

    def stop(self, partition: int) -> None:
        """End the loading of a partition that is not led any more."""
        steps = self.running.pop(partition, None)
        if steps is not None:
            steps.close()

    def _steps(self, tp: TopicPartition, take: Take, loaded: OnLoaded) -> Steps[None]:
        started_s = self._clock.monotonic_s()
        reading = Reading(tp, self._background.counters)
        is_whole = True
        try:
            log = self._log.partition(tp).log
            reading.offset = log.log_start_offset
            while reading.offset < log.log_end_offset:
                reading.end_offset = log.log_end_offset
                yield from self._some(log, reading, take)
                if reading.offset < log.log_end_offset:
                    yield
        except BrokerError:
            # half of it would be worse than nothing: clients keep asking until somebody can read the partition
            logger.exception("Could not load %s", tp)
            is_whole = False
        reading.finish()
        yield from loaded(is_whole, (self._clock.monotonic_s() - started_s) * 1000)
        del self.running[tp.partition]

    def _some(self, log: Any, reading: Reading, take: Take) -> Steps[None]:
        """Take what one read gives. Where that is damaged the rest of its segment is searched for whole batches."""
        offset = reading.offset
        try:
            records = log.read(offset, self._buffer_size, up_to_offset=None).records
            if not isinstance(records, bytes):
                file_slice, records = records, records.read()
                file_slice.release()
            next_offset = yield from take(records, reading)
            if next_offset is not None and next_offset > offset:
                reading.offset = next_offset
                return
        except (CorruptRecordError, KafkaStorageError) as error:
            logger.warning("%s is damaged behind offset %d: %s", reading.topic_partition, reading.offset, error)
        # nothing is found either where compaction has left nothing up to the end
        reading.offset = offset
        reading.offset = yield from log.salvage(offset, lambda run: take(run, reading), reading.skip_damage)
