"""Chooses the logs to compact: of those that are due, the one with the highest ratio of dirty bytes is first.

Up to ``log.cleaner.threads`` compactions run at a time, each in a worker process (``worker_pool``) where Apache Kafka
has a thread. After a compaction the cleaner chooses the next log at once; if none is due, after
``log.cleaner.backoff.ms``. After an error of a compaction:

- a log with damaged files, or whose compaction ended three worker processes in a row, is not compacted until the next
  start, and an error is logged;
- after an error of the disk that passes, such as a full disk, the log is tried again after the others;
- any other error of the disk takes its data directory offline.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kafkapy.clock import TimerHandle
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import BrokerError
from kafkapy.platform.disk_errors import file_refused, is_passing
from kafkapy.platform.worker import JobCancelledError
from kafkapy.platform.worker_pool import LOW_PRIORITY, WorkerDiedError, WorkerPool, WorkerStartError
from kafkapy.storage.checkpoints import CLEANER
from kafkapy.storage.compaction.cleanable import Cleanable, examine
from kafkapy.storage.compaction.compaction_run import CompactionRun, Pool, Post
from kafkapy.storage.log.log import Log
from kafkapy.storage.log_manager import LogManager
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.storage.compaction.compaction import CompactionRequest

logger: Final = logging.getLogger(__name__)

NO_DATA: Final = -1
MAX_WORKER_DEATHS: Final = 3
SHORTEST_BACKOFF_MS: Final = 10
"""Minimum of the backoff: with 0 Apache Kafka's cleaner threads loop without a pause; here the event loop would."""


