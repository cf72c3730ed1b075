"""From frames to handlers and back."""

from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, frame
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.network.errors import UnencodableResponseError, UnservedRequestError
from kafkapy.network.session import Session
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.server.dispatch.api_table import Api
from kafkapy.server.dispatch.dispatcher import Dispatcher
from kafkapy.server.dispatch.encoding import EncodedParts, encode
from kafkapy.server.dispatch.local_requests import LocalRequests
from kafkapy.server.dispatch.routes import route_of
from kafkapy.server.handlers import ALL_APIS, CLIENT_APIS, REGISTRY
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker


@pytest.mark.parametrize("api", REGISTRY.values(), ids=lambda api: api.module)
def test_every_api_has_messages_and_a_handler_for_all_its_versions(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        found = route_of(api, version)
        assert callable(found.handle)
        request, response = request_class(api.key), response_class(api.key)
        assert request.MIN_VERSION <= version <= request.MAX_VERSION  # type: ignore[attr-defined]  # requests have them
        assert issubclass(response, Message)


def test_frames_are_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            dispatcher, connection = (
                Dispatcher(broker.services, CLIENT_APIS),
                Session.local("PLAINTEXT"),
            )
            parts = dispatcher.dispatch(memoryview(frame(ApiVersionsRequest(), 0, correlation_id=77))[4:], connection)
            assert isinstance(parts, list)
            (part,) = parts
            assert isinstance(part, bytearray)
            assert int.from_bytes(part[:4]) == len(part) - 4
            assert int.from_bytes(part[4:8]) == 77
            with pytest.raises(UnservedRequestError):
                dispatcher.dispatch(memoryview(frame(UpdateMetadataRequest(), 6))[4:], connection)
            with pytest.raises(ProtocolError):
                dispatcher.dispatch(memoryview(b"\0\0"), connection)

    run(scenario())


STATE = LeaderAndIsrPartitionState(
    partition_index=0, controller_epoch=7, leader=0, leader_epoch=3, isr=[0], partition_epoch=0, replicas=[0]
)
ORDERS: list[tuple[int, Any]] = [
    (4, LeaderAndIsrRequest(topic_states=[LeaderAndIsrTopicState("new", partition_states=[STATE])])),
    (6, UpdateMetadataRequest()),
    (3, StopReplicaRequest(
        topic_states=[StopReplicaTopicState("new", [StopReplicaPartitionState(0, 4, delete_partition=True)])]
    )),
]  # fmt: skip
"""Requests of a controller of Apache Kafka 2.7, with their versions."""


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_remote_controllers_requests_are_served_on_the_inter_broker_listener_alone(
    tmp_path: Path, is_alone: bool
) -> None:
    """They are also fenced by their epochs, as in Apache Kafka 2.7.2."""

    async def scenario() -> None:
        keys = {
            "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
            "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
            "inter__broker__listener__name": "INNER",
        }
        async with running_broker(tmp_path, serves_brokers=not is_alone, **keys) as broker:
            services = broker.services
            epoch = services.fence.broker_epoch
            for version, order in ORDERS:
                order.controller_id, order.controller_epoch, order.broker_epoch = 1, 7, epoch
                for listener in (0, 1) if is_alone else (0,):
                    refused = await Client.connect(broker, listener)
                    refused.send(frame(order, version))
                    assert await refused.is_closed()
            if is_alone:
                return
            inner = await Client.connect(broker, listener=1)
            for version, order in ORDERS:
                assert (await inner.ask(order, version)).error_code == 0
                has_log = TopicPartition("new", 0) in services.replica_manager.partitions
                assert has_log == (not isinstance(order, StopReplicaRequest))
            for version, order in ORDERS:
                order.broker_epoch = epoch - 1
                assert (await inner.ask(order, version)).error_code == 77
                order.broker_epoch, order.controller_epoch = epoch + 1, 6
                assert (await inner.ask(order, version)).error_code == 11

    run(scenario())


def test_a_response_that_its_version_can_not_express_is_an_error() -> None:
    response = ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(leader_epoch=5)])]
    )
    with pytest.raises(UnencodableResponseError, match="leader_epoch"):
        encode(RequestHeader(2, 1, 1, None), False, response)


def test_a_response_that_is_too_large_for_a_frame_is_named() -> None:
    response = EncodedParts(ListOffsetsResponse, 1, [bytes(2**20)] * 2**11)
    with pytest.raises(UnencodableResponseError, match="EncodedParts"):
        encode(RequestHeader(2, 1, 1, None), False, response)


def test_the_controller_reaches_the_same_handlers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            requests = LocalRequests(ALL_APIS)
            with pytest.raises(AssertionError, match="not composed"):
                requests.handle(UpdateMetadataRequest(controller_epoch=0), 6)
            requests.serve(broker.services, Session.local("PLAINTEXT"))
            response = requests.handle(UpdateMetadataRequest(controller_epoch=0), 6)
            assert isinstance(response, Message)
            assert response.error_code == 11  # type: ignore[attr-defined]  # UpdateMetadataResponse has one

    run(scenario())


def test_a_request_without_a_socket_is_answered_with_a_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            for name in ("t", GROUP_METADATA_TOPIC):
                await client.create_topic(name)
            requests = LocalRequests(ALL_APIS)
            requests.serve(broker.services, Session.local("PLAINTEXT"))
            topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
            response = requests.handle(OffsetCommitRequest("g", topics=[topic]), 8)
            answered = OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(0, 0)])
            assert response == OffsetCommitResponse(topics=[answered])

    run(scenario())
