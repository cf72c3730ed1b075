"""What is refused in a configuration, with the code that goes on the wire."""

from typing import ClassVar

from kafkapy.errors import BrokerError


class InvalidConfigError(BrokerError):
    """A key that does not exist or a value that its key does not allow (INVALID_CONFIG)."""

    error_code: ClassVar[int] = 40


def invalid_value(name: str, value: object, allowed: str) -> InvalidConfigError:
    """An error that says which key, what it was given and what it takes; ``allowed`` follows a colon."""
    return InvalidConfigError(f"Invalid value {value} for configuration {name}: {allowed}")
