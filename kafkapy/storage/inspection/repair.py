"""Repairs data directories without a broker: does what a start would do and lists the changes; or does a dry run."""

import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import CLEANER, RECOVERY_POINT, OffsetCheckpoint
from kafkapy.storage.data_directory import CLEAN_SHUTDOWN_NAME, LOCK_NAME, WITHOUT_CHECKPOINT
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.storage.inspection.overlay import Action, RecordingFiles, ShadowFiles
from kafkapy.storage.log.log import Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs

logger: Final = logging.getLogger(__name__)

_OWN_BUSINESS = (CLEAN_SHUTDOWN_NAME, LOCK_NAME, f"{RECOVERY_POINT}.tmp")


class Repaired(NamedTuple):
    """The changes that were (or would be) made, and the messages that the log's code logged."""

    actions: list[Action]
    reasons: list[str]


class _NoTimers:
    """A clock whose timers never fire: files that are to be removed later stay for the next start."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock.now_ms
        self.monotonic_s = clock.monotonic_s
        self.machine_s = clock.machine_s
        self.sleep = clock.sleep

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> TimerHandle:  # noqa: ARG002
        """Do nothing."""
        return self

    def cancel(self) -> None:
        """Do nothing: the timer never fires."""


class _Reasons(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def repair(
    directories: Sequence[str],
    clock: Clock,
    config_of: Callable[[str], LogConfig],
    *,
    whole: bool,
    dry_run: bool,
    progress: Callable[[int], object] = lambda _bytes: None,
) -> Repaired:
    """Open the logs of ``directories`` as a start does, and close them as a clean stop does.

    With ``whole`` every segment is read, otherwise those that a start would read. With ``dry_run`` no file is changed.
    ``progress`` is called with the number of bytes of each read.
    Raises ``LogDirectoryLockedError`` when a broker is running, and as a start does ``LogDirectoryError``,
    ``KafkaStorageError``, ``OSError``.
    """
    if not dry_run:
        return _run(RecordingFiles(progress), directories, clock, config_of, whole=whole)
    held = [Files().lock(f"{directory}/{LOCK_NAME}") for directory in directories]
    with tempfile.TemporaryDirectory(prefix="kafkapy-repair-") as top:
        files = ShadowFiles(progress)
        shadows = [f"{top}/{number}-" for number in range(len(directories))]
        for directory, shadow in zip(directories, shadows, strict=True):
            files.add_directory(directory, shadow)
        real = partial(_real, shadows, directories)
        try:
            found = _run(files, shadows, clock, config_of, whole=whole)
        except (LogDirectoryError, KafkaStorageError) as error:
            raise type(error)(real(str(error))) from error
    held.clear()
    return Repaired(
        [each._replace(path=real(each.path)) for each in found.actions], [real(each) for each in found.reasons]
    )


def _run(
    files: RecordingFiles,
    directories: Sequence[str],
    clock: Clock,
    config_of: Callable[[str], LogConfig],
    *,
    whole: bool,
) -> Repaired:
    logs = LogManager(directories, LogConfig(), clock, storage=Storage(_NoTimers(clock), files))
    reasons = _Reasons()
    storage_logger = logging.getLogger("kafkapy.storage")
    propagates, storage_logger.propagate = storage_logger.propagate, False
    storage_logger.addHandler(reasons)
    try:
        logs.lock()
        if whole:
            for directory in directories:
                files.remove(f"{directory}/{CLEAN_SHUTDOWN_NAME}")
                files.remove(f"{directory}/{RECOVERY_POINT}")
            files.forget()
        load_logs(logs, config_of)
        for each in logs.directories.online:
            _repair_cleaner_checkpoint(logs, each.path)
        failures = [f"{each.path}: {each.failure}" for each in logs.directories if each.failure is not None]
        logs.shutdown()
    finally:
        logs.directories.unlock()
        storage_logger.removeHandler(reasons)
        storage_logger.propagate = propagates
    if failures:
        raise LogDirectoryError("; ".join(failures))
    done = [each for each in files.done() if os.path.basename(each.path) not in _OWN_BUSINESS]
    return Repaired(done, reasons.said)


def _repair_cleaner_checkpoint(logs: LogManager, directory: str) -> None:
    """Remove the offsets that a start would not trust; without a cleaner nothing else writes this checkpoint."""
    files = logs.storage.files
    checkpoint = OffsetCheckpoint(files, f"{directory}/{CLEANER}")
    try:
        found = checkpoint.read()
    except MalformedCheckpointError as error:
        logger.warning("%s; going on without it: %s", error, WITHOUT_CHECKPOINT[CLEANER])
        files.remove(checkpoint.path)
        return
    believed = {
        partition: offset
        for partition, offset in found.items()
        if (log := logs.get(partition)) is not None and 0 <= offset <= log.log_end_offset
    }
    if believed != found:
        logger.warning("%s has offsets above the ends of their logs", checkpoint.path)
        checkpoint.write(believed)


def _real(shadows: Sequence[str], directories: Sequence[str], text: str) -> str:
    """Replace the names of shadows in a text by those of the real files."""
    for shadow, directory in zip(shadows, directories, strict=True):
        text = text.replace(shadow, directory.rstrip("/"))
    return text
