"""ElectLeaders and ControlledShutdown as a broker receives them; tests/controller has the elections themselves."""

from pathlib import Path
from typing import Any

import pytest

from harness.client import Client
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker


def codes(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, found.partition_id): found.error_code
        for topic in response.replica_election_results
        for found in topic.partition_result
    }


def active(broker: BrokerServer) -> Any:
    """The part of the controller that a broker of a cluster changes by its requests."""
    return broker.services.controller._active


@pytest.mark.parametrize("version", range(3))
def test_each_partition_that_is_named_is_answered_once(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            asked = [TopicPartitions("t", [0, 0, 7]), TopicPartitions("t", [0]), TopicPartitions("nope", [1])]
            response = await client.ask(ElectLeadersRequest(0, asked, 1000), version)
            assert response.error_code == 0
            assert codes(response) == {("t", 0): 84, ("t", 7): 3, ("nope", 1): 3}
            assert codes(await client.ask(ElectLeadersRequest(0, [], 1000), version)) == {}

    run(scenario())


def test_without_a_list_all_partitions_are_meant_but_only_elections_are_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            assert codes(await client.ask(ElectLeadersRequest(0, None, 1000), 2)) == {}
            state = active(broker).context.leadership
            partition = TopicPartition("t", 1)
            state[partition] = state[partition]._replace(leader=-1)
            assert codes(await client.ask(ElectLeadersRequest(0, None, 1000), 2)) == {("t", 1): 0}

    run(scenario())


def test_a_new_leader_that_is_not_known_here_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")

            async def elected_elsewhere(*_: object, **__: object) -> dict[TopicPartition, int]:
                return {TopicPartition("t", 0): 9}

            active(broker).elections.elect = elected_elsewhere
            response = await client.ask(ElectLeadersRequest(0, [TopicPartitions("t", [0])], 0), 2)
            assert codes(response) == {("t", 0): 7}

    run(scenario())


@pytest.mark.parametrize("kind", [-1, 2])
def test_an_unknown_kind_of_election(kind: int, tmp_path: Path) -> None:
    """2.7.2 answers -1, and nothing at all where no partition is named."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            response = await client.ask(ElectLeadersRequest(kind, [TopicPartitions("t", [0, 0])], 0), 2)
            assert (response.error_code, codes(response)) == (-1, {("t", 0): -1})
            assert len(response.replica_election_results[0].partition_result) == 2
            response = await client.ask(ElectLeadersRequest(kind, None, 0), 1)
            assert (response.error_code, codes(response)) == (-1, {})

    run(scenario())


def test_a_broker_that_is_not_the_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, serves_brokers=True) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            broker.services.controller.session_expired()
            response = await client.ask(ElectLeadersRequest(0, [TopicPartitions("t", [0])], 1000), 2)
            assert (response.error_code, codes(response)) == (0, {("t", 0): 41})
            assert (await client.ask(ControlledShutdownRequest(0, -1), 3)).error_code == 11

    run(scenario())


@pytest.mark.parametrize(("broker_id", "epoch", "error_code"), [(9, -1, 8), (9, 7, -1), (1001, 0, 77), (1001, -1, 0)])
def test_a_broker_that_wants_to_stop(broker_id: int, epoch: int, error_code: int, tmp_path: Path) -> None:
    """The codes of 2.7.2. With one broker no partition has several replicas, so none remains."""

    async def scenario() -> None:
        async with running_broker(tmp_path, serves_brokers=True) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            own = broker.config.broker_id if broker_id == 1001 else broker_id
            response = await client.ask(ControlledShutdownRequest(own, epoch), 3)
            assert (response.error_code, response.remaining_partitions) == (error_code, [])

    run(scenario())


def test_controlled_shutdown_lists_the_partitions_still_led(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, serves_brokers=True) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            context = active(broker).context
            own = broker.config.broker_id
            context.assignments["t"][0] = context.assignments["t"][0]._replace(replicas=(own, 9))
            response = await client.ask(ControlledShutdownRequest(own, -1), 3)
            assert [(found.topic_name, found.partition_index) for found in response.remaining_partitions] == [("t", 0)]

    run(scenario())
