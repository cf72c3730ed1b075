from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.jars import jars_directory
from harness.java import NoJavaError, find_java
from harness.real_kafka import ZooKeeper


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """A running ZooKeeper of Kafka 2.7.2; each test has a chroot of its own there."""
    with _running("2.7.2") as server:
        yield server


@pytest.fixture(scope="session", params=["2.7.2", "3.9.1"])
def each_zookeeper(request: pytest.FixtureRequest) -> Iterator[ZooKeeper]:
    """ZooKeeper 3.5.9 of Kafka 2.7.2, and the last one that came with Kafka."""
    with _running(request.param) as server:
        yield server


@contextmanager
def _running(version: str) -> Iterator[ZooKeeper]:
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    if not jars_directory(version).exists():
        pytest.skip(f"the jars of Kafka {version} are not here: run make jars")
    with ZooKeeper(version) as server:
        yield server
