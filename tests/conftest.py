"""What holds for all tests."""

import pytest
from hypothesis import settings

from compat_tests.watchdog import watch

# An example's time says how busy the machine is, not whether the code is right; pytest-timeout ends what hangs.
settings.register_profile("kafkapy", deadline=None)
settings.load_profile("kafkapy")


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
