"""The log of an internal topic as a coordinator uses it: append and hear when it is safe, read it all when leading.

One thread owns everything, so a decision, its append and its replay need no locks; only an acknowledgement by other
brokers, and the reading of a large partition, let others run in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, cast

from kafkapy.clock import Clock
from kafkapy.cluster.partition import ALL_IN_SYNC
from kafkapy.coordinator.errors import NotCoordinatorError
from kafkapy.coordinator.group.results import NO_PRODUCER
from kafkapy.errors import BrokerError
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.records.batch import BatchHeader, iterate_headers, own_batch
from kafkapy.records.record import Record, write_record
from kafkapy.records.validate import ValidatedBatch, validated_batch_of
from kafkapy.storage.append import AppendResult
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

LARGEST_STEP = 65_536
"""Bytes that are replayed before others get their turn: some milliseconds, where Kafka's buffer of 5 MB takes most
of a second. One larger batch is read as a whole."""


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
Take = Callable[[bytes], int | None]
"""Takes over the whole batches of one read; returns the offset behind the last of them, None if there was none."""
OnLoaded = Callable[[bool, float], None]


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
        finish(NotCoordinatorError.error_code, None)
        return
    error = future.exception()
    if error is None:
        finish(0, future.result())
    elif isinstance(error, BrokerError):
        finish(error.error_code, None)
    else:
        raise error


def batch_by_batch(replay: Callable[[bytes, BatchHeader, int], None], records: bytes) -> int | None:
    """What ``Take`` does, by ``replay`` of each batch, its header and place."""
    header = None
    for position, header in iterate_headers(records):  # the last one counts
        replay(records, header, position)
    return None if header is None else header.next_offset


class Loading:
    """Reads partitions of one internal topic from their starts, one buffer at a time."""

    def __init__(self, topic: str, log: BrokerLog, clock: Clock, buffer_size: int) -> None:
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._topic = topic
        self._log = log
        self._clock = clock
        self._buffer_size = min(buffer_size, LARGEST_STEP)

    def start(self, partition: int, take: Take, loaded: OnLoaded) -> None:
        """Give all that is there to ``take``, then tell ``loaded`` whether all could be read, and in how many ms.

        What fits into one read is there when this returns.
        """
        steps = self._steps(TopicPartition(self._topic, partition), take, loaded)
        if next(steps, None) is not None:
            self.tasks[partition] = asyncio.get_running_loop().create_task(self._rest(partition, steps))

    def stop(self, partition: int) -> None:
        """Nobody wants to know any more."""
        task = self.tasks.pop(partition, None)
        if task is not None:
            task.cancel()

    async def _rest(self, partition: int, steps: Iterator[int]) -> None:
        for _ in steps:
            await self._clock.sleep(0)
        del self.tasks[partition]

    def _steps(self, tp: TopicPartition, take: Take, loaded: OnLoaded) -> Iterator[int]:
        """Yield the offset reached whenever more is to come."""
        started_s = self._clock.monotonic_s()
        try:
            log = self._log.partition(tp).log
            offset = log.log_start_offset
            while offset < log.log_end_offset:
                offset = self._some(log, offset, take)
                if offset < log.log_end_offset:
                    yield offset
        except (BrokerError, ProtocolError):
            # half of it would be worse than nothing: clients keep asking until somebody can read the partition
            logger.exception("Could not load %s", tp)
            loaded(False, self._ms_since(started_s))
            return
        loaded(True, self._ms_since(started_s))

    def _ms_since(self, started_s: float) -> float:
        return (self._clock.monotonic_s() - started_s) * 1000

    def _some(self, log: Any, offset: int, take: Take) -> int:
        """Take what one read from ``offset`` gives; returns where to read on."""
        records = log.read(offset, self._buffer_size, up_to_offset=None).records
        if not isinstance(records, bytes):
            file_slice, records = records, records.read()
            file_slice.release()
        next_offset = take(records)
        # compaction may have left nothing up to the end
        return cast(int, log.log_end_offset if next_offset is None else next_offset)
