"""AlterPartitionReassignments and ListPartitionReassignments; tests/controller has what becomes of the replicas."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.client import Client
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import run, running_broker


def alter(*asked: tuple[str, int, Sequence[int] | None]) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        1000,
        topics=[
            ReassignableTopic(topic, [ReassignablePartition(index, None if replicas is None else list(replicas))])
            for topic, index, replicas in asked
        ],
    )


def codes(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, found.partition_index): found.error_code
        for topic in response.responses
        for found in topic.partitions
    }


def listed(response: Any) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    return {
        (topic.name, found.partition_index): (found.replicas, found.adding_replicas, found.removing_replicas)
        for topic in response.topics
        for found in topic.partitions
    }


async def move_to_a_dead_broker(broker: BrokerServer) -> None:
    """Moves that the legacy tool may request: it waits for broker 9."""
    active: Any = broker.services.controller._active
    assignment = active.context.assignments["t"][1]
    active.context.assign("t", {**active.context.assignments["t"], 1: assignment.reassigned([9])})


def test_each_partition_is_answered_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            own = broker.config.broker_id
            request = alter(
                ("t", 0, None), ("t", 0, [own]), ("t", 1, [own, 99]), ("t", 2, [own]), ("u", 0, None), ("t", 1, [])
            )
            response = await client.ask(request, 0)
            assert (response.error_code, response.error_message) == (0, "")
            assert codes(response) == {("t", 0): 0, ("t", 1): 39, ("t", 2): 3, ("u", 0): 85}
            messages = [found.error_message for topic in response.responses for found in topic.partitions]
            assert messages[0] is None
            assert all(messages[1:])

    run(scenario())


def test_the_moves_are_listed_all_or_those_that_are_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            own = broker.config.broker_id
            assert listed(await client.ask(ListPartitionReassignmentsRequest(1000, None), 0)) == {}
            await move_to_a_dead_broker(broker)
            moving = {("t", 1): ([9, own], [9], [own])}
            assert listed(await client.ask(ListPartitionReassignmentsRequest(1000, None), 0)) == moving
            for indexes, expected in (([0, 1, 7], moving), ([0], {})):
                asked = [ListPartitionReassignmentsTopics("t", indexes), ListPartitionReassignmentsTopics("u", [0])]
                response = await client.ask(ListPartitionReassignmentsRequest(1000, asked), 0)
                assert (response.error_code, response.error_message, listed(response)) == (0, "", expected)
            assert codes(await client.ask(alter(("t", 1, None)), 0)) == {("t", 1): 0}
            assert listed(await client.ask(ListPartitionReassignmentsRequest(1000, None), 0)) == {}

    run(scenario())


def test_a_broker_that_is_not_the_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, serves_brokers=True) as broker:
            client = await Client.connect(broker)
            broker.services.controller.session_expired()
            response = await client.ask(alter(("t", 0, [1])), 0)
            assert (response.error_code, response.responses) == (41, [])
            response = await client.ask(ListPartitionReassignmentsRequest(1000, None), 0)
            assert (response.error_code, response.topics) == (41, [])

    run(scenario())
