"""One ZooKeeper for all moves; each test has its own data directory."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.real_kafka import ZooKeeper

if TYPE_CHECKING:
    from compat_tests.exchange.home import Home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need Java."""
    for item in items:
        if item.path.parent.name == "exchange":
            item.add_marker("java")


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, zookeeper: ZooKeeper) -> "Iterator[Home]":
    from compat_tests.exchange.home import Home  # here, since it imports a client library

    home = Home(tmp_path, zookeeper)
    yield home
    home.close()
