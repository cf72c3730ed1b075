"""StopReplica as a broker receives it."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.client import Client
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers import stop_replica
from kafkapy.types import TopicPartition
from tests.server.harness import call, run, running_broker

PARTITION = TopicPartition("t", 0)


def request(version: int, *, delete: bool, leader_epoch: int = -2, controller_epoch: int = 1) -> StopReplicaRequest:
    made = StopReplicaRequest(0, controller_epoch=controller_epoch)
    if version >= 3:
        state = StopReplicaPartitionState(0, leader_epoch, delete)
        made.topic_states = [StopReplicaTopicState("t", [state])]
    else:
        made.delete_partitions = delete
        if version == 0:
            made.ungrouped_partitions = [StopReplicaPartitionV0("t", 0)]
        else:
            made.topics = [StopReplicaTopicV1("t", [0])]
    return made


@pytest.mark.parametrize("version", range(4))
def test_every_version_stops_and_deletes(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for delete in (False, True, True):
                response = call(broker, request(version, delete=delete), version)
                assert response.error_code == 0
                assert [(one.topic_name, one.partition_index, one.error_code) for one in response.partition_errors] == [
                    ("t", 0, 0)
                ]
                assert PARTITION not in broker.services.replica_manager.partitions
                assert (broker.services.log_manager.get(PARTITION) is None) == delete

    run(scenario())


def test_older_epochs_and_controllers_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            broker.services.replica_manager.partitions[PARTITION].leader_epoch = 5
            assert call(broker, request(3, delete=True, leader_epoch=4), 3).partition_errors[0].error_code == 74
            assert call(broker, request(3, delete=True, controller_epoch=0), 3).error_code == 11
            assert PARTITION in broker.services.replica_manager.partitions
            assert call(broker, request(3, delete=True, leader_epoch=5), 3).partition_errors[0].error_code == 0

    run(scenario())


@pytest.mark.parametrize("stopped", [("../t", 0), ("", 0), ("a\0b", 0), ("t", -1)])
def test_a_name_that_can_not_be_a_topic_s_is_refused(stopped: tuple[str, int], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            sent = request(3, delete=True)
            sent.topic_states.insert(0, StopReplicaTopicState(stopped[0], [StopReplicaPartitionState(stopped[1])]))
            assert [one.error_code for one in call(broker, sent, 3).partition_errors] == [17, 0]
            assert PARTITION not in broker.services.replica_manager.partitions

    run(scenario())


def test_a_step_is_a_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            states = [StopReplicaPartitionState(index, -2, True) for index in range(100)]
            asked = StopReplicaRequest(0, controller_epoch=1, topic_states=[StopReplicaTopicState("t", states)])
            context = SimpleNamespace(services=broker.services)
            steps = stop_replica.handle(cast(RequestContext, context), asked)
            assert sum(1 for _ in steps) == 100

    run(scenario())
