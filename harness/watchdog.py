"""Ends a test process that hangs where pytest-timeout can't reach it, so that a run always comes to its summary.

pytest-timeout raises in the main thread, between two steps of Python code, and once for each test. A call into a client
library that never comes back is out of its reach, and so is a clean-up that waits for what the test was waiting for.
Each phase of a test has a timer here that needs no Python code to run: when it is over, the stacks of all threads are
printed and the process exits. pytest-xdist reports the test as failed and goes on in a new process.
"""

import faulthandler
import os
from collections.abc import Generator
from contextlib import contextmanager

import pytest

NAME = "kafkapy-watchdog"
GRACE_S = 60.0
"""The seconds that it waits longer than pytest-timeout, whose report of a test says more."""
Phase = Generator[None, object, object]


def watch(config: pytest.Config) -> None:
    """Watches the tests of this run; called when pytest is configured, before their output is captured."""
    if not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(Watchdog(os.dup(2)), NAME)


def limit_s(item: pytest.Item) -> float:
    """The time-out of a test as pytest-timeout understands it, in seconds; 0 when it has none."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0])
    given: float | None = item.config.getoption("timeout")
    return float(item.config.getini("timeout") or 0) if given is None else given


class Watchdog:
    """Watches set-up, test and clean-up, each for itself."""

    def __init__(self, output_fd: int) -> None:
        self._output_fd = output_fd

    @contextmanager
    def _watching(self, item: pytest.Item) -> Generator[None]:
        if limit := limit_s(item):
            faulthandler.dump_traceback_later(limit + GRACE_S, file=self._output_fd, exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Phase:
        with self._watching(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Phase:
        with self._watching(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Phase:
        with self._watching(item):
            return (yield)

    def pytest_unconfigure(self) -> None:
        os.close(self._output_fd)
