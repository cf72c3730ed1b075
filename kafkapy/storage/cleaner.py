"""Which log is compacted when: the dirtiest of those that are due, one for each of ``log.cleaner.threads``.

A thread of Apache Kafka's is a worker process here (``worker_pool``). After a compaction the next log is looked for at
once; if none is due, after ``log.cleaner.backoff.ms``. A log that can't be compacted, since its files are damaged, is
left alone until the next start, with a line in the log file; one whose disk is full is tried again.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Self

from kafkapy.clock import TimerHandle
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import BrokerError
from kafkapy.storage.checkpoints import CLEANER
from kafkapy.storage.cleanable import Cleanable, examine
from kafkapy.storage.compaction import Request
from kafkapy.storage.compaction_run import CompactionRun, Pool, Post
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.storage.log import Log
from kafkapy.storage.log_directory import LogManager
from kafkapy.storage.retention import delete_old_segments
from kafkapy.storage.worker import JobCancelledError
from kafkapy.storage.worker_pool import LOW_PRIORITY, WorkerPool
from kafkapy.types import TopicPartition

_log: Final = logging.getLogger(__name__)

NO_DATA: Final = -1


class CleanerSettings(NamedTuple):
    """The broker's ``log.cleaner.*`` keys that are no topic's."""

    threads: int
    backoff_ms: int
    map_bytes: int
    load_factor: float
    chunk_bytes: int
    bytes_per_second: float

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """As ``config`` has them now; buffers are each thread's share."""
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
    """Compacts the logs of a broker; everything runs on the broker's thread, the grinding in workers."""

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
        self._runs: dict[TopicPartition, CompactionRun] = {}
        self._clean_to: dict[TopicPartition, int] = {}
        self._not_due: dict[TopicPartition, tuple[object, ...]] = {}

    def start(self) -> None:
        """Read the checkpoints and begin to look for dirty logs."""
        for directory in self._logs.directories.online:
            self._clean_to.update(directory.read_checkpoint(CLEANER))
        self._logs.storage.about_to_cut = self.about_to_cut
        self._config.add_listener(self._config_changed)
        self._open()

    def _open(self) -> None:
        self._pool = self._pool_of(self.settings.threads)
        self._timer = self._logs.storage.clock.call_later(0, self._look)

    def stop(self) -> None:
        """Abort what is under way and end the workers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for run in list(self._runs.values()):
            run.abort()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _config_changed(self, _names: frozenset[str]) -> None:
        """Apache Kafka begins anew with new threads; so does this."""
        settings = CleanerSettings.of(self._config)
        if settings != self.settings and self._pool is not None:
            _log.info("The cleaner's settings have changed: %s", settings)
            self.stop()
            self.settings = settings
            self._open()

    # what others do to logs

    def about_to_cut(self, log: Log, offset: int) -> None:
        """The records of ``log`` from ``offset`` on are about to go, or all of it: nothing is swapped in after that."""
        partition = log.topic_partition
        run = self._runs.get(partition)
        if run is not None and run.log is log:
            run.abort()
        if self._logs.get(partition) is not log:
            self._clean_to.pop(partition, None)
        elif self._clean_to.get(partition, 0) > offset:
            segments = log.segments
            self._clean_to[partition] = min(offset, segments.starting_at(segments.floor(offset))[0].base_offset)
            self._checkpoint()

    # looking for work

    def _look(self) -> None:
        self._timer = self._logs.storage.clock.call_later(self.settings.backoff_ms, self._look)
        self._begin_what_is_due()
        for log in list(self._logs.all_logs()):
            if not log.config.compact or log.topic_partition in self._logs.being_cleaned:
                continue
            if log.config.delete or log.log_start_offset > log.segments.first.base_offset:
                with suppress(KafkaStorageError):
                    delete_old_segments(log)

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
            if self.uncleanable.get(partition) is log:
                continue
            state = self._state(log)
            if self._not_due.get(partition) == state:
                continue
            try:
                cleanable = examine(log, self._clean_to.get(partition))
            except (OSError, BrokerError) as error:
                self._give_up(log, error)
                continue
            examined.append(cleanable)
            if cleanable.is_due or cleanable.may_become_due:
                self._not_due.pop(partition, None)
            else:
                self._not_due[partition] = state
        return examined

    def _state(self, log: Log) -> tuple[object, ...]:
        """All that decides, beside the clock, whether a log is due: thousands that are not cost nothing but this."""
        segments = log.segments
        bound = min(log.last_stable_offset, segments.active.base_offset)
        clean_to = self._clean_to.get(log.topic_partition)
        return len(segments), segments.first, segments.active, bound, clean_to, log.log_start_offset, log.config

    def _give_up(self, log: Log, error: Exception) -> None:
        self.uncleanable[log.topic_partition] = log
        _log.error("%s can't be compacted and is left alone until the next start: %s", log.topic_partition, error)

    def _begin(self, cleanable: Cleanable, pool: Pool) -> None:
        log = cleanable.log
        run = self._runs[log.topic_partition] = CompactionRun(cleanable, self._post, self._ended)
        self._logs.being_cleaned.add(log.topic_partition)
        run.begin(pool, self._request(cleanable))

    def _request(self, cleanable: Cleanable) -> Request:
        log, config, settings = cleanable.log, cleanable.log.config, self.settings
        bound = cleanable.first_uncleanable_offset
        return Request(
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
            map_bytes=settings.map_bytes,
            load_factor=settings.load_factor,
            chunk_bytes=settings.chunk_bytes,
            bytes_per_second=settings.bytes_per_second,
        )

    # the end of a compaction

    def _ended(self, run: CompactionRun) -> None:
        partition = run.log.topic_partition
        del self._runs[partition]
        self._logs.being_cleaned.discard(partition)
        if run.end_offset is not None:
            self._clean_to[partition] = run.end_offset
            self._checkpoint()
            _log.info("%s is compacted up to offset %d: %s", partition, run.end_offset, _summary(run.facts))
            self._begin_what_is_due()
        elif isinstance(run.error, OSError):
            _log.error("%s could not be compacted and stays as it is: %s", partition, run.error)
        elif run.error is not None and not isinstance(run.error, JobCancelledError):
            self._give_up(run.log, run.error)

    def _checkpoint(self) -> None:
        """Note down how far the logs are clean, of those that are still there."""
        offsets: dict[str, dict[TopicPartition, int]] = {}
        for partition, offset in self._clean_to.items():
            path = self._logs.directory_of(partition)
            if path is not None:
                offsets.setdefault(path, {})[partition] = offset
        for directory in self._logs.directories.online:
            try:
                directory.write_checkpoint(CLEANER, offsets.get(directory.path, {}), self._logs.storage.flusher)
            except OSError as error:
                _log.error("%s/%s can't be written: %s", directory.path, CLEANER, error)


def _real(config: BrokerConfig, name: str) -> float:
    value = config[name]
    assert isinstance(value, int | float)
    return float(value)


def _summary(facts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in facts.items() if name != "end_offset")
