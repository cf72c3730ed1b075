"""Turns errors of the operating system into Kafka's error and a log line, and reports a failed disk.

There are two kinds of errors:

- Errors that pass: a full disk, a quota, no descriptors or memory left. The producer gets an error, nothing is
  acknowledged, and writes succeed again as soon as there is space. (Apache Kafka takes the data directory offline.)
- All others: an input/output error, a file system that is missing or read-only. The disk can't be trusted, so its data
  directory goes offline until the next start, as in Apache Kafka.

A log that begins to fail has one line in the broker's log, not one for each request: clients retry many times a second.
"""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from kafkapy.clock import Clock
from kafkapy.platform.errors import KafkaStorageError

logger: Final = logging.getLogger(__name__)

PASSING: Final = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EINTR,
        errno.ETIMEDOUT,
    )
)

NO_SPACE: Final = frozenset((errno.ENOSPC, errno.EDQUOT))

SLOW_FSYNC_S: Final = 10.0
"""An fsync that takes longer than this is logged."""


class DiskListener(Protocol):
    """The part of ``log.Storage`` that is used here: ``disk_failed`` is called after an error."""

    @property
    def clock(self) -> Clock:
        """Measures how long an fsync takes."""

    @property
    def puts_off(self) -> bool:
        """See ``log.Storage``."""

    def disk_failed(self, path: str, error: OSError) -> None:
        """See ``log.Storage``."""


class LogOnDisk(Protocol):
    """The part of ``log.Log`` that is used here."""

    @property
    def directory(self) -> str:
        """The partition's folder."""

    @property
    def storage(self) -> DiskListener:
        """The storage whose ``disk_failed`` is called after an error."""

    @property
    def is_failing(self) -> bool:
        """See ``log.Log``."""

    def mark_failing(self) -> None:
        """See ``log.Log``."""


def is_passing(error: OSError) -> bool:
    """Return whether the cause of ``error`` is temporary, so that the same call may succeed later."""
    return error.errno in PASSING


def is_full(error: OSError) -> bool:
    """Return whether the disk, or the user's quota, has no space left."""
    return error.errno in NO_SPACE


def put_off(log: LogOnDisk, error: OSError) -> None:
    """Continue without a file of ``log`` that can be rebuilt from its batches, if a full disk refuses it; log it once.

    Raises ``error`` again if the disk is not full, or if no write may be put off (``Storage.puts_off``).
    """
    if not (log.storage.puts_off and is_full(error)):
        raise error
    if not log.is_failing:
        logger.error(
            "%s: the disk is full (%s). Its records are served; index entries, producer snapshot and leader epochs "
            "stay in memory and are written when there is space",
            log.directory,
            error,
        )
    log.mark_failing()


@contextmanager
def putting_off(log: LogOnDisk) -> Iterator[None]:
    """Call ``put_off`` for an ``OSError`` in the block."""
    try:
        yield
    except OSError as error:
        put_off(log, error)


def storage_error(log: LogOnDisk, operation: str, error: OSError) -> KafkaStorageError:
    """Return the error to raise for ``error`` in an ``operation`` on ``log``, a participle: read, written, flushed."""
    text = f"{log.directory} can't be {operation}: {error}"
    if not is_passing(error):
        log.storage.disk_failed(log.directory, error)
    elif not log.is_failing:
        logger.error("%s. Clients get KAFKA_STORAGE_ERROR until it succeeds again", text)
    log.mark_failing()
    return KafkaStorageError(text)


def warn_if_slow(log: LogOnDisk, began_s: float, verb: str) -> None:
    """Log a warning if an fsync of ``log``, which began at ``began_s``, takes or took long."""
    taken_s = log.storage.clock.machine_s() - began_s
    if taken_s >= SLOW_FSYNC_S:
        logger.warning(
            "An fsync of %s %s %.0f s: acknowledgements are delayed until it ends",
            log.directory,
            verb,
            taken_s,
        )


def file_refused(storage: DiskListener, path: str, error: OSError) -> None:
    """Log that a file of a data directory, of no log, can't be written; the write will be tried again."""
    logger.error("%s can't be written: %s", path, error)
    if not is_passing(error):
        storage.disk_failed(path, error)


@contextmanager
def as_storage_error(log: LogOnDisk, operation: str) -> Iterator[None]:
    """Raise ``KafkaStorageError`` for an ``OSError`` in the block. It takes a microsecond: not for each request."""
    try:
        yield
    except OSError as error:
        raise storage_error(log, operation, error) from error
