"""What the system refuses (a full disk, a broken one, no descriptors left) becomes Kafka's error and a logged line.

One line for each log and each time that it begins to fail: clients try again many times a second.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkapy.storage.errors import KafkaStorageError

if TYPE_CHECKING:
    from kafkapy.storage.log import Log

logger: Final = logging.getLogger(__name__)


def storage_error(log: "Log", deed: str, error: OSError) -> KafkaStorageError:
    """Return what to raise for ``error``, which came when ``log`` was to be ``deed``: read, written, flushed."""
    text = f"{log.directory} can't be {deed}: {error}"
    if not log.is_failing:
        log.is_failing = True
        logger.error("%s. Clients get KAFKA_STORAGE_ERROR until the disk is well again", text)
    return KafkaStorageError(text)


@contextmanager
def as_storage_error(log: "Log", deed: str) -> Iterator[None]:
    """Raise ``KafkaStorageError`` in the place of ``OSError``. Entering costs a microsecond: not for the hot path."""
    try:
        yield
    except OSError as error:
        raise storage_error(log, deed, error) from error
