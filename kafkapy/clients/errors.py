"""The errors of clients."""

from kafkapy.protocol.errors import ErrorCode


class ClientError(Exception):
    """A request failed; the message is a sentence for the user."""


class NoBrokerError(ClientError):
    """No broker could be reached, or the connection broke."""


class RequestFailedError(ClientError):
    """The broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None, *, what: str = "") -> None:
        known = code in set(ErrorCode)
        self.code = code
        self.code_name = ErrorCode(code).name if known else f"error {code}"
        text = message or (ErrorCode(code).message if known else "")
        super().__init__(": ".join(filter(None, (what, f"{text} ({self.code_name})" if text else self.code_name))))


def check(code: int, message: str | None = None, *, what: str = "") -> None:
    """Raise RequestFailedError unless ``code`` is 0; ``what`` names the object of the request."""
    if code != 0:
        raise RequestFailedError(code, message, what=what)
