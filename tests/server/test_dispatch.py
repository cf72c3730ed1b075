"""From frames to handlers and back."""

from pathlib import Path

import pytest

from kafkapy.coordinator.group.shard import GROUP_TOPIC
from kafkapy.network.errors import UnencodableResponseError, UnservedRequestError
from kafkapy.network.session import Session
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
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
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.server.compute_thread import ComputeThread
from kafkapy.server.dispatch import Dispatcher, LocalRequests, encode, route
from kafkapy.server.handlers import REGISTRY, Api
from tests.server.harness import Client, frame, run, running_broker


@pytest.mark.parametrize("api", REGISTRY.values(), ids=lambda api: api.module)
def test_every_api_has_messages_and_a_handler_for_all_its_versions(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        found = route(api.key, version)
        assert callable(found.handle)
        request, response = request_class(api.key), response_class(api.key)
        assert request.MIN_VERSION <= version <= request.MAX_VERSION  # type: ignore[attr-defined]  # requests have them
        assert issubclass(response, Message)


def test_frames_are_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            dispatcher, connection = (
                Dispatcher(broker.services, ComputeThread(), broker.listeners[0].response_budget),
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


def test_a_response_without_a_form_in_its_version_is_our_bug() -> None:
    response = ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(leader_epoch=5)])]
    )
    with pytest.raises(UnencodableResponseError, match="leader_epoch"):
        encode(RequestHeader(2, 1, 1, None), False, response)


def test_the_controller_reaches_the_same_handlers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            requests = LocalRequests()
            with pytest.raises(AssertionError, match="not composed"):
                requests.handle(UpdateMetadataRequest(controller_epoch=0), 6)
            requests.serve(broker.services, Session.local("PLAINTEXT"))
            response = requests.handle(UpdateMetadataRequest(controller_epoch=0), 6)
            assert isinstance(response, Message)
            assert response.error_code == 11  # type: ignore[attr-defined]  # UpdateMetadataResponse has one

    run(scenario())


def test_who_asks_without_a_socket_gets_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            for name in ("t", GROUP_TOPIC):
                await client.create_topic(name)
            requests = LocalRequests()
            requests.serve(broker.services, Session.local("PLAINTEXT"))
            topic = OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 1)])
            response = requests.handle(OffsetCommitRequest("g", topics=[topic]), 8)
            answered = OffsetCommitResponseTopic("t", [OffsetCommitResponsePartition(0, 0)])
            assert response == OffsetCommitResponse(topics=[answered])

    run(scenario())
