"""LeaderAndIsr as a broker receives it: fences and partitions."""

import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.client import Client
from kafkapy.metadata.znodes import ConfigEntity, ConfigZNode
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.leader_and_isr import handle
from kafkapy.turns import in_turns
from kafkapy.types import TopicPartition
from tests.server.harness import call, run, running_broker

ME = 0


def request(
    controller_epoch: int = 1, broker_epoch: int = -1, *, grouped: bool = True, **fields: Any
) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState("new", 0, 1, ME, 0, [ME], 0, [ME], is_new=True)
    for name, value in fields.items():
        setattr(state, name, value)
    request = LeaderAndIsrRequest(0, controller_epoch=controller_epoch, broker_epoch=broker_epoch)
    if grouped:
        request.topic_states = [LeaderAndIsrTopicState("new", partition_states=[state])]
    else:
        request.ungrouped_partition_states = [state]
    return request


@pytest.mark.parametrize("grouped", [True, False])
def test_this_broker_becomes_leader_or_follower_of_a_new_partition(grouped: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            await broker.services.config_admin.load_topics(["new"])
            version = 4 if grouped else 1
            partitions = broker.services.replica_manager.partitions

            def codes(**fields: Any) -> list[tuple[str, int, int]]:
                response = call(broker, request(grouped=grouped, **fields), version)
                assert response.error_code == 0
                return [(one.topic_name, one.partition_index, one.error_code) for one in response.partition_errors]

            assert codes() == [("new", 0, 0)]
            assert partitions[TopicPartition("new", 0)].is_leader
            assert codes() == [("new", 0, 11)]
            assert codes(leader=5, leader_epoch=1, replicas=[5, ME], isr=[5, ME]) == [("new", 0, 0)]
            assert not partitions[TopicPartition("new", 0)].is_leader
            assert codes(partition_index=1, replicas=[5]) == [("new", 1, 3)]

    run(scenario())


@pytest.mark.parametrize("leader_epoch", [-1, -2])
def test_a_new_partition_without_a_leader_epoch_is_stale(leader_epoch: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            await broker.services.config_admin.load_topics(["new"])
            response = call(broker, request(leader_epoch=leader_epoch), 4)
            assert response.error_code == 0
            assert [one.error_code for one in response.partition_errors] == [11]
            partition = broker.services.replica_manager.partitions.get(TopicPartition("new", 0))
            assert partition is None or not partition.is_leader

    run(scenario())


def test_a_topic_whose_configuration_can_not_be_read_gets_no_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            services = broker.services
            await services.store.create(ConfigZNode.path(ConfigEntity.topic("new")), b"foreign")
            header = RequestHeader(LeaderAndIsrRequest.API_KEY, 4, 1, "test")
            context = RequestContext(services, header, next(iter(broker.listeners[0].connections)).session)
            response = await in_turns(handle(context, request()))
            assert [one.error_code for one in response.partition_errors] == [-1]
            assert TopicPartition("new", 0) not in services.replica_manager.partitions

    run(scenario())


def _folders(path: Path) -> set[Path]:
    return {found for found in path.rglob("*") if found.is_dir()}


@pytest.mark.parametrize(
    ("topic", "partition"),
    [(name, 0) for name in ("", ".", "..", "../evil", "/evil", "a/b", "a\0b", "a b", "é", "x" * 250, "x" * 32_000)]
    + [("new", -1), ("new", -(2**31)), ("x" * 249, 2**31 - 1)],
)
def test_a_name_that_can_not_be_a_topic_s_becomes_no_path(
    topic: str, partition: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            services = broker.services
            await services.config_admin.load_topics(["legal"])
            sent = request()
            illegal = LeaderAndIsrPartitionState("", partition, 1, ME, 0, [ME], 0, [ME], is_new=True)
            legal = LeaderAndIsrPartitionState("", 0, 1, ME, 0, [ME], 0, [ME], is_new=True)
            sent.topic_states = [
                LeaderAndIsrTopicState(topic, partition_states=[illegal]),
                LeaderAndIsrTopicState("legal", partition_states=[legal]),
            ]
            before = _folders(tmp_path.parent)
            header = RequestHeader(LeaderAndIsrRequest.API_KEY, 4, 1, "test")
            context = RequestContext(services, header, next(iter(broker.listeners[0].connections)).session)
            response = await in_turns(handle(context, sent))
            assert [one.error_code for one in response.partition_errors] == [17, 0]
            assert _folders(tmp_path.parent) - before == {tmp_path / "data" / "legal-0"}
            assert list(services.replica_manager.partitions) == [TopicPartition("legal", 0)]
            assert not broker.broken.is_set()
            assert "Refused a replica of " in caplog.text

    run(scenario())


def test_stale_senders_are_fenced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            await broker.services.config_admin.load_topics(["new"])
            assert call(broker, request(controller_epoch=7), 4).error_code == 0
            stale = call(broker, request(controller_epoch=6), 4)
            assert (stale.error_code, [one.error_code for one in stale.partition_errors]) == (11, [11])
            assert call(broker, request(controller_epoch=7, broker_epoch=0), 4).error_code == 77

    run(scenario())


@pytest.mark.parametrize("grouped", [True, False])
def test_the_receiver_reads_the_configuration_of_a_topic_before_it_makes_a_log(grouped: bool, tmp_path: Path) -> None:
    """The controller may be another broker, and its request does not carry the configuration."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            services, version = broker.services, 4 if grouped else 1
            content = ConfigZNode.encode({"retention.ms": "4711"})
            await services.store.create(ConfigZNode.path(ConfigEntity.topic("new")), content)
            header = RequestHeader(LeaderAndIsrRequest.API_KEY, version, 1, "test")
            context = RequestContext(services, header, next(iter(broker.listeners[0].connections)).session)
            response = await in_turns(handle(context, request(grouped=grouped)))
            assert [one.error_code for one in response.partition_errors] == [0]
            assert services.replica_manager.partitions[TopicPartition("new", 0)].log.config.retention_ms == 4711

    run(scenario())


def test_the_answer_has_the_ids_of_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await Client.connect(broker)
            await broker.services.config_admin.load_topics(["new"])
            for topic_id, leader_epoch, code in ((UUID(int=1), 0, 0), (UUID(int=2), 1, 103), (UUID(int=1), 1, 0)):
                sent = request(leader_epoch=leader_epoch)
                sent.topic_states[0].topic_id = topic_id
                sent.topic_states[0].partition_states.append(LeaderAndIsrPartitionState("new", 1, replicas=[ME + 1]))
                response = call(broker, sent, 5)
                assert (response.error_code, response.partition_errors) == (0, [])
                assert [each.topic_id for each in response.topics] == [topic_id]
                errors = [(each.partition_index, each.error_code) for each in response.topics[0].partition_errors]
                assert errors == [(0, code), (1, 3)]

    run(scenario())
