"""Settings of all tests."""

import pytest
from hypothesis import settings

from compat_tests.watchdog import watch

# The time of an example depends on the load of the machine, so it has no limit; pytest-timeout ends a hanging test.
settings.register_profile("kafkapy", deadline=None)
settings.load_profile("kafkapy")


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
