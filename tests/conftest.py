"""Settings of all tests."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from harness.watchdog import watch

# The time of an example depends on the load of the machine, so it has no limit; pytest-timeout ends a hanging test.
settings.register_profile("kafkapy", deadline=None)
settings.load_profile("kafkapy")


@pytest.fixture
def heeded_signals() -> Iterator[None]:
    """SIGINT and SIGHUP do what they do by default, in child processes too.

    A shell starts background commands that ignore the one, ``nohup`` those that ignore the other.
    """
    defaults: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
