"""Errors of the operating system become Kafka's error and a log line, and the owner of a failed disk is notified.

Two kinds of refusal. One passes: a full disk, a quota, no descriptors or memory left. The producer gets its error,
nothing is acknowledged, and writing goes on as soon as there is room. Apache Kafka takes the whole data directory
offline for these too. Every other one (an input/output error, a file system that is gone or read-only now) means that
the disk can't be trusted: its data directory goes offline until the next start, as in Apache Kafka.

One line for each log and each time that it begins to fail: clients try again many times a second.
"""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from kafkapy.clock import Clock
from kafkapy.storage.errors import KafkaStorageError

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
"""From how long on an fsync is worth a line in the log."""


class DiskListener(Protocol):
    """What is told of refusals: the part of ``log.Storage`` that is needed here."""

    @property
    def clock(self) -> Clock:
        """Measures how long an fsync takes."""

    @property
    def puts_off(self) -> bool:
        """See ``log.Storage``."""

    @property
    def disk_failed(self) -> Callable[[str, OSError], None]:
        """See ``log.Storage``."""


class LogOnDisk(Protocol):
    """What is needed here of a ``log.Log``."""

    @property
    def directory(self) -> str:
        """The partition's folder."""

    @property
    def storage(self) -> DiskListener:
        """Told of refusals."""

    @property
    def is_failing(self) -> bool:
        """See ``log.Log``."""

    def mark_failing(self) -> None:
        """See ``log.Log``."""


def is_passing(error: OSError) -> bool:
    """Tell whether what caused ``error`` can go by itself, so that the same call may succeed later."""
    return error.errno in PASSING


def is_full(error: OSError) -> bool:
    """Tell whether the disk, or the user's share of it, has no space left."""
    return error.errno in NO_SPACE


def put_off(log: LogOnDisk, error: OSError) -> None:
    """A full disk refuses a file of ``log`` that its batches say too: go on with what is in memory, and log it once.

    Raises ``error`` again if it is another one, or if nothing may be put off (``Storage.puts_off``).
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
    """Do ``put_off`` with what the disk refuses within."""
    try:
        yield
    except OSError as error:
        put_off(log, error)


def storage_error(log: LogOnDisk, operation: str, error: OSError) -> KafkaStorageError:
    """Return what to raise for ``error`` of an ``operation`` on ``log``, a participle: read, written, flushed."""
    text = f"{log.directory} can't be {operation}: {error}"
    if not is_passing(error):
        log.storage.disk_failed(log.directory, error)
    elif not log.is_failing:
        logger.error("%s. Clients get KAFKA_STORAGE_ERROR until it succeeds again", text)
    log.mark_failing()
    return KafkaStorageError(text)


def warn_if_slow(log: LogOnDisk, began_s: float, verb: str) -> None:
    """Say that an fsync of ``log``, which began at ``began_s``, takes or took long, if it does or did."""
    taken_s = log.storage.clock.monotonic_s() - began_s
    if taken_s >= SLOW_FSYNC_S:
        logger.warning(
            "An fsync of %s %s %.0f s: acknowledgements are delayed until it ends",
            log.directory,
            verb,
            taken_s,
        )


def file_refused(storage: DiskListener, path: str, error: OSError) -> None:
    """A file of a data directory, which is no log's, can't be written; it will be tried again."""
    logger.error("%s can't be written: %s", path, error)
    if not is_passing(error):
        storage.disk_failed(path, error)


@contextmanager
def as_storage_error(log: LogOnDisk, operation: str) -> Iterator[None]:
    """Raise ``KafkaStorageError`` in the place of ``OSError``. Entering costs a microsecond: not for the hot path."""
    try:
        yield
    except OSError as error:
        raise storage_error(log, operation, error) from error
