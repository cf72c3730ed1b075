"""Everything here needs Java; names that no other session uses."""

import os
import time

import pytest


@pytest.fixture(scope="module")
def unique_name() -> str:
    """For topics of tests that share them."""
    return f"mirrored-{os.getpid()}-{time.monotonic_ns()}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "connect":
            item.add_marker("java")
