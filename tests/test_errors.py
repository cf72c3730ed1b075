import pytest

from kafkapy.errors import BrokerError


def test_an_error_without_a_code_is_unknown_server_error() -> None:
    assert BrokerError.error_code == -1


def test_a_subclass_carries_its_own_code_and_sentence() -> None:
    class NoSuchThingError(BrokerError):
        error_code = 3

    with pytest.raises(BrokerError, match="gone") as caught:
        raise NoSuchThingError("gone")
    assert caught.value.error_code == 3
