"""A topic with a replica on a broker that does not exist waits for that broker, and holds up no other topic."""

from collections.abc import Iterator

import pytest

from compat_tests.groups.wire import Wire, create_topic
from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest

STRANGER = 999


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def delete(wire: Wire, *names: str) -> list[int]:
    answer = wire.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=20_000), 4)
    by_name = {found.name: found.error_code for found in answer.responses}
    return [by_name[name] for name in names]


@pytest.mark.differs(*IN_KRAFT, reason="an assignment to a broker that is not registered is refused")
def test_a_replica_on_an_unknown_broker_delays_only_its_topic(wire: Wire, topic_name: str) -> None:
    before, ghost, after, later = (f"{letter}-{topic_name}" for letter in "aghz")
    for name in (before, after, later):
        create_topic(wire, name)
    own = wire.ask(MetadataRequest(topics=[]), 5).brokers[0].node_id
    assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[own, STRANGER])]
    topic = CreatableTopic(ghost, num_partitions=-1, replication_factor=-1, assignments=assigned)
    assert wire.ask(CreateTopicsRequest([topic], timeout_ms=20_000), 4).topics[0].error_code == 0
    assert delete(wire, ghost) == [0]
    assert delete(wire, before, after) == [0, 0]
    assert delete(wire, ghost) == [3]
    again = CreatableTopic(ghost, num_partitions=1, replication_factor=1)
    assert wire.ask(CreateTopicsRequest([again], timeout_ms=1000), 4).topics[0].error_code == 36
    assert delete(wire, later) == [0]


@pytest.mark.differs(*IN_KRAFT, reason="an assignment without brokers is refused")
def test_a_topic_without_replicas_is_not_extended(wire: Wire, topic_name: str) -> None:
    assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[])]
    topic = CreatableTopic(topic_name, num_partitions=-1, replication_factor=-1, assignments=assigned)
    wire.ask(CreateTopicsRequest([topic], timeout_ms=1_000), 4)
    for assignments, code in ((None, -1), ([], 39)):
        more = CreatePartitionsRequest([CreatePartitionsTopic(topic_name, 2, assignments)], timeout_ms=1_000)
        assert wire.ask(more, 1).results[0].error_code == code
    create_topic(wire, f"other-{topic_name}")
