"""What holds for all tests."""

from hypothesis import settings

pytest_plugins = ["compat_tests.watchdog"]

# An example's time says how busy the machine is, not whether the code is right; pytest-timeout ends what hangs.
settings.register_profile("kafkapy", deadline=None)
settings.load_profile("kafkapy")
