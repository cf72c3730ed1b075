import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.heartbeat import HeartbeatResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.primitives import UnsupportedVersion, encode
from kafkapy.protocol.writer import Writer
from kafkapy.server.dispatch import dispatcher as dispatch
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.encoded import Encoded, EncodedParts, decoded_handler
from kafkapy.server.dispatch.interception import Handle, Hooks, Result
from tests.server.harness import Client, run, running_broker


@pytest.mark.parametrize("version", [0, 1, 4])
def test_an_encoded_response_is_written_and_decoded_as_its_message(version: int) -> None:
    message = HeartbeatResponse(error_code=27)
    encoded = Encoded(message, version)
    assert encode(encoded, version) == encode(message, version)
    first, second = encoded.decoded(), encoded.decoded()
    assert first == message
    first.error_code = 0  # type: ignore[attr-defined]  # a heartbeat's
    assert (second, encoded.decoded()) == (message, message)


@pytest.mark.parametrize("version", [0, 4])
def test_the_frame_of_an_encoded_response_is_that_of_its_message(version: int) -> None:
    message, is_flexible = HeartbeatResponse(error_code=27), version == 4
    header = RequestHeader(HeartbeatResponse.API_KEY, version, -77, None)
    frame = Encoded(message, version).frame(header.correlation_id, flexible_header=is_flexible)
    assert [frame] == dispatch.encode(header, is_flexible, message)


def test_a_message_that_its_version_can_not_express_is_not_encoded() -> None:
    with pytest.raises(UnsupportedVersion):
        Encoded(HeartbeatResponse(), 5)


def test_a_decoded_handler_returns_messages() -> None:
    answers: list[Any] = [Encoded(HeartbeatResponse(), 0), HeartbeatResponse(error_code=1), None]
    handle = decoded_handler(lambda _context, request: answers[request])
    context: Any = None
    assert [handle(context, number) for number in range(3)] == [HeartbeatResponse(), answers[1], None]


class Changing:
    """Changes the answers to commits, as a fault rule does."""

    def start(self, services: Services) -> None:
        pass

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        response = handle(context, request)
        if isinstance(response, OffsetCommitResponse):
            response.topics[0].partitions[0].error_code = 99
        return response

    def stop(self) -> None:
        pass


def test_an_interceptor_changes_its_own_answer_alone(tmp_path: Path) -> None:
    async def code(name: str, hooks: Hooks) -> int:
        async with running_broker(tmp_path / name, hooks=hooks) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.create_topic(GROUP_METADATA_TOPIC)
            topic = OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 1)])
            response = await client.ask(OffsetCommitRequest("g", topics=[topic]), 8)
            await client.close()
            return int(response.topics[0].partitions[0].error_code)

    async def scenario() -> None:
        assert await code("before", Hooks()) == 0
        assert await code("changing", Hooks(Changing())) == 99
        assert await code("after", Hooks()) == 0

    run(scenario())


def test_encoded_parts_are_shared_and_written_as_their_message() -> None:
    message = HeartbeatResponse(error_code=27)
    shared = bytes(encode(message, 0)[4:])
    parts = EncodedParts(HeartbeatResponse, 0, [bytes(encode(message, 0)[:4]), shared])
    assert encode(parts, 0) == encode(message, 0)
    assert parts.decoded() == message
    writer = Writer()
    parts.write(writer, 0)
    assert writer.parts()[-1] is shared


def test_a_decoded_handler_decodes_the_response_of_a_coroutine() -> None:
    answers: list[Any] = [
        EncodedParts(HeartbeatResponse, 0, [encode(HeartbeatResponse(), 0)]), Encoded(HeartbeatResponse(), 0), None,
    ]  # fmt: skip

    async def answer(_context: Any, request: int) -> Any:
        return answers[request]

    handle: Any = decoded_handler(answer)
    assert [asyncio.run(handle(None, number)) for number in range(3)] == [
        HeartbeatResponse(),
        HeartbeatResponse(),
        None,
    ]
