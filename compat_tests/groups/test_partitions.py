"""The partition that keeps a group, or a transactional id, is that of Kafka's own hash.

Coordinators that don't agree on it don't find each other's groups and transactions in a cluster, nor in a directory
that has moved.
"""

from collections.abc import Callable

import pytest

from compat_tests.data_path.frames import fetch, list_offsets
from compat_tests.groups.test_offsets import commit
from compat_tests.groups.wire import Wire, create_topic, find_coordinator
from compat_tests.transactions.talk import Talk
from harness.process import Broker
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

LATEST = -1
HASHES = {
    "etl": 100_765,
    "日本語": 25_921_943,
    "billing": 109_829_509,  # this one's hash is negative, and those that follow
    "orders": 1_008_770_331,
    "mirror": 1_073_910_849,
    "polygenelubricants": 0,  # the smallest number, which has no absolute value
}
"""Printed by Apache Kafka 2.7.2's own ``Utils.abs(name.hashCode())``."""


def written_to(wire: Wire, topic: str, name: str, write: Callable[[], object]) -> tuple[list[int], int]:
    """The partitions that records with this name come to, and how many partitions there are."""
    count = len(wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 4).topics[0].partitions)
    ends = [list_offsets(wire, topic, LATEST, partition=index).offset for index in range(count)]
    write()
    found = [bytes(fetch(wire, topic, end, partition=index).records or b"") for index, end in enumerate(ends)]
    return [index for index, records in enumerate(found) if name.encode() in records], count


@pytest.mark.parametrize("name", HASHES)
def test_a_group(broker: Broker, name: str) -> None:
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, "t")
        find_coordinator(wire, name)

        def write() -> None:
            assert commit(wire, name) == 0

        partitions, count = written_to(wire, "__consumer_offsets", name, write)
        assert partitions == [HASHES[name] % count]


@pytest.mark.parametrize("name", HASHES)
def test_a_transactional_id(broker: Broker, name: str) -> None:
    with Wire(broker.bootstrap) as wire:
        talk = Talk(wire, name)
        talk.coordinator()
        partitions, count = written_to(wire, "__transaction_state", name, talk.producer)
        assert partitions == [HASHES[name] % count]
