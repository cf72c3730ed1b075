"""Moves replicas between the data directories of this broker (KIP-113) while they are served.

A move has a *future replica*: a log in another data directory, in the folder ``<topic>-<partition>.<uuid>-future``. It
copies the current log, as a follower copies its leader's, and replaces it when it has the same end.

**States** of a move:

    truncating   the future replica may have records that the current log does not have, or has otherwise: it is cut
    copying      it is a prefix of the current log: batches are appended as they are

**Order of events**

1. AlterReplicaLogDirs creates the future replica; after a restart it is found and loaded with the other logs, and
   LeaderAndIsr continues the move. From then on neither compaction nor retention changes the current log
   (``LogManager``).
2. Truncating goes by leader epochs, as between brokers (``truncation.py``); a future replica without epochs is cut at
   its high watermark. This is done at the beginning, after each LeaderAndIsr with another leader epoch, and whenever
   the current log is cut.
3. Copying reads at most ``COPIED_BYTES`` at a time, and appends at most 64 batches in one iteration of the event loop.
   High watermark and log start follow those of the current log.
4. At the same end offset the future replica is flushed until the disk has as much of it as of the current log: what
   was acknowledged because it was on the disk must be there afterwards. Apache Kafka does not flush.
5. The folders are renamed and the partition uses the future replica (``LogManager.replace_with_future``), in one step
   of the event loop. The folder of the old log is removed after ``file.delete.delay.ms``.

``num.replica.alter.log.dirs.threads`` partitions are copied at a time, each until it has moved, by their names. Above
``replica.alter.log.dirs.io.max.bytes.per.second`` nothing is read. An error delays a move by
``replica.fetch.backoff.ms``; if a data directory goes offline, the moves to it end.

**What a crash leaves**: before 5 the current log and the future replica, and the move continues with 2. Within 5, see
``LogManager.replace_with_future``.
"""

import asyncio
import logging
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from kafkapy.clock import Clock
from kafkapy.errors import BrokerError
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.replication.copying import append_copied, fill_gap, restart_log, steps_of, take_offsets
from kafkapy.replication.partition import Partition
from kafkapy.replication.quota import ReplicationQuota
from kafkapy.replication.truncation import truncation_of
from kafkapy.storage.log.log import Log
from kafkapy.turns import turns
from kafkapy.types import NO_EPOCH, TopicPartition

logger = logging.getLogger(__name__)

COPIED_BYTES: Final = 262_144
"""The number of bytes that are read at a time, or one batch if that is larger."""


class FutureReplicas(Protocol):
    """The part of ``storage.log_manager.LogManager`` that is used here."""

    def future(self, partition: TopicPartition, /) -> Log | None:
        """Return the future replica of a partition, if there is one."""
        ...

    def replace_with_future(self, partition: TopicPartition, /) -> Log:
        """Replace the current log by the future replica, which is returned."""
        ...


class MoveSettings(NamedTuple):
    """How many partitions are copied at a time, and the delay in ms after an error or above the limit of bytes."""

    lanes: int
    backoff_ms: int


class _Move:
    """A partition that is being moved, in one leader epoch."""

    __slots__ = ("partition", "log", "future", "cut_offset", "is_truncating", "not_before_s", "last_problem")

    def __init__(self, partition: Partition, future: Log) -> None:
        self.partition = partition
        self.log = partition.log
        self.future = future
        self.cut_offset: int | None = None
        """The lowest offset to which the current log was cut, until the future replica has followed."""
        self.is_truncating = True
        self.not_before_s = 0.0
        self.last_problem = ""

    def current_is_cut(self, offset: int) -> None:
        """Truncate before anything else is copied."""
        self.cut_offset = offset if self.cut_offset is None else min(self.cut_offset, offset)
        self.is_truncating = True


