"""The errors of configurations, with their codes in the protocol."""

from typing import ClassVar

from kafkapy import kafka_texts
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
    """Return an error that names the key, its value and what is allowed, in Apache Kafka's words."""
    return InvalidValueError(kafka_texts.invalid_value(name, value, allowed))
