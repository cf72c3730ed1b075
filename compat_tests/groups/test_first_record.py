"""The first member of a group reads without a delay if the initial delay is 0."""

import time
from collections.abc import Iterator

import pytest

from compat_tests.clients.client import Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.groups.wire import Wire, create_topic, find_coordinator, join_request, sync_request
from harness.process import Broker
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

LIMIT_MS = 50
ATTEMPTS = 5
EARLIEST = -2


@pytest.fixture
def wire(broker: Broker, topic_name: str) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as connection:
        create_topic(connection, topic_name)
        ConfluentClient(broker.bootstrap).produce(topic_name, [Sent(b"x")])
        find_coordinator(connection, topic_name)
        yield connection


def first_record(bootstrap: str, group: str, topic: str) -> float:
    """Milliseconds for all requests of a client that adds no delay."""
    started = time.perf_counter()
    with Wire(bootstrap) as wire:
        wire.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), 5)
        assert wire.ask(FindCoordinatorRequest(group), 1).error_code == 0
        given = wire.ask(join_request(group), 5).member_id
        joined = wire.ask(join_request(group, given), 5)
        assert joined.error_code == 0
        assert wire.ask(sync_request(group, joined.generation_id, given, parts={given: b"all"}), 3).assignment == b"all"
        wire.ask(OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [0])]), 5)
        wire.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, EARLIEST)])]), 5)
        partition = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
        fetched = wire.ask(
            FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic, partitions=[partition])]), 11
        )
        assert len(bytes(fetched.responses[0].partitions[0].records)) > 0
    return 1000 * (time.perf_counter() - started)


def test_the_first_member_reads_at_once(broker: Broker, wire: Wire, topic_name: str) -> None:
    """The best of some attempts: the machine may be busy, the broker has to be able to."""
    taken = [first_record(broker.bootstrap, f"{topic_name}-{each}", topic_name) for each in range(ATTEMPTS)]
    assert min(taken) < LIMIT_MS, taken
