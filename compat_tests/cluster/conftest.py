from collections.abc import Iterator

import pytest

from compat_tests.real_kafka import ZooKeeper
from tools.jars import jars_directory
from tools.java import NoJavaError, find_java


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """A running ZooKeeper of Kafka 2.7.2; each test has a chroot of its own there."""
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    if not jars_directory("2.7.2").exists():
        pytest.skip("the jars of Kafka 2.7.2 are not here: run make jars")
    with ZooKeeper() as server:
        yield server
