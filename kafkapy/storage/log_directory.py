"""All logs of a broker, over its data directories."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from kafkapy.clock import Clock
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT
from kafkapy.storage.closing import finish, finished
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.storage.disk_errors import as_storage_error
from kafkapy.storage.errors import LogDirectoryError
from kafkapy.storage.flusher import Flusher, InlineFlusher, sync_in_parallel
from kafkapy.storage.log import Log, Storage
from kafkapy.storage.recovery import Checkpointed, load
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

_NEW: Final = Checkpointed()
INLINE: Final = InlineFlusher()


@contextmanager
def _usable(directory: DataDirectory) -> Iterator[None]:
    """What the system refuses at the start is said in a sentence."""
    try:
        yield
    except OSError as error:
        raise LogDirectoryError(f"{directory.path} can't be used as a data directory: {error}") from error


class LogManager:
    """Opens, finds, creates and deletes logs; writes the checkpoints when it is told to."""

    def __init__(
        self, log_dirs: Sequence[str], config: LogConfig, clock: Clock, *, storage: Storage | None = None
    ) -> None:
        self.config = config
        self.storage = storage or Storage(clock)
        self.directories = [DataDirectory(self.storage.files, path.rstrip("/")) for path in log_dirs]
        self._logs: dict[TopicPartition, Log] = {}
        self._directory_of: dict[TopicPartition, DataDirectory] = {}
        self._locked = False

    # start

    def lock(self) -> MetaProperties | None:
        """Make and lock the directories; return whose they are, None when they are new.

        Raises ``LogDirectoryLockedError``, or ``LogDirectoryError`` when they belong to different brokers.
        """
        for directory in self.directories:
            with _usable(directory):
                directory.lock()
        self._locked = True
        found = {identity for each in self.directories if (identity := each.read_identity()) is not None}
        if len(found) > 1:
            raise LogDirectoryError(f"The data directories belong to different brokers: {sorted(map(str, found))}")
        return found.pop() if found else None

    def check_identity(self, broker_id: int, cluster_id: str) -> None:
        """Raise ``ClusterIdMismatchError`` or ``BrokerIdMismatchError`` when a directory is another's."""
        for directory in self.directories:
            directory.check_identity(MetaProperties(broker_id, cluster_id))

    def write_meta_properties(self, broker_id: int, cluster_id: str) -> None:
        """Make the directories this broker's; to be called once it is registered."""
        self.check_identity(broker_id, cluster_id)
        now = datetime.fromtimestamp(self.storage.clock.now_ms() / 1000, UTC)
        for directory in self.directories:
            directory.write_identity(MetaProperties(broker_id, cluster_id), f"{now:%a %b %d %H:%M:%S UTC %Y}")

    def load(self, config_of: Callable[[str], LogConfig] | None = None) -> None:
        """Open every log, recovered where the last stop was unclean.

        ``config_of`` gives the configuration of a topic. Raises ``LogDirectoryError`` and ``KafkaStorageError`` with
        a sentence for whoever starts the broker.
        """
        if not self._locked:
            self.lock()
        for directory in self.directories:
            with _usable(directory):
                clean = directory.take_clean_marker()
                checkpoints = directory.read_checkpoints(clean=clean)
                partitions, leftovers = directory.list_partitions()
            if partitions and not clean:
                logger.warning("Recovering %d logs of %s after an unclean stop", len(partitions), directory.path)
            for partition in partitions:
                if partition in self._logs:
                    raise LogDirectoryError(f"{partition} is in two data directories; remove one of its folders")
                config = config_of(partition.topic) if config_of else self.config
                self._open(directory, partition, config, checkpoints.get(partition, Checkpointed(clean)))
            for path in leftovers:
                self.storage.clock.call_later(self.config.file_delete_delay_ms, self._remove_directory, path)

    def _open(
        self, directory: DataDirectory, partition: TopicPartition, config: LogConfig, checkpointed: Checkpointed
    ) -> Log:
        log = Log(partition, directory.partition_path(partition), config, self.storage)
        with as_storage_error(log, "opened"):
            load(log, checkpointed)
        self._logs[partition] = log
        self._directory_of[partition] = directory
        directory.partition_count += 1
        return log

    # logs

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log, if there is one."""
        return self._logs.get(partition)

    def get_or_create(self, partition: TopicPartition, config: LogConfig | None = None) -> Log:
        """Return the log; a new one goes to the directory that holds the fewest."""
        log = self._logs.get(partition)
        if log is not None:
            return log
        directory = min(self.directories, key=lambda each: each.partition_count)
        return self._open(directory, partition, config or self.config, _NEW)

    def delete(self, partition: TopicPartition) -> bool:
        """Take the log out; its files go after ``file.delete.delay.ms``. Return whether there was one."""
        log = self._logs.pop(partition, None)
        if log is None:
            return False
        log.release()
        directory = self._directory_of.pop(partition)
        directory.partition_count -= 1
        doomed = directory.doomed_path(partition)
        self.storage.files.rename(log.directory, doomed)
        self.storage.clock.call_later(log.config.file_delete_delay_ms, self._remove_directory, doomed)
        return True

    def _remove_directory(self, path: str) -> None:
        self.storage.files.remove_directory(path)

    def all_logs(self) -> Iterable[Log]:
        """Return every log."""
        return self._logs.values()

    def directory_of(self, partition: TopicPartition) -> str | None:
        """Return the data directory that a partition is in."""
        directory = self._directory_of.get(partition)
        return directory.path if directory else None

    def directory_sizes(self) -> dict[str, dict[TopicPartition, int]]:
        """Return, for each data directory, the bytes of each partition in it."""
        sizes: dict[str, dict[TopicPartition, int]] = {directory.path: {} for directory in self.directories}
        for partition, log in self._logs.items():
            sizes[self._directory_of[partition].path][partition] = log.size_bytes
        return sizes

    # upkeep: the broker calls these on its timers

    def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None], flusher: Flusher = INLINE) -> None:
        offsets: dict[str, dict[TopicPartition, int]] = {directory.path: {} for directory in self.directories}
        for partition, log in self._logs.items():
            offset = offset_of(log)
            if offset is not None:
                offsets[self._directory_of[partition].path][partition] = offset
        for directory in self.directories:
            directory.write_checkpoint(name, offsets[directory.path], flusher)

    def checkpoint_high_watermarks(self) -> None:
        """Each 5 s (``replica.high.watermark.checkpoint.interval.ms``): too often for requests to wait for the disk."""
        self._checkpoint(HIGH_WATERMARK, lambda log: log.high_watermark, self.storage.flusher)

    def checkpoint_recovery_points(self) -> None:
        """Each 60 s (``log.flush.offset.checkpoint.interval.ms``); then snapshots that nobody needs are removed."""
        self._checkpoint(RECOVERY_POINT, lambda log: log.recovery_point)
        for log in self._logs.values():
            log.delete_old_snapshots()

    def checkpoint_log_start_offsets(self) -> None:
        """Each 60 s (``log.flush.start.offset.checkpoint.interval.ms``): logs that begin within a segment."""
        self._checkpoint(
            LOG_START_OFFSET,
            lambda log: log.log_start_offset if log.log_start_offset > log.segments.first.base_offset else None,
        )

    def flush_due_logs(self) -> None:
        """Each ``log.flush.scheduler.interval.ms``: logs whose ``flush.ms`` is over."""
        now_ms = self.storage.clock.now_ms()
        for log in self._logs.values():
            if now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.flush()

    def remove_expired_producers(self) -> None:
        """Each 10 minutes: forget idempotent producers that have been silent for long."""
        now_ms = self.storage.clock.now_ms()
        for log in self._logs.values():
            log.producer_state.remove_expired(now_ms)

    def shutdown(self) -> None:
        """Make everything durable, write all checkpoints, mark the stop as clean and let go of the directories.

        If the disk refuses that, the stop is not marked and the next start recovers.
        """
        self.storage.flusher.close()
        try:
            self._close_all()
        except OSError as error:
            logger.error("The logs could not be closed cleanly, the next start will recover them: %s", error)
        for directory in self.directories:
            directory.unlock()
        self._logs.clear()
        self._directory_of.clear()
        self._locked = False

    def _close_all(self) -> None:
        sync_in_parallel(self.storage.files, [path for log in self._logs.values() for path in finish(log)])
        for log in self._logs.values():
            finished(log)
        self.checkpoint_recovery_points()
        self._checkpoint(HIGH_WATERMARK, lambda log: log.high_watermark)
        self.checkpoint_log_start_offsets()
        for directory in self.directories:
            directory.mark_clean()
