"""kafka-dump-log over the data directory that all the tests before have filled, on real Kafka as on kafkapy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.clients.client import Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools
from harness.process import Broker

READERS = ("2.7.2", "4.4.0")
OFFSETS_READER = "4.4.0"
"""2.7.2's decoder ends at a member whose assignment isn't a consumer's, on real Kafka's files too, and other tests make
such members. It reads the groups of real clients in ``test_dump_log``."""


def _dump_all(data: Path, tools: Tools) -> str:
    """Topics that are still being deleted may go in the middle: then once more."""
    for _ in range(5):
        logs = sorted(path for path in data.glob("*/*.log") if not path.parent.name.endswith("-delete"))
        try:
            return dump(tools, logs, "--deep-iteration")
        except AssertionError:
            if all(path.exists() for path in logs):
                raise
    raise AssertionError("topics kept going")


@pytest.mark.parametrize("version", READERS)
def test_every_log_of_the_run_is_undamaged(
    broker: Broker, tools_of: Callable[[str], Tools], version: str, topic_name: str
) -> None:
    if broker.data is None:
        pytest.skip("a remote broker's files are out of reach")
    client = ConfluentClient(broker.bootstrap)
    client.create_topic(topic_name)
    client.produce(topic_name, [Sent(b"the last one")])
    said = _dump_all(broker.data, tools_of(version))
    assert f"{topic_name}-0/00000000000000000000.log" in said


def test_the_offsets_of_the_run_are_decoded(broker: Broker, tools_of: Callable[[str], Tools], topic_name: str) -> None:
    if broker.data is None:
        pytest.skip("a remote broker's files are out of reach")
    client = ConfluentClient(broker.bootstrap)
    client.create_topic(topic_name)
    client.commit(f"group-of-{topic_name}", topic_name, {0: 0})
    logs = sorted(broker.data.glob("__consumer_offsets-*/*.log"))
    said = dump(tools_of(OFFSETS_READER), logs, "--deep-iteration", "--offsets-decoder")
    assert f"group-of-{topic_name}" in said
    assert topic_name in said
