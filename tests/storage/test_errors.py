from kafkapy.errors import BrokerError
from kafkapy.storage import errors


def test_codes_are_kafkas() -> None:
    codes = {
        errors.OffsetOutOfRangeError: 1,
        errors.OutOfOrderSequenceError: 45,
        errors.InvalidProducerEpochError: 47,
        errors.InvalidTxnStateError: 48,
        errors.TransactionCoordinatorFencedError: 52,
        errors.KafkaStorageError: 56,
        errors.CorruptIndexError: 56,
    }
    assert {kind: kind.error_code for kind in codes} == codes
    assert all(issubclass(kind, BrokerError) for kind in codes)


def test_start_errors_have_no_error_code() -> None:
    assert not issubclass(errors.LogDirectoryError, BrokerError)
    assert issubclass(errors.ClusterIdMismatchError, errors.LogDirectoryError)
