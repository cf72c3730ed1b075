from collections.abc import Iterator

import pytest

from compat_tests.cluster.conftest import zookeeper
from compat_tests.security.secured import SecuredBroker, secured
from harness.process import Broker

__all__ = ["secured_broker", "zookeeper"]


@pytest.fixture(scope="package")
def secured_broker(broker: Broker) -> Iterator[SecuredBroker]:
    with secured(broker) as found:
        yield found
