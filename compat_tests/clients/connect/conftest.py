"""Everything here needs Java; names that no other session uses."""

import os
import time

import pytest

from harness.jars import CONNECT_VERSIONS


@pytest.fixture(
    scope="module",
    params=[CONNECT_VERSIONS[0], *(pytest.param(each, marks=pytest.mark.long) for each in CONNECT_VERSIONS[1:])],
)
def connect_version(request: pytest.FixtureRequest) -> str:
    """Each release whose Kafka Connect and MirrorMaker are tested; the later ones in long runs alone."""
    version: str = request.param
    return version


@pytest.fixture(scope="module")
def unique_name(connect_version: str) -> str:
    """For topics of tests that share them."""
    return f"mirrored-{connect_version}-{os.getpid()}-{time.monotonic_ns()}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "connect":
            item.add_marker("java")