class CleanerSettings(NamedTuple):
    """The ``log.cleaner.*`` keys of the broker that are not keys of topics."""

    threads: int
    backoff_ms: int
    map_bytes: int
    load_factor: float
    chunk_bytes: int
    bytes_per_second: float

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from ``config``; the buffers' sizes are divided by the number of threads."""
        threads = max(config.integer("log.cleaner.threads"), 1)
        return cls(
            threads,
            config.integer("log.cleaner.backoff.ms"),
            config.integer("log.cleaner.dedupe.buffer.size") // threads,
            _real(config, "log.cleaner.io.buffer.load.factor"),
            max(config.integer("log.cleaner.io.buffer.size") // threads // 2, 1),
            _real(config, "log.cleaner.io.max.bytes.per.second") / threads,
        )


class LogCleaner:
    """Compacts the logs of a broker. It runs on the event loop; worker processes read and write the records."""

    def __init__(
        self,
        logs: LogManager,
        config: BrokerConfig,
        post: Post,
        pool_of: Callable[[int], Pool] = lambda size: WorkerPool(size, niceness=LOW_PRIORITY),
    ) -> None:
        self.settings = CleanerSettings.of(config)
        self.uncleanable: dict[TopicPartition, Log] = {}
        self._logs = logs
        self._config = config
        self._post = post
        self._pool_of = pool_of
        self._pool: Pool | None = None
        self._timer: TimerHandle | None = None
        self._trim_timer: TimerHandle | None = None
        self._runs: dict[TopicPartition, CompactionRun] = {}
        self._clean_to: dict[TopicPartition, int] = {}
        self._not_due: dict[TopicPartition, tuple[object, ...]] = {}
        self._put_off: set[TopicPartition] = set()
        """Logs whose compaction has failed since the last look for work: the others come first."""
        self._deaths: dict[TopicPartition, int] = {}
        """The number of worker processes that ended in a row while they compacted a log."""
        self._checkpoint_timer: TimerHandle | None = None

    def start(self) -> None:
        """Read the checkpoints and begin to look for dirty logs."""
        for directory in self._logs.directories.online:
            for partition, offset in directory.read_checkpoint(CLEANER).items():
                # A log that was deleted and created again, perhaps in another directory, has no clean part.
                if self._logs.directory_of(partition) == directory.path:
                    self._clean_to[partition] = offset
        self._logs.set_compactor(self)
        self._config.add_listener(self._config_changed)
        self._open()

    def _open(self) -> None:
        self._pool = self._pool_of(self.settings.threads)
        self._timer = self._logs.storage.clock.call_later(0, self._look)

    def stop(self) -> None:
        """Abort the running compactions and end the worker processes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._trim_timer is not None:
            self._trim_timer.cancel()
            self._trim_timer = None
        if self._checkpoint_timer is not None:
            self._checkpoint()
        for run in list(self._runs.values()):
            run.abort()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _config_changed(self, _names: frozenset[str]) -> None:
        """Start again with the new settings, as Apache Kafka does."""
        settings = CleanerSettings.of(self._config)
        if settings != self.settings and self._pool is not None:
            logger.info("The cleaner's settings have changed: %s", settings)
            self.stop()
            self.settings = settings
            self._open()

    # for the log manager

    def is_compacting(self, partition: TopicPartition) -> bool:
        """Tell whether the partition's log is being compacted."""
        return partition in self._runs

    def about_to_cut(self, log: Log, offset: int) -> None:
        """Abort the compaction of ``log`` before its records from ``offset`` on, or all, are removed."""
        partition = log.topic_partition
        if self._logs.future(partition) is log:
            return  # only the current log is compacted
        run = self._runs.get(partition)
        if run is not None and run.log is log:
            run.abort()
        if self._logs.get(partition) is not log:
            self._forget(partition)
        elif self._clean_to.get(partition, 0) > offset:
            segments = log.segments
            self._clean_to[partition] = min(offset, segments.starting_at(segments.floor(offset))[0].base_offset)
            self._checkpoint()

    def _forget(self, partition: TopicPartition) -> None:
        """Drop the state of a log that was deleted: a new log of the same name must not get it."""
        for known in (self.uncleanable, self._not_due, self._deaths):
            known.pop(partition, None)
        if self._clean_to.pop(partition, None) is not None:
            self._checkpoint_soon()

    def log_moved(self, partition: TopicPartition) -> None:
        """Move the checkpoint of a log's clean part to its new data directory; files that were damaged stay behind."""
        self.uncleanable.pop(partition, None)
        if partition in self._clean_to:
            self._checkpoint_soon()

    def _checkpoint_soon(self) -> None:
        """Write one checkpoint for all logs that are deleted or moved in this iteration of the loop."""
        if self._checkpoint_timer is None:
            self._checkpoint_timer = self._logs.storage.clock.call_later(0, self._checkpoint)

    # looking for work

    def _look(self) -> None:
        backoff_ms = max(self.settings.backoff_ms, SHORTEST_BACKOFF_MS)
        self._timer = self._logs.storage.clock.call_later(backoff_ms, self._look)
        self._put_off.clear()
        self._begin_what_is_due()
        if self._trim_timer is None:
            self._go_on(self._trim_logs())

    def _trim_logs(self) -> Steps[None]:
        """Delete the old segments of compacted logs."""
        for log in list(self._logs.all_logs()):
            if log.config.compact and (log.config.delete or log.log_start_offset > log.segments.first.base_offset):
                yield from self._logs.trim(log, compacted=True)

    def _go_on(self, trimming: Steps[None]) -> None:
        """Do a step of ``trimming``, and the others in later iterations of the event loop."""
        self._trim_timer = None
        for _ in trimming:
            self._trim_timer = self._logs.storage.clock.call_later(0, self._go_on, trimming)
            return

    def _begin_what_is_due(self) -> None:
        while self._pool is not None and len(self._runs) < self.settings.threads:
            due = [cleanable for cleanable in self._examined() if cleanable.is_due]
            if not due:
                return
            self._begin(max(due, key=lambda cleanable: cleanable.ratio), self._pool)

    def _examined(self) -> list[Cleanable]:
        examined = []
        for log in self._logs.all_logs():
            partition = log.topic_partition
            if not log.config.compact or len(log.segments) == 1 or partition in self._runs:
                continue
            if self._logs.future(partition) is not None:
                continue
            if partition in self._put_off or partition in self.uncleanable:
                continue
            if log.recovery_point < log.segments.active.base_offset:
                # The roll has requested this flush, but before this start, or the disk refused it.
                log.durability.flush_later(log.segments.active.base_offset)
            state = self._state(log)
            if self._not_due.get(partition) == state:
                continue
            try:
                cleanable = examine(log, self._clean_to.get(partition))
            except (OSError, BrokerError) as error:
                self._refused(log, error)
                continue
            examined.append(cleanable)
            if cleanable.is_due or cleanable.may_become_due:
                self._not_due.pop(partition, None)
            else:
                self._not_due[partition] = state
        return examined

    def _state(self, log: Log) -> tuple[object, ...]:
        """Everything but the time on which it depends whether a log is due; a log with the same state is skipped."""
        segments = log.segments
        bound = min(log.last_stable_offset, segments.active.base_offset, log.recovery_point)
        clean_to = self._clean_to.get(log.topic_partition)
        return len(segments), segments.first, segments.active, bound, clean_to, log.log_start_offset, log.config

    def _refused(self, log: Log, error: Exception) -> None:
        """Handle an error of a compaction as the module's docstring says."""
        partition = log.topic_partition
        self._put_off.add(partition)
        if isinstance(error, OSError):
            logger.error("%s could not be compacted and stays as it is: %s", partition, error)
            if not is_passing(error):
                self._logs.disk_failed(log.directory, error)
        elif isinstance(error, WorkerStartError) or (
            isinstance(error, WorkerDiedError) and not self._kills_workers(log)
        ):
            logger.warning("%s could not be compacted and will be tried again: %s", partition, error)
        else:
            self._give_up(log, error)

    def _kills_workers(self, log: Log) -> bool:
        deaths = self._deaths[log.topic_partition] = self._deaths.get(log.topic_partition, 0) + 1
        return deaths >= MAX_WORKER_DEATHS

    def _give_up(self, log: Log, error: Exception) -> None:
        self.uncleanable[log.topic_partition] = log
        logger.error("%s can't be compacted and is left alone until the next start: %s", log.topic_partition, error)

    def _begin(self, cleanable: Cleanable, pool: Pool) -> None:
        log = cleanable.log
        run = self._runs[log.topic_partition] = CompactionRun(cleanable, self._post, self._ended)
        run.begin(pool, self._request(cleanable))

    def _request(self, cleanable: Cleanable) -> "CompactionRequest":
        from kafkapy.storage.compaction.compaction import (
            CompactionRequest,  # imported late: many brokers compact nothing
        )

        log, config, settings = cleanable.log, cleanable.log.config, self.settings
        bound = cleanable.first_uncleanable_offset
        return CompactionRequest(
            directory=log.directory,
            segments=[segment.base_offset for segment in log.segments if segment.base_offset < bound],
            later_segments=[
                segment.base_offset
                for segment in log.segments
                if segment.base_offset >= bound and segment.transaction_index.size
            ],
            first_dirty_offset=cleanable.first_dirty_offset,
            first_uncleanable_offset=bound,
            log_start_offset=log.log_start_offset,
            producers=[
                (entry.producer_id, entry.batches[-1].last_offset if entry.batches else NO_DATA, entry.producer_epoch)
                for entry in log.producer_state.producers.values()
            ],
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            max_message_bytes=config.max_message_bytes,
            delete_retention_ms=config.delete_retention_ms,
            now_ms=log.storage.clock.now_ms(),
            map_bytes=settings.map_bytes,
            load_factor=settings.load_factor,
            chunk_bytes=settings.chunk_bytes,
            bytes_per_second=settings.bytes_per_second,
        )

    # the end of a compaction

    def _ended(self, run: CompactionRun) -> None:
        partition = run.log.topic_partition
        del self._runs[partition]
        if run.end_offset is not None:
            self._clean_to[partition] = run.end_offset
            self._deaths.pop(partition, None)
            self._checkpoint()
            logger.info("%s is compacted up to offset %d: %s", partition, run.end_offset, _summary(run.facts))
        elif isinstance(run.error, JobCancelledError):
            return
        else:
            assert run.error is not None
            self._refused(run.log, run.error)
        self._begin_what_is_due()

    def _checkpoint(self) -> None:
        """Write the checkpoint of the clean parts of all logs that exist."""
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
            self._checkpoint_timer = None
        offsets: dict[str | None, dict[TopicPartition, int]] = {}
        for partition, offset in self._clean_to.items():
            offsets.setdefault(self._logs.directory_of(partition), {})[partition] = offset
        storage = self._logs.storage
        for directory in self._logs.directories.online:
            refused = partial(file_refused, storage, f"{directory.path}/{CLEANER}")
            directory.write_checkpoint(CLEANER, offsets.get(directory.path, {}), storage.flusher, refused)


def _real(config: BrokerConfig, name: str) -> float:
    value = config[name]
    assert isinstance(value, int | float)
    return float(value)


def _summary(facts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in facts.items() if name != "end_offset")
