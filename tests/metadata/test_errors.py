import pytest
from kafka import errors as kafka_errors

from kafkapy.errors import BrokerError
from kafkapy.metadata import errors


def _classes() -> list[type[BrokerError]]:
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, BrokerError) and value is not BrokerError
    ]


def test_each_error_has_its_own_code() -> None:
    codes = [error.error_code for error in _classes()]
    assert len(set(codes)) == len(codes)
    assert all(code > 0 for code in codes)


# kafka-python spells three of Kafka's names differently, and StoreFileError has the code of Kafka's storage errors.
SPELLED = {
    "StoreFile": "KafkaStorage",
    "NotLeaderOrFollower": "NotLeaderForPartition",
    "TopicExists": "TopicAlreadyExists",
    "InvalidReplicaAssignment": "InvalidReplicationAssignment",
}


@pytest.mark.parametrize("error", _classes(), ids=lambda error: error.__name__)
def test_codes_carry_kafkas_names(error: type[BrokerError]) -> None:
    by_code = {kind.errno: kind.__name__ for kind in vars(kafka_errors).values() if hasattr(kind, "errno")}
    ours = error.__name__.removesuffix("Error")
    assert SPELLED.get(ours, ours).lower() in by_code[error.error_code].lower()
