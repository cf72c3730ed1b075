"""Which errors end a connection on purpose."""

from kafkapy.network import errors


def test_refusals_are_told_from_bugs() -> None:
    assert issubclass(errors.UnservedRequestError, errors.RefusedError)
    assert issubclass(errors.UnansweredFailureError, errors.RefusedError)
    assert not issubclass(errors.UnencodableResponseError, errors.RefusedError)
