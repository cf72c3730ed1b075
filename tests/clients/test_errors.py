"""A client's errors are sentences for the person who asked."""

import pytest

from kafkapy.clients.errors import RequestFailedError, check


def test_zero_is_no_error() -> None:
    check(0, "whatever")


@pytest.mark.parametrize(
    ("code", "message", "what", "text"),
    [
        (36, "Topic 'a' already exists.", "topic a", "topic a: Topic 'a' already exists. (TOPIC_ALREADY_EXISTS)"),
        (3, None, "topic a", "topic a does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (3, "This server does not host it.", "topic a", "topic a does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (69, None, "group g", "group g does not exist (GROUP_ID_NOT_FOUND)"),
        (40, None, "", "Invalid config. (INVALID_CONFIG)"),
        (9999, None, "topic a", "topic a: error 9999"),
        (9999, "odd", "", "odd (error 9999)"),
    ],
)
def test_an_error_has_its_object_its_reason_and_its_name(code: int, message: str | None, what: str, text: str) -> None:
    with pytest.raises(RequestFailedError) as failed:
        check(code, message, what=what)
    assert failed.value.code == code
    assert str(failed.value).endswith(text.partition(" (")[2])
    assert str(failed.value) == text or message is None
