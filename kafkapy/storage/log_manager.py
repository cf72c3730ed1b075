"""All logs of a broker in its data directories."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.disk_errors import as_storage_error, file_refused
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import files_removal, folder_removal
from kafkapy.platform.flusher import INLINE, Flusher, sync_in_parallel
from kafkapy.storage.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT, Checkpointed
from kafkapy.storage.data_directories import DataDirectories
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.retention import delete_old_segments
from kafkapy.storage.log.segment import DELETED_SUFFIX
from kafkapy.storage.lowered_checkpoints import forget_checkpoints, lower_checkpoints
from kafkapy.storage.recovery.recovery import load as load_log
from kafkapy.turns import Steps, finish, while_true
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

_NEW: Final = Checkpointed(is_new=True)
_CHECKPOINTED: Final[dict[str, Callable[[Log], int | None]]] = {
    RECOVERY_POINT: lambda log: log.recovery_point,
    HIGH_WATERMARK: lambda log: log.high_watermark,
    LOG_START_OFFSET: lambda log: (
        log.log_start_offset
        if log.log_start_offset > log.segments.first.base_offset or log.segments.first.log.is_missing
        else None
    ),
}
MOVES_CHECKPOINT_MS: Final = 1_000
"""Time after a move until the checkpoints are written, so that many moves share them."""
MAX_PREFERENCES: Final = 20_000
"""How many partitions that are not here yet may have a preferred directory; the oldest preference is dropped first."""

DirectoryListener = Callable[[str, Sequence[TopicPartition]], None]
"""Called with the path of a data directory that has failed, and the partitions that were in it."""


class Compactor(Protocol):
    """The part of ``LogCleaner`` that is used here."""

    def is_compacting(self, partition: TopicPartition) -> bool:
        """Tell whether the partition's log is being compacted."""

    def about_to_cut(self, log: Log, offset: int) -> None:
        """Abort the compaction of ``log`` before its records from ``offset`` on, or all, are removed."""

    def log_moved(self, partition: TopicPartition) -> None:
        """Note that a future replica has replaced the current log, in another data directory."""


class NoCompactor:
    """For a broker without a cleaner."""

    def is_compacting(self, _partition: TopicPartition) -> bool:
        """See ``Compactor``."""
        return False

    def about_to_cut(self, _log: Log, _offset: int) -> None:
        """See ``Compactor``."""

    def log_moved(self, _partition: TopicPartition) -> None:
        """See ``Compactor``."""


