"""The errors of a test's broker; each message is one line that says what to do."""

from collections.abc import Iterable


class TestingError(Exception):
    """Base of all errors of ``kafkapy.testing``."""

    __test__ = False  # pytest: this is no class of tests


class BrokerStartError(TestingError):
    """The broker can't start as it was asked to: a port in use, a setting that does not exist, a locked directory."""


class BrokerNotRunningError(TestingError):
    """A call needs a running broker, but it was not started, is stopped, or runs in the parent of this process."""


class UnknownNameError(TestingError):
    """There is no topic, partition or group of that name."""


class RequestRefusedError(TestingError):
    """The broker answered with an error; ``code`` is Kafka's."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NotInTimeError(TestingError, TimeoutError):
    """A wait has timed out; the message describes the state at that time."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """An error that suggests the most similar known name, or lists a few."""
    import difflib  # only needed for an error

    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1)
    if nearest:
        return UnknownNameError(f"there is no {kind} {name!r}; did you mean {nearest[0]!r}?")
    some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return UnknownNameError(f"there is no {kind} {name!r}; there is {some or 'none at all'}")
