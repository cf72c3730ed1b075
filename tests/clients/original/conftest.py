"""One broker for the original clients, in this process."""

from collections.abc import Iterator

import pytest

from kafkapy.clients.original.registry import Registry
from kafkapy.testing.broker import Broker


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 2}) as running:
        yield running


@pytest.fixture
def registry(broker: Broker) -> Iterator[Registry]:
    found = broker.registry()
    yield found
    found.close()
