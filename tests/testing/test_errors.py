"""The texts of errors."""

from kafkapy.testing.errors import NotInTimeError, TestingError, unknown


def test_an_error_suggests_the_nearest_name() -> None:
    assert (
        str(unknown("topic", "flight", ["flights", "other"])) == "there is no topic 'flight'; did you mean 'flights'?"
    )


def test_an_error_lists_some_names_if_none_is_similar() -> None:
    assert str(unknown("group", "x", [])) == "there is no group 'x'; there is none at all"
    many = [f"topic-{letter}" for letter in "abcdefghijklm"]
    assert str(unknown("topic", "x", many)).endswith("topic-j, …")


def test_a_wait_that_fails_is_a_timeout() -> None:
    assert issubclass(NotInTimeError, TimeoutError)
    assert issubclass(NotInTimeError, TestingError)
