"""What is refused in a configuration, with the code that goes on the wire."""

from typing import ClassVar

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode


class InvalidConfigError(BrokerError):
    """A key that does not exist or a value that its key does not allow (INVALID_CONFIG)."""

    error_code: ClassVar[int] = ErrorCode.INVALID_CONFIG


class InvalidValueError(InvalidConfigError):
    """A value that its key does not allow; AlterConfigs answers it otherwise than the rest (42, not 40)."""


class InvalidAlterationError(BrokerError):
    """A change of configuration that can't be made as it was asked for (INVALID_REQUEST)."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REQUEST


def invalid_value(name: str, value: object, allowed: str) -> InvalidValueError:
    """An error that says which key, what it was given and what it takes; ``allowed`` follows a colon."""
    return InvalidValueError(f"{value} can't be the value of {name}: {allowed}")
