"""The errors of configurations, with their codes in the protocol."""

from typing import ClassVar

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode


class InvalidConfigError(BrokerError):
    """A key that does not exist or a value that its key does not allow (INVALID_CONFIG)."""

    error_code: ClassVar[int] = ErrorCode.INVALID_CONFIG


class InvalidValueError(InvalidConfigError):
    """A value that its key does not allow; AlterConfigs answers it with 42 instead of 40."""


class InvalidAlterationError(BrokerError):
    """A change of a configuration that is not possible (INVALID_REQUEST)."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REQUEST


def invalid_value(name: str, value: object, allowed: str) -> InvalidValueError:
    """Return an error that names the key, its value and the allowed values; ``allowed`` follows a colon."""
    return InvalidValueError(f"{value} can't be the value of {name}: {allowed}")
