"""Addresses, listeners, offline replicas; ``test_topic_answers`` compares the rest with Apache Kafka's answers."""

import asyncio
from typing import Any

import pytest

from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.protocol.primitives import decode, encode
from kafkapy.server.dispatch.encoding import Filled
from kafkapy.server.handlers import metadata
from kafkapy.turns import finish
from tests.controller.harness import FakeBroker, cluster
from tests.server.handlers.topic_context import context_of
from tests.server.harness import result_of


def _broker(broker_id: int, *listeners: str) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker_id,
        endpoints=[UpdateMetadataEndpoint(port=broker_id, host="h", listener=name) for name in listeners],
        rack="r",
    )


def _state(index: int, leader: int) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index, leader=leader, leader_epoch=3, isr=[1, 3], replicas=[1, 2, 3]
    )


def _picture(broker: FakeBroker) -> None:
    """Broker 1 is alive, 2 has no PLAINTEXT listener, 3 is offline."""
    states = [_state(0, 1), _state(1, 2), _state(2, 3), _state(3, -1)]
    request = UpdateMetadataRequest(
        controller_id=3,
        topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=states)],
        live_brokers=[_broker(1, "PLAINTEXT", "INSIDE"), _broker(2, "INSIDE")],
    )
    finish(broker.node.cache.apply(request))


@pytest.mark.parametrize("version", range(10))
def test_offline_brokers_and_missing_listeners_have_error_codes(version: int) -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            _picture(broker)
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            answer: Any = result_of(metadata.handle(context_of(broker, version), request))
            answer = decode(type(answer), encode(answer, version), version)
            assert [found.node_id for found in answer.brokers] == [1]
            assert answer.controller_id == -1
            (topic,) = answer.topics
            codes = [partition.error_code for partition in topic.partitions]
            assert codes == [9 if version == 0 else 0, 72 if version >= 6 else 5, 5, 5]
            assert [partition.leader_id for partition in topic.partitions] == [1, -1, -1, -1]
            assert topic.partitions[0].replica_nodes == ([1] if version == 0 else [1, 2, 3])
            assert topic.partitions[0].isr_nodes == ([1] if version == 0 else [1, 3])
            assert topic.partitions[0].offline_replicas == ([2, 3] if version >= 5 else [])

    asyncio.run(main())


def test_each_listener_answers_its_own_addresses() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            _picture(broker)
            answer: Any = result_of(metadata.handle(context_of(broker, 9, "INSIDE"), MetadataRequest(topics=[])))
            assert [(found.node_id, found.host, found.port) for found in answer.brokers] == [
                (1, "127.0.0.1", 9092),
                (2, "h", 2),
            ]
            assert answer.topics == []

    asyncio.run(main())


def test_topics_are_not_created_without_permission() -> None:
    async def main() -> None:
        async with cluster(1, **{"auto.create.topics.enable": "false"}) as started:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None)])
            answer: Any = result_of(metadata.handle(context_of(started.controller, 9), request))
            assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", 3)]

    asyncio.run(main())


def test_an_answer_is_kept_until_the_metadata_or_the_configuration_change() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            _picture(broker)
            context = context_of(broker, 8)
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            first = result_of(metadata.handle(context, request))
            kept = metadata.handle(context, request)
            assert isinstance(kept, Filled)
            assert metadata.handle(context, request) is kept
            assert kept.decoded() == decode(MetadataResponse, encode(first, 8), 8)
            _picture(broker)
            assert isinstance(result_of(metadata.handle(context, request)), MetadataResponse)
            kept = metadata.handle(context, request)
            assert isinstance(kept, Filled)
            context.services.config.update_dynamic(per_broker={"advertised.listeners": "PLAINTEXT://elsewhere:1"})
            assert metadata.handle(context, request) is not kept

    asyncio.run(main())


def test_few_different_answers_are_kept() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            _picture(broker)
            context = context_of(broker, 8)
            derived = context.services.metadata.derived
            for number in range(metadata.MOST_KEPT_ANSWERS):
                derived[f"other {number}"] = None
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            assert isinstance(result_of(metadata.handle(context, asked)), MetadataResponse)
            assert isinstance(result_of(metadata.handle(context, asked)), MetadataResponse)
            derived.clear()
            steps: Any = metadata.handle(context, asked)
            next(steps)
            _picture(broker)
            assert isinstance(result_of(steps), MetadataResponse)
            assert not derived, "it is of the image before"
            assert isinstance(result_of(metadata.handle(context, asked)), MetadataResponse)
            assert isinstance(metadata.handle(context, asked), Filled), "it is kept"

    asyncio.run(main())
