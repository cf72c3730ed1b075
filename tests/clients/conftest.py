"""One broker for all tests of a module; each test has topics of its own."""

from collections.abc import Iterator

import pytest

from kafkapy.clients.cluster import ClusterClient
from tests.clients.thread_broker import thread_broker


@pytest.fixture(scope="package")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with thread_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def client(bootstrap: str) -> Iterator[ClusterClient]:
    with ClusterClient(bootstrap) as connected:
        yield connected
