"""Settings of all tests."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from compat_tests.watchdog import watch

# The time of an example depends on the load of the machine, so it has no limit; pytest-timeout ends a hanging test.
settings.register_profile("kafkapy", deadline=None)
settings.load_profile("kafkapy")


@pytest.fixture
def heeded_ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, in child processes too: a shell starts background commands that ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
