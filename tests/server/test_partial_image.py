"""Requests to a broker that does not have all metadata of the cluster yet (``metadata/image.py``)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, frame
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.records.record import Record, encode_batch
from kafkapy.server.dispatch.dispatcher import LONGEST_HOLD_MS
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker

LATE = TopicPartition("late", 0)
METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="late")], allow_auto_topic_creation=False)
COMMIT = OffsetCommitRequest(
    "g", -1, "", topics=[OffsetCommitRequestTopic("late", partitions=[OffsetCommitRequestPartition(0, 5, -1, -1, "")])]
)


def tell(broker: BrokerServer, *partitions: TopicPartition) -> None:
    """The controller sends the metadata of these partitions."""
    image = broker.services.metadata.image
    topics = [
        UpdateMetadataTopicState(
            topic_name=each.topic,
            partition_states=[
                UpdateMetadataPartitionState(partition_index=each.partition, leader=0, isr=[0], replicas=[0])
            ],
        )
        for each in partitions
    ]
    endpoint = UpdateMetadataEndpoint(port=broker.port, host="127.0.0.1", listener="PLAINTEXT", security_protocol=0)
    brokers = [UpdateMetadataBroker(id=0, endpoints=[endpoint])]
    request = UpdateMetadataRequest(controller_id=image.controller_id, topic_states=topics, live_brokers=brokers)
    finish(broker.services.metadata.apply(request))


def start_again(broker: BrokerServer, *partitions: TopicPartition) -> None:
    """Bring the broker to where it is after a start in a cluster with these partitions."""
    broker.services.metadata.has_been_whole = False
    broker.services.metadata.expect(partitions)


async def is_waiting(answer: "asyncio.Future[Any]") -> bool:
    await asyncio.sleep(0.05)
    return not answer.done()


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (METADATA, 9, 0),
        (COMMIT, 8, 16),  # the topic exists, this broker keeps no groups
        (FindCoordinatorRequest("g"), 3, 0),
        (CreateTopicsRequest([CreatableTopic("late", 1, 1)], 1000), 6, 36),
        (DeleteTopicsRequest(topic_names=["nope"], timeout_ms=1000), 5, 3),
    ],
)
def test_a_request_about_what_exists_waits_for_the_whole_image(
    request_: Any, version: int, code: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clock=ManualClock()) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            start_again(broker, LATE)
            answer = asyncio.ensure_future(client.ask(request_, version))
            assert await is_waiting(answer)
            assert (await other.ask(ApiVersionsRequest("a", "1"), 3)).error_code == 0
            tell(broker, TopicPartition("another", 0))
            assert await is_waiting(answer)
            tell(broker, LATE)
            assert error_code(await answer) == code

    run(scenario())


def error_code(response: Any) -> int:
    """The error code of a response about one thing."""
    rows = getattr(response, "topics", None) or getattr(response, "responses", None) or [response]
    row: Any = rows[0].partitions[0] if isinstance(response, OffsetCommitResponse) else rows[0]
    code: int = row.error_code
    return code


def test_a_repeated_request_waits_too(tmp_path: Path) -> None:
    """A connection keeps what it has decoded and answered before."""

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=ManualClock()) as broker:
            client = await Client.connect(broker)
            tell(broker, LATE)
            for _ in range(3):
                assert error_code(await client.ask(METADATA, 9)) == 0
            start_again(broker, LATE, TopicPartition("later", 0))
            answer = asyncio.ensure_future(client.ask(METADATA, 9))
            assert await is_waiting(answer)
            tell(broker, TopicPartition("later", 0))
            assert error_code(await answer) == 0

    run(scenario())


def test_records_of_a_missing_partition_may_be_on_another_broker(tmp_path: Path) -> None:
    """The client asks for the leader again; UNKNOWN_TOPIC_OR_PARTITION (3) is final for some clients."""

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=ManualClock()) as broker:
            client, records = await Client.connect(broker), encode_batch([Record(None, b"v", 0)])
            assert (await client.produce("late", records)).error_code == 3
            broker.services.metadata.expect([LATE])
            assert (await client.produce("late", records)).error_code == 6

    run(scenario())


def test_a_connection_is_closed_when_the_controller_stays_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            client = await Client.connect(broker)
            start_again(broker, LATE)
            client.send(frame(METADATA, 9))
            await asyncio.sleep(0.05)
            clock.advance(LONGEST_HOLD_MS)
            assert await client.is_closed()
            assert "the controller has not sent all metadata yet, on which metadata depends" in caplog.text

    run(scenario())


def test_a_broker_that_registers_again_answers_from_the_image_that_it_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clock=ManualClock()) as broker:
            client = await Client.connect(broker)
            tell(broker, LATE)
            broker.services.metadata.expect([LATE, TopicPartition("later", 0)])
            assert error_code(await client.ask(METADATA, 9)) == 0

    run(scenario())
