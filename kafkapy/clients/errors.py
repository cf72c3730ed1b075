"""The errors of clients."""

from typing import Final

from kafkapy.protocol.errors import ErrorCode


class ClientError(Exception):
    """A request failed; the message is a sentence for the user."""


class NoBrokerError(ClientError):
    """No broker could be reached, or the connection broke."""


class NotAuthenticatedError(ClientError):
    """The broker does not accept the client's credentials, or the client does not trust the broker."""


class NotServedError(ClientError):
    """The broker does not serve a request in any version that kafkapy supports."""


_MISSING: Final = {"topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "group": ErrorCode.GROUP_ID_NOT_FOUND}
"""The error code for an object of this kind that does not exist; Kafka's messages for it differ."""


class RequestFailedError(ClientError):
    """The broker answered with an error code; ``what`` names the object of the request, its kind first."""

    def __init__(self, code: int, message: str | None = None, *, what: str = "") -> None:
        known = code in set(ErrorCode)
        self.code = code
        self.code_name = ErrorCode(code).name if known else f"error {code}"
        if _MISSING.get(what.partition(" ")[0]) == code:
            super().__init__(f"{what} does not exist ({self.code_name})")
            return
        text = message or (ErrorCode(code).message if known else "")
        super().__init__(": ".join(filter(None, (what, f"{text} ({self.code_name})" if text else self.code_name))))


def check(code: int, message: str | None = None, *, what: str = "") -> None:
    """Raise RequestFailedError unless ``code`` is 0; ``what`` names the object of the request."""
    if code != 0:
        raise RequestFailedError(code, message, what=what)