class LogDirMoves:
    """All moves of a broker; ``replaced`` is called with the partition and its log when one has ended."""

    def __init__(
        self,
        logs: FutureReplicas,
        clock: Clock,
        settings: MoveSettings,
        quota: ReplicationQuota,
        replaced: Callable[[Partition, Log], object],
    ) -> None:
        self._lanes = [_Lane(number, logs, clock, settings, quota, replaced) for number in range(settings.lanes)]

    def start(self, partition: Partition, future: Log) -> None:
        """Copy the partition's log to ``future``, or continue it in another leader epoch."""
        self._lane(partition.topic_partition).start(partition, future)

    def stop(self, topic_partition: TopicPartition) -> None:
        """Stop copying the partition; its future replica stays as it is."""
        self._lane(topic_partition).stop(topic_partition)

    def close(self) -> None:
        """Stop copying all partitions, permanently."""
        for lane in self._lanes:
            lane.close()

    def _lane(self, topic_partition: TopicPartition) -> "_Lane":
        return self._lanes[(crc32(topic_partition.topic.encode()) + topic_partition.partition) % len(self._lanes)]


class _Lane:
    """Moves one partition after the other."""

    def __init__(
        self,
        number: int,
        logs: FutureReplicas,
        clock: Clock,
        settings: MoveSettings,
        quota: ReplicationQuota,
        replaced: Callable[[Partition, Log], object],
    ) -> None:
        self._number = number
        self._logs = logs
        self._clock = clock
        self._backoff_ms = settings.backoff_ms
        self._quota = quota
        self._replaced = replaced
        self._moves: dict[TopicPartition, _Move] = {}
        self._queue: list[tuple[float, TopicPartition]] = []
        """A heap: the time when a move may continue, and its name."""
        self._chosen: _Move | None = None
        self._is_due = asyncio.Event()
        """A move may be able to continue: it was added, a delay is over, or appended records are on the disk."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self, partition: Partition, future: Log) -> None:
        """See ``LogDirMoves.start``."""
        if self._is_closed:
            return
        move = self._moves[partition.topic_partition] = _Move(partition, future)
        partition.cut_listener = move.current_is_cut
        future.durability.listener = self._is_due.set
        self._enqueue(move)
        self._is_due.set()
        if self._task is None:
            self._begin()

    def stop(self, topic_partition: TopicPartition) -> None:
        """See ``LogDirMoves.stop``."""
        move = self._moves.pop(topic_partition, None)
        if move is not None:
            move.partition.cut_listener = None
            move.future.durability.listener = None

    def close(self) -> None:
        """See ``LogDirMoves.close``."""
        self._is_closed = True
        for topic_partition in list(self._moves):
            self.stop(topic_partition)
        if self._task is not None:
            self._task.cancel()

    # the loop

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"log-dir-moves-{self._number}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Continue after an unexpected failure: a partition must not silently stop being moved."""
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("Moving replicas between data directories failed, trying again", exc_info=error)
            for move in self._moves.values():
                self._delay(move)
        if self._moves:
            self._begin()

    async def _run(self) -> None:
        while self._moves:
            self._is_due.clear()
            move = None if self._quota.is_exceeded else self._choose()
            if move is None or not await self._advance(move):
                await self._wait()

    def _choose(self) -> _Move | None:
        """Return the next move: the last one, else the first by its name of those that are not delayed."""
        now_s = self._clock.monotonic_s()
        chosen = self._chosen
        if chosen is not None and self._is_listed(chosen) and chosen.not_before_s <= now_s:
            return chosen
        self._chosen = None
        while self._queue and self._queue[0][0] <= now_s:
            not_before_s, topic_partition = heappop(self._queue)
            move = self._moves.get(topic_partition)
            if move is not None and move.not_before_s == not_before_s:
                logger.info(
                    "Copying %s to %s from offset %d on",
                    topic_partition,
                    move.future.directory,
                    move.future.log_end_offset,
                )
                self._chosen = move
                break
        return self._chosen

    async def _wait(self) -> None:
        """Wait until something is due: the disk, another move, the end of a delay, or another look at the quota."""
        wait_s = self._backoff_ms / 1000
        if self._queue:
            wait_s = min(wait_s, max(self._queue[0][0] - self._clock.monotonic_s(), 0.0) or wait_s)
        timer = self._clock.call_later(wait_s * 1000, self._is_due.set)
        try:
            await self._is_due.wait()
        finally:
            timer.cancel()

    def _enqueue(self, move: _Move) -> None:
        if len(self._queue) > 2 * len(self._moves) + 64:  # entries of moves that were stopped
            self._queue = [(each.not_before_s, name) for name, each in self._moves.items()]
            heapify(self._queue)
        heappush(self._queue, (move.not_before_s, move.partition.topic_partition))

    def _delay(self, move: _Move) -> None:
        move.not_before_s = self._clock.monotonic_s() + self._backoff_ms / 1000
        self._enqueue(move)

    def _is_listed(self, move: _Move) -> bool:
        return self._moves.get(move.partition.topic_partition) is move

    def _is_current(self, move: _Move) -> bool:
        """Tell whether the move continues; it ends here if its future replica was removed."""
        topic_partition = move.partition.topic_partition
        if not self._is_listed(move):
            return False
        if self._logs.future(topic_partition) is move.future and move.partition.log is move.log:
            return True
        logger.warning("The move of %s to %s has ended: the copy is gone", topic_partition, move.future.directory)
        self.stop(topic_partition)
        return False

    # one move

    async def _advance(self, move: _Move) -> bool:
        """Do a part of a move; tell whether there may be more to do at once."""
        await turns().next_turn()
        if not self._is_current(move):
            return True
        try:
            if move.is_truncating:
                self._truncate(move)
                return True
            if move.future.log_end_offset < move.log.log_end_offset:
                return await self._copy(move)
            take_offsets(move.future, move.log.high_watermark, move.log.log_start_offset)
            return self._replace_if_durable(move)
        except BrokerError as error:
            self._postpone(move, str(error))
            return False

    def _postpone(self, move: _Move, problem: str) -> None:
        """Try again after the back-off, from the truncation on; a problem that stays has one line in the log."""
        move.is_truncating = True
        self._delay(move)
        if problem != move.last_problem:
            move.last_problem = problem
            logger.warning("%s: the move is tried again: %s", move.partition.topic_partition, problem)

    def _truncate(self, move: _Move) -> None:
        """Cut the future replica where the current log has other records, or none."""
        log, future = move.log, move.future
        is_final = True
        if future.leader_epochs.latest == NO_EPOCH:
            offset = min(future.high_watermark, log.high_watermark)
            if move.cut_offset is not None:
                offset = min(offset, move.cut_offset)
        else:
            offset, is_final = truncation_of(future, *log.leader_epochs.end_offset_for(future.leader_epochs.latest))
        offset = min(offset, log.log_end_offset)
        with as_storage_error(future, "truncated"):
            future.truncate_to(offset)
        if future.log_end_offset < log.log_start_offset:
            restart_log(future, log.log_start_offset)
        if is_final:
            move.cut_offset = None
            move.is_truncating = False

    async def _copy(self, move: _Move) -> bool:
        """Append the next batches of the current log; return what ``_replace_if_durable`` does at its end."""
        log, future = move.log, move.future
        if future.log_end_offset < log.log_start_offset:  # records were deleted before they were copied
            restart_log(future, log.log_start_offset)
            return True
        read = log.read(future.log_end_offset, COPIED_BYTES)
        with as_storage_error(log, "read"):
            records = read.records if isinstance(read.records, bytes) else read.records.read()
        if not records:
            fill_gap(future, log.log_end_offset, log.leader_epochs.latest)
        for piece in steps_of(records):
            append_copied(future, piece)
            self._quota.record(len(piece))
            take_offsets(future, log.high_watermark, log.log_start_offset)
            move.last_problem = ""
            if future.log_end_offset == log.log_end_offset:
                # In the same iteration of the loop: in the next one a busy partition has more records.
                return self._replace_if_durable(move)
            await turns().next_turn()
            if not self._is_current(move) or move.is_truncating or self._quota.is_exceeded:
                break
        return True

    def _replace_if_durable(self, move: _Move) -> bool:
        """Replace the current log if the disk has as much of the future replica; else flush that, and return False."""
        durability = move.future.durability
        if durability.data_offset < move.log.durability.data_offset:
            if durability.failure is not None:
                self._delay(move)
            durability.flush_messages()
            return False
        topic_partition = move.partition.topic_partition
        log = self._logs.replace_with_future(topic_partition)
        self.stop(topic_partition)
        self._replaced(move.partition, log)
        logger.info("%s has moved to %s, with offsets up to %d", topic_partition, log.directory, log.log_end_offset)
        return True
