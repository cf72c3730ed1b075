"""The errors of disks, and of directories that another process uses."""

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode


class KafkaStorageError(BrokerError):
    """The disk, or its content, is not usable."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class LogDirectoryError(Exception):
    """The broker can't start on this data directory; the message says what to do."""


class LogDirectoryLockedError(LogDirectoryError):
    """Another process, or another broker in this process, uses the data directory."""