class LogManager:
    """Opens, finds, creates and deletes logs; writes the checkpoints on request.

    A data directory whose disk fails goes offline, at the start or later: its logs are removed from the manager, the
    directory listener is called, and the other directories stay in use.

    A partition that is being moved has two logs here (KIP-113): the current one, and a *future replica* in another data
    directory, which is a copy that is not complete yet. ``replication.log_dir_moves`` copies the records. Until the
    future replica replaces the current log, neither retention nor compaction deletes records of the partition.

    It is the ``LogOwner`` of its storage. ``log_manager_start`` loads the logs.
    """

    def __init__(
        self, log_dirs: Sequence[str], config: LogConfig, clock: Clock, *, storage: Storage | None = None
    ) -> None:
        self.config = config
        self.storage = storage or Storage(clock)
        self.storage.set_owner(self)
        self.directories = DataDirectories(self.storage.files, log_dirs)
        self._logs: dict[TopicPartition, Log] = {}
        self._directory_of: dict[TopicPartition, DataDirectory] = {}
        self._futures: dict[TopicPartition, Log] = {}
        self._preferred: dict[TopicPartition, DataDirectory] = {}
        self._move_timer: TimerHandle | None = None
        self._let_go: set[str] = set()
        self._directory_listener: DirectoryListener | None = None
        self._compactor: Compactor = NoCompactor()

    def set_directory_listener(self, listener: DirectoryListener) -> None:
        """Have ``listener`` called when a data directory has failed; set once, after the objects that use the logs."""
        assert self._directory_listener is None, "one listener takes the partitions offline"
        self._directory_listener = listener

    def set_compactor(self, compactor: Compactor) -> None:
        """Set the cleaner, once, when it starts."""
        assert isinstance(self._compactor, NoCompactor), "a broker has one cleaner"
        self._compactor = compactor

    # the logs' owner

    def disk_failed(self, path: str, error: OSError) -> None:
        """Take the data directory of ``path`` offline after an error that does not pass (``disk_errors``)."""
        directory = self.directories.containing(path)
        if directory is not None and directory.failure is None:
            # The code that met the error still uses the log: the directory goes offline after it.
            directory.failure = str(error)
            self.storage.clock.call_later(0, self._take_offline, directory)

    def offsets_fall(self, log: Log) -> None:
        """See ``LogOwner``."""
        lower_checkpoints(self, log)

    def about_to_cut(self, log: Log, offset: int) -> None:
        """See ``LogOwner``."""
        self._compactor.about_to_cut(log, offset)

    # start

    def lock(self) -> MetaProperties | None:
        """See ``DataDirectories.lock``."""
        return self.directories.lock(self.fail)

    def open(
        self, directory: DataDirectory, partition: TopicPartition, config: LogConfig, checkpointed: Checkpointed
    ) -> Log:
        """Open one log, made if it is missing; raises ``KafkaStorageError``."""
        log = self._open(directory, directory.partition_path(partition), partition, config, checkpointed)
        self._logs[partition] = log
        self._directory_of[partition] = directory
        return log

    def open_future(
        self,
        directory: DataDirectory,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        checkpointed: Checkpointed,
    ) -> Log:
        """Open the future replica in the folder ``path``, made if it is missing; raises ``KafkaStorageError``."""
        log = self._futures[partition] = self._open(directory, path, partition, config, checkpointed)
        return log

    def _open(
        self,
        directory: DataDirectory,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        checkpointed: Checkpointed,
    ) -> Log:
        log = Log(partition, path, config, self.storage)
        with as_storage_error(log, "opened"):
            if checkpointed is _NEW:
                forget_checkpoints(self, directory, partition)
            if checkpointed is _NEW and not self.storage.files.exists(path):
                log.create()
            else:  # a new log may have the files of a creation that the disk has refused
                load_log(log, checkpointed)
        directory.partition_count += 1
        return log

    # failed directories

    def fail(self, directory: DataDirectory, error: OSError) -> None:
        """Take ``directory`` offline now."""
        directory.failure = str(error)
        self._take_offline(directory)

    def _take_offline(self, directory: DataDirectory) -> None:
        if directory.path in self._let_go:
            return  # the directory failed during the start, which has reported it
        self._let_go.add(directory.path)
        partitions = [each for each, home in self._directory_of.items() if home is directory]
        for partition in partitions:
            del self._directory_of[partition]
            log = self._logs.pop(partition)
            self.about_to_cut(log, 0)
            log.release()
        copies = [each for each, future in self._futures.items() if self._home_of(future) is directory]
        for partition in copies:
            self._futures.pop(partition).release()
        directory.unlock()
        if copies:
            logger.error(
                "The copies of %d partitions to %s, which had not ended, are given up", len(copies), directory.path
            )
        logger.error(
            "The data directory %s is offline until the next start, with its %d partitions: %s. %s",
            directory.path,
            len(partitions),
            directory.failure,
            "The others stay in use" if self.directories.online else "It was the last one",
        )
        if self._directory_listener is not None:
            self._directory_listener(directory.path, partitions)

    # logs

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log, if there is one."""
        return self._logs.get(partition)

    def get_or_create(self, partition: TopicPartition, config: LogConfig | None = None, *, is_new: bool = True) -> Log:
        """Return the log; a new log is created in the online directory with the fewest logs.

        A log that is not known to be new may be in a directory that is offline: then it is not created. Raises
        ``KafkaStorageError``.
        """
        log = self._logs.get(partition)
        if log is not None:
            return log
        if not is_new and self.directories.offline:
            raise KafkaStorageError(f"{partition} may be in a data directory that is offline")
        refusal = KafkaStorageError("all data directories are offline")
        for directory in self._directories_for(partition):
            try:
                log = self.open(directory, partition, config or self.config, _NEW)
            except KafkaStorageError as error:
                refusal = error
            else:
                self._preferred.pop(partition, None)
                return log
        raise refusal

    def _directories_for(self, partition: TopicPartition) -> list[DataDirectory]:
        """Return the directories in which a new log may be created, the best one first.

        Raises ``KafkaStorageError`` if the preferred one is offline.
        """
        preferred = self._preferred.get(partition)
        if preferred is not None:
            self.directories.named(preferred.absolute_path)
            return [preferred]
        future = self._futures.get(partition)
        taken = None if future is None else self._home_of(future)
        free = [directory for directory in self.directories.online if directory is not taken]
        if not free and self.discard_future(partition):
            return self.directories.online
        return sorted(free, key=lambda each: each.partition_count)

    def delete(self, partition: TopicPartition) -> bool:
        """Delete the log; its files are removed after ``file.delete.delay.ms``. Return whether there was one."""
        log = self._logs.pop(partition, None)
        if log is None:
            return self.discard_future(partition)
        directory = self._directory_of.pop(partition)
        directory.partition_count -= 1
        doomed = directory.deleted_path(partition)
        self.about_to_cut(log, 0)
        with as_storage_error(log, "deleted"):
            log.release()
            self.storage.files.rename(log.directory, doomed)
        self._detach_later(log, doomed)
        self.discard_future(partition)
        return True

    def remove_later(self, path: str, delay_ms: int | None = None) -> None:
        """Remove a folder after ``delay_ms``, ``file.delete.delay.ms`` by default."""
        self.storage.clock.call_later(
            self.config.file_delete_delay_ms if delay_ms is None else delay_ms, self._remove_directory, path
        )

    def _remove_directory(self, path: str) -> None:
        def remove() -> Iterator[None]:
            try:
                yield from folder_removal(self.storage.files, path)
            except OSError as error:
                logger.warning("%s can't be removed now, the next start will try again: %s", path, error)

        self.storage.flusher.run_gently(remove())

    def all_logs(self) -> Iterable[Log]:
        """Return every log."""
        return self._logs.values()

    def directory_of(self, partition: TopicPartition) -> str | None:
        """Return the data directory that a partition is in."""
        directory = self._directory_of.get(partition)
        return directory.path if directory else None

    def partitions_in(self, path: str) -> list[TopicPartition]:
        """Return the partitions whose logs are in the data directory ``path``, sorted."""
        return sorted(partition for partition in self._logs if self._directory_of[partition].path == path)

    # moves between data directories (KIP-113)

    def future(self, partition: TopicPartition) -> Log | None:
        """Return the future replica, if the partition is being moved."""
        return self._futures.get(partition)

    def future_logs(self) -> Iterable[Log]:
        """Return every future replica."""
        return self._futures.values()

    def _home_of(self, log: Log) -> DataDirectory:
        directory = self.directories.containing(log.directory)
        assert directory is not None, "a log is in one of the data directories"
        return directory

    def futures_in(self, path: str) -> list[TopicPartition]:
        """Return the partitions that are being moved to the data directory ``path``, sorted."""
        return sorted(each for each, future in self._futures.items() if self._home_of(future).path == path)

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """Have the partition's log, or its future replica, created in the data directory ``path`` when it is created.

        A preference is kept in memory until it is used; one for the directory in which the partition is, or to which it
        is being moved, is not kept. Raises what ``DataDirectories.named`` raises.
        """
        directory = self.directories.named(path)
        future = self._futures.get(partition)
        self._preferred.pop(partition, None)
        if self._directory_of.get(partition) is directory or (future and self._home_of(future) is directory):
            return
        if len(self._preferred) >= MAX_PREFERENCES:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[partition] = directory

    def is_moving_elsewhere(self, partition: TopicPartition, path: str) -> bool:
        """Tell whether the partition is being moved to another data directory than ``path``; raises as ``prefer``."""
        directory, future = self.directories.named(path), self._futures.get(partition)
        return future is not None and self._home_of(future) is not directory

    def create_future(self, partition: TopicPartition) -> Log | None:
        """Create the future replica in the preferred directory, and abort a compaction of the current log.

        Return None if the partition has no preferred directory, since it is there or is being moved there already.
        Raises ``KafkaStorageError``, also while a data directory is offline: it may hold another future replica.
        """
        directory = self._preferred.get(partition)
        current = self._logs.get(partition)
        if directory is None or current is None:
            return None
        if self.directories.offline:
            raise KafkaStorageError(f"{partition} can't be moved while a data directory is offline")
        future = self.open_future(directory, directory.future_path(partition), partition, current.config, _NEW)
        future.assign_topic_id(current.topic_id)
        del self._preferred[partition]
        self.about_to_cut(current, current.log_end_offset)
        return future

    def discard_future(self, partition: TopicPartition) -> bool:
        """Stop a move: delete the future replica, if there is one. Its files are removed later."""
        future = self._futures.pop(partition, None)
        if future is None:
            return False
        directory = self._home_of(future)
        directory.partition_count -= 1
        path = future.directory
        future.release()
        doomed = directory.deleted_path(partition)
        try:
            self.storage.files.rename(path, doomed)
        except OSError as error:
            file_refused(self.storage, path, error)  # the next start finds the folder, and copying continues
        else:
            self._detach_later(future, doomed)
        return True

    def replace_with_future(self, partition: TopicPartition) -> Log:
        """Replace the current log by the future replica, which has the same records, and return that.

        The folder of the future replica gets the partition's name, the one of the old log is removed later. A crash
        between the two leaves two folders of the partition, with the same records: the next start refuses them, as
        Apache Kafka does. Raises ``KafkaStorageError``; then nothing has changed.
        """
        current, future = self._logs[partition], self._futures[partition]
        assert current.log_end_offset == future.log_end_offset, (current, future)
        source, target = self._directory_of[partition], self._home_of(future)
        path, doomed = future.directory, source.deleted_path(partition)
        with as_storage_error(future, "renamed"):
            dropped = [name for name, _ in self.storage.files.list_directory(path) if name.endswith(DELETED_SUFFIX)]
            future.rename_directory(target.partition_path(partition))
        with as_storage_error(current, "renamed"):
            try:
                current.rename_directory(doomed)
            except OSError:
                with as_storage_error(future, "renamed"):
                    future.rename_directory(path)
                raise
        del self._futures[partition]
        self._logs[partition] = future
        self._directory_of[partition] = target
        source.partition_count -= 1
        future.update_high_watermark(current.high_watermark)
        current.release()
        self._detach_later(current, doomed)
        self._sync_names(target, source)
        # The timers that remove dropped segments have their former paths. No reader has these files: the log had none.
        paths = [f"{future.directory}/{name}" for name in dropped]
        self.storage.flusher.run_gently(files_removal(self.storage.files, paths))
        self._compactor.log_moved(partition)
        if self._move_timer is None:
            self._move_timer = self.storage.clock.call_later(MOVES_CHECKPOINT_MS, self._checkpoint_moves)
        return future

    def _checkpoint_moves(self) -> None:
        """Write the checkpoints after one or many moves: the moved logs are in others now."""
        self._move_timer = None
        for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET):
            self._checkpoint(name, self.storage.flusher)

    def _cancel_checkpoint(self) -> None:
        if self._move_timer is not None:
            self._move_timer.cancel()
            self._move_timer = None

    def _detach_later(self, log: Log, doomed: str) -> None:
        self.remove_later(doomed, log.config.file_delete_delay_ms)
        self.storage.clock.call_later(log.config.file_delete_delay_ms, self._detach, log)

    def _detach(self, log: Log) -> None:
        if log.forget_segments():
            self.storage.clock.call_later(0, self._detach, log)
        else:
            log.detach()

    def _sync_names(self, *directories: DataDirectory) -> None:
        """Fsync the names in ``directories``, one after the other, in a thread."""

        def sync() -> None:
            for directory in directories:
                try:
                    self.storage.files.sync_path(directory.path)
                except OSError as error:
                    refused.append((directory.path, error))

        def done() -> None:
            for path, error in refused:
                file_refused(self.storage, path, error)

        refused: list[tuple[str, OSError]] = []
        self.storage.flusher.run(sync, done)

    # upkeep: the broker calls these on its timers

    def offsets(self, name: str) -> dict[str, dict[TopicPartition, int]]:
        """Return, for each data directory, the present content of its checkpoint ``name``."""
        offset_of = _CHECKPOINTED[name]
        offsets: dict[str, dict[TopicPartition, int]] = {directory.path: {} for directory in self.directories}
        for partition, log in self._logs.items():
            offset = offset_of(log)
            if offset is not None:
                offsets[self._directory_of[partition].path][partition] = offset
        for partition, future in self._futures.items():
            offset = offset_of(future)
            if offset is not None:
                offsets[self._home_of(future).path].setdefault(partition, offset)
        return offsets

    def _checkpoint(self, name: str, flusher: Flusher = INLINE) -> None:
        offsets = self.offsets(name)
        for directory in self.directories.online:
            refused = partial(file_refused, self.storage, f"{directory.path}/{name}")
            directory.write_checkpoint(name, offsets[directory.path], flusher, refused)

    def checkpoint_high_watermarks(self) -> None:
        """Each 5 s (``replica.high.watermark.checkpoint.interval.ms``): write the high watermarks, in a thread."""
        self._checkpoint(HIGH_WATERMARK, self.storage.flusher)

    def checkpoint_recovery_points(self) -> Steps[None]:
        """Each 60 s (``log.flush.offset.checkpoint.interval.ms``): write the recovery points, remove old snapshots."""
        self._checkpoint(RECOVERY_POINT, self.storage.flusher)
        for log in self._online_logs():
            yield
            is_here = partial(self._has, log)
            with suppress(KafkaStorageError), as_storage_error(log, "cleared of old snapshots"):
                yield from while_true(is_here, log.delete_old_snapshots())
            if is_here():
                log.durability.resume()

    def checkpoint_log_start_offsets(self) -> None:
        """Each 60 s (``log.flush.start.offset.checkpoint.interval.ms``): write the starts that are within a segment."""
        self._checkpoint(LOG_START_OFFSET, self.storage.flusher)

    def _online_logs(self) -> Iterator[Log]:
        """Yield the logs one by one; logs that are deleted or go offline between two steps are left out."""
        for logs in (self._logs, self._futures):
            for partition, log in tuple(logs.items()):
                if logs.get(partition) is log:
                    yield log

    def _has(self, log: Log) -> bool:
        return any(logs.get(log.topic_partition) is log for logs in (self._logs, self._futures))

    def flush_due_logs(self) -> None:
        """Each ``log.flush.scheduler.interval.ms``: flush logs after ``flush.ms``."""
        now_ms = self.storage.clock.now_ms()
        for log in (*self._logs.values(), *self._futures.values()):
            if now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.durability.flush_later(log.log_end_offset)

    def enforce_retention(self) -> Steps[None]:
        """Each ``log.retention.check.interval.ms``: delete old segments.

        The cleaner does this for compacted logs, as in Apache Kafka; without a cleaner nothing of them is deleted. A
        log that is being compacted, or moved to another data directory, is skipped until the next time. An error of one
        log's disk is logged and does not affect the others.
        """
        for log in self._online_logs():
            yield
            yield from self.trim(log, compacted=False)

    def trim(self, log: Log, *, compacted: bool) -> Steps[None]:
        """Delete the old segments of ``log``, in steps, if it is ``compacted`` or not, as the caller expects.

        A log that is being compacted or moved, or that was removed, is left as it is; this may change between two
        steps. An error of the disk has been logged.
        """

        def may_go_on() -> bool:
            partition = log.topic_partition
            is_busy = self._compactor.is_compacting(partition) or partition in self._futures
            return self._logs.get(partition) is log and not is_busy and log.config.compact == compacted

        if may_go_on():
            with suppress(KafkaStorageError):
                yield from while_true(may_go_on, delete_old_segments(log))

    def remove_expired_producers(self) -> Steps[None]:
        """Each 10 minutes: remove idempotent producers that have written nothing for long."""
        now_ms = self.storage.clock.now_ms()
        for log in self._online_logs():
            yield
            yield from log.producer_state.remove_expired(now_ms)

    def shutdown(self) -> None:
        """Make everything durable, write all checkpoints, mark the stop as clean and unlock the directories.

        A directory with an error of its disk is not marked, and the next start recovers its logs.
        """
        self._cancel_checkpoint()
        self.storage.flusher.close()
        self._close_all()
        self.directories.unlock()
        self._logs.clear()
        self._futures.clear()
        self._directory_of.clear()

    def _close_all(self) -> None:
        """Close every log and mark the data directories without errors as clean."""
        by_directory: dict[str, list[Log]] = {}
        for partition, log in self._logs.items():
            by_directory.setdefault(self._directory_of[partition].path, []).append(log)
        for future in self._futures.values():
            by_directory.setdefault(self._home_of(future).path, []).append(future)
        for directory in self.directories.online:
            try:
                self._close_directory(directory, by_directory.get(directory.path, []))
            except OSError as error:
                logger.error(
                    "The logs of %s could not be closed cleanly, the next start will recover them: %s",
                    directory.path,
                    error,
                )

    def _close_directory(self, directory: DataDirectory, held: list[Log]) -> None:
        sync_in_parallel(self.storage.files, [path for log in held for path in log.prepare_close()])
        for log in held:
            log.finish_close()
            finish(log.delete_old_snapshots())
        for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET):
            directory.write_checkpoint(name, self.offsets(name)[directory.path], INLINE)
        directory.mark_clean()

    def abandon(self) -> None:
        """Release every log and directory without writing, as if the process was killed; the next start recovers."""
        self._cancel_checkpoint()
        self.storage.flusher.close()
        for log in (*self._logs.values(), *self._futures.values()):
            log.release()
        self.directories.unlock()
