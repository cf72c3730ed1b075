"""Texts of refusals carry the numbers, brokers and topics that Apache Kafka's texts carry."""

from collections.abc import Iterator

import pytest

from compat_tests.groups.wire import Wire, create_topic
from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkapy.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest

pytestmark = [
    pytest.mark.scenario("errors", client="raw"),
    pytest.mark.one_broker(reason="requests to one broker, which names itself in its refusals"),
]


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def growth(wire: Wire, name: str, count: int, assigned: list[list[int]] | None = None) -> tuple[int, str]:
    wanted = None if assigned is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, wanted)], timeout_ms=20_000)
    (found,) = wire.ask(request, 2).results
    return found.error_code, found.error_message or ""


def creation(wire: Wire, name: str, partitions: int = -1, factor: int = -1, **more: list[int]) -> tuple[int, str]:
    assigned = [
        CreatableReplicaAssignment(partition_index=int(index.removeprefix("p")), broker_ids=brokers)
        for index, brokers in more.items()
    ]
    topic = CreatableTopic(name, num_partitions=partitions, replication_factor=factor, assignments=assigned)
    (found,) = wire.ask(CreateTopicsRequest([topic], timeout_ms=20_000, validate_only=True), 5).topics
    return found.error_code, found.error_message or ""


@pytest.mark.differs(*IN_KRAFT, reason="the texts are others")
def test_the_current_and_the_requested_count(wire: Wire, topic_name: str) -> None:
    create_topic(wire, topic_name, partitions=4)
    code, text = growth(wire, topic_name, 4)
    assert (code, "4" in text) == (37, True)
    for count in (3, 0, -5):
        code, text = growth(wire, topic_name, count)
        assert (code, "4 partitions" in text, str(count) in text) == (37, True, True)


@pytest.mark.differs(*IN_KRAFT, reason="the brokers are named in other words, or the error is another one")
def test_brokers_of_new_partitions(wire: Wire, topic_name: str) -> None:
    create_topic(wire, topic_name, partitions=4)
    own = wire.ask(MetadataRequest(topics=[]), 5).brokers[0].node_id
    cases: list[tuple[list[list[int]], list[str]]] = [
        ([[777]], ["777"]),
        ([[]], ["4", "replication factor"]),
        ([[own, own]], [f"{own}, {own}", "4"]),
        ([[own], [own]], ["1", "2"]),
    ]
    for assigned, said in cases:
        code, text = growth(wire, topic_name, 5, assigned)
        assert (code, [each for each in said if each not in text]) == (39, [])


@pytest.mark.differs(*IN_KRAFT, reason="the texts are others")
def test_texts_of_refused_creations(wire: Wire, topic_name: str) -> None:
    create_topic(wire, topic_name)
    for (refused, text), code, said in (
        (creation(wire, topic_name, 1, 1), 36, [topic_name, "exists"]),
        (creation(wire, f"{topic_name}-x", 1, 7), 38, ["7", "available brokers", "1"]),
        (creation(wire, f"{topic_name}-x", 0, 1), 37, ["0", "partitions"]),
        (creation(wire, f"{topic_name}-x", 1, 0), 38, ["0"]),
        (creation(wire, "a b", 1, 1), 17, ["a b"]),
        (creation(wire, "x" * 250, 1, 1), 17, ["249", "x" * 50]),
        (creation(wire, f"{topic_name}-x", p0=[1, 1]), 39, ["1, 1"]),
        (growth(wire, f"{topic_name}-nowhere", 2), 3, [f"{topic_name}-nowhere"]),
    ):
        assert (refused, [each for each in said if each not in text]) == (code, [])


def test_names_that_collide(wire: Wire, topic_name: str) -> None:
    name = topic_name.replace("_", ".")
    create_topic(wire, name)
    code, text = creation(wire, topic_name.replace(".", "_"), 1, 1)
    assert (code, name in text) == (17, True)
