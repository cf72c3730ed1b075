import pytest

from kafkapy.errors import BrokerError


def test_an_unnamed_error_goes_out_as_unknown_server_error() -> None:
    assert BrokerError.error_code == -1


def test_a_subclass_carries_its_own_code_and_sentence() -> None:
    class NoSuchThingError(BrokerError):
        error_code = 3

    with pytest.raises(BrokerError, match="gone") as caught:
        raise NoSuchThingError("gone")
    assert caught.value.error_code == 3
