"""The errors of logs and data directories; those of requests have the error code that Apache Kafka 2.7 answers."""

from kafkapy.errors import BrokerError
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.validate import CheckedBatch


class OffsetOutOfRangeError(BrokerError):
    """The offset is below the log's start or above its end."""

    error_code = ErrorCode.OFFSET_OUT_OF_RANGE


class InconsistentTopicIdError(BrokerError):
    """The topic of this name has another id than is expected: it was deleted, and created again (KIP-516)."""

    error_code = ErrorCode.INCONSISTENT_TOPIC_ID


class OutOfOrderSequenceError(BrokerError):
    """An idempotent producer's batch doesn't follow its last one (KIP-98)."""

    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(BrokerError):
    """A newer instance of the producer has written to this partition."""

    error_code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(BrokerError):
    """A producer wrote outside the transaction that it has open here."""

    error_code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(BrokerError):
    """A marker comes from a coordinator that has been replaced."""

    error_code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class LogDirNotFoundError(BrokerError):
    """The path is none of the broker's data directories (KIP-113)."""

    error_code = ErrorCode.LOG_DIR_NOT_FOUND


class UnrecalledBatchError(Exception):
    """A client's batch may repeat one that a snapshot leaves out, and the search for it may take long.

    Nothing was written. Run ``Log.recall_batches``, then append ``checked``. The validation may have changed the batch
    in place, so it must not be validated again.
    """

    def __init__(self, checked: CheckedBatch) -> None:
        super().__init__("earlier batches of the producer are to be looked up")
        self.checked = checked


class UnverifiedBatchError(Exception):
    """A client's batch would begin a transaction here, and its coordinator has not confirmed the transaction.

    Nothing was written. Ask the coordinator, then append ``checked``, which has the guard of this verification. The
    validation may have changed the batch in place, so it must not be validated again.
    """

    def __init__(self, checked: CheckedBatch) -> None:
        super().__init__("the coordinator has to confirm the transaction")
        self.checked = checked


class UnexpectedAppendOffsetError(BrokerError):
    """A follower received batches that don't continue its log."""


class CorruptIndexError(KafkaStorageError):
    """An index can't be right; it is rebuilt from the segment."""


class CorruptSnapshotError(KafkaStorageError):
    """A producer snapshot fails its checks; an older one is used, and the batches after it are replayed."""


class MalformedCheckpointError(KafkaStorageError):
    """A checkpoint file's text doesn't follow its format."""


class UnknownIdentityVersionError(LogDirectoryError):
    """``meta.properties`` is of a version that this broker doesn't know."""


class IdentityMismatchError(LogDirectoryError):
    """The data directory belongs to another cluster or broker."""


class ClusterIdMismatchError(IdentityMismatchError):
    """``meta.properties`` names another cluster."""


class BrokerIdMismatchError(IdentityMismatchError):
    """``meta.properties`` names another broker."""


class ForeignDirectoryError(LogDirectoryError):
    """A folder of the data directory is not a partition's."""
