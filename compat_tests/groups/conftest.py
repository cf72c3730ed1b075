"""The fixtures of most tests of groups."""

from collections.abc import Iterator

import pytest

from compat_tests.groups.wire import Wire, create_topic, find_coordinator
from harness.process import Broker


@pytest.fixture
def wire(broker: Broker, topic_name: str) -> Iterator[Wire]:
    """A connection to a broker that has the topic t, and coordinates the group of the test's name."""
    with Wire(broker.bootstrap) as connection:
        create_topic(connection, "t", 2)  # as the conversations have it
        find_coordinator(connection, topic_name)
        yield connection
