"""Requests for very many partitions: refused before anything is made for them, while other clients are served.

Apache Kafka 2.7.2 has no bound: after a CreateTopics request for 2^31-1 partitions its broker answers no client within
40 seconds. 4.4.0 refuses more than 10,000 partitions in a request, with POLICY_VIOLATION too.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.brokers.targets import KAFKAPY
from compat_tests.groups.wire import Wire
from harness.process import Broker
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

POLICY_VIOLATION = 44
HUGE = 2**31 - 1
ANSWERED_S = 5.0
"""Long for a request that is refused at once, short for one that makes millions of objects."""


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    if broker.name != KAFKAPY:
        pytest.skip("this release has no bound, or another one")
    with Wire(broker.bootstrap) as wire:
        yield wire


def creatable(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name, num_partitions=partitions, replication_factor=1)


def answer_in_time(wire: Wire, request: Any, version: int) -> Any:
    wire.send(request, version)
    assert wire.has_answer(ANSWERED_S), "no answer in time"
    return wire.receive()


@pytest.mark.parametrize("validate_only", [False, True])
def test_creating_billions_of_partitions_is_refused(
    validate_only: bool, wire: Wire, topic_name: str, broker: Broker
) -> None:
    request = CreateTopicsRequest([creatable(topic_name, HUGE)], timeout_ms=1000, validate_only=validate_only)
    (refused,) = answer_in_time(wire, request, 5).topics
    assert refused.error_code == POLICY_VIOLATION
    assert str(HUGE) in refused.error_message
    assert "kafkapy.max.replicas" in refused.error_message
    with Wire(broker.bootstrap) as other:
        assert answer_in_time(other, ApiVersionsRequest("x", "1"), 3).error_code == 0


@pytest.mark.parametrize("validate_only", [False, True])
def test_extending_a_topic_to_billions_of_partitions_is_refused(
    validate_only: bool, wire: Wire, topic_name: str
) -> None:
    created = wire.ask(CreateTopicsRequest([creatable(topic_name, 1)], timeout_ms=20_000), 4)
    assert created.topics[0].error_code == 0
    growth = CreatePartitionsTopic(topic_name, HUGE, None)
    request = CreatePartitionsRequest([growth], timeout_ms=1000, validate_only=validate_only)
    (refused,) = answer_in_time(wire, request, 2).results
    assert refused.error_code == POLICY_VIOLATION
    assert str(HUGE - 1) in refused.error_message
    few = CreatePartitionsTopic(topic_name, HUGE, [CreatePartitionsAssignment([1])])
    (refused,) = answer_in_time(wire, CreatePartitionsRequest([few], timeout_ms=1000), 2).results
    assert refused.error_code == 39


def test_the_sum_of_many_topics(wire: Wire, topic_name: str) -> None:
    topics = [creatable(f"{topic_name}-{number}", 10_000) for number in range(10_000)]
    request = CreateTopicsRequest(topics, timeout_ms=1000, validate_only=True)
    wire.send(request, 4)
    assert wire.has_answer(30)
    codes = [found.error_code for found in wire.receive().topics]
    assert set(codes) == {0, POLICY_VIOLATION}
    assert codes.count(0) <= 10
