"""The errors of record batches, each with the error code that Apache Kafka 2.7 answers."""

from collections.abc import Sequence
from typing import ClassVar

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode


class RecordsError(BrokerError):
    """The root of this package's errors."""


class CorruptRecordError(RecordsError):
    """CORRUPT_MESSAGE: the bytes are not a record batch, or their CRC differs. Retriable for a client."""

    error_code: ClassVar[int] = ErrorCode.CORRUPT_MESSAGE


class RecordTooLargeError(RecordsError):
    """MESSAGE_TOO_LARGE: a batch is over ``max.message.bytes``, or its decompressed size is over the bound.

    Java's producer splits the batch and tries again.
    """

    error_code: ClassVar[int] = ErrorCode.MESSAGE_TOO_LARGE


class RecordBatchTooLargeError(RecordsError):
    """RECORD_LIST_TOO_LARGE: a batch is larger than a whole segment."""

    error_code: ClassVar[int] = ErrorCode.RECORD_LIST_TOO_LARGE


class UnsupportedForMessageFormatError(RecordsError):
    """UNSUPPORTED_FOR_MESSAGE_FORMAT: headers, producer ids or transactions for a log of magic 0 or 1."""

    error_code: ClassVar[int] = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnsupportedCompressionTypeError(RecordsError):
    """UNSUPPORTED_COMPRESSION_TYPE: unknown codec, or zstd with an old request version, log format or client."""

    error_code: ClassVar[int] = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class _RejectedRecordsError(RecordsError):
    """A whole batch is refused; ``record_errors`` names the records at fault (KIP-467).

    Each is ``(batch_index, message or None)``; ``batch_index`` counts from the batch's first record.
    """

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str | None]] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class InvalidRecordError(_RejectedRecordsError):
    """INVALID_RECORD: the batch or a record in it breaks a rule; not retriable."""

    error_code: ClassVar[int] = ErrorCode.INVALID_RECORD


class InvalidTimestampError(_RejectedRecordsError):
    """INVALID_TIMESTAMP: a timestamp is too far from the broker's clock, or a producer's batch claims LogAppendTime.

    Only the broker may set that type.
    """

    error_code: ClassVar[int] = ErrorCode.INVALID_TIMESTAMP
