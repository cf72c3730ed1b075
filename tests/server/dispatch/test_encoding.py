import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkapy.protocol.messages.heartbeat import HeartbeatResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.primitives import UnsupportedVersion, encode
from kafkapy.protocol.writer import Writer
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.encoding import (
    ConstantTemplate,
    EncodedParts,
    Filled,
    FilledWithRecords,
    RecordsTemplate,
    ResponseTemplate,
)
from kafkapy.server.dispatch.encoding import encode as encode_frame
from kafkapy.server.dispatch.interception import Hooks, decoded_handler
from kafkapy.server.dispatch.result import Handle, Result
from tests.server.harness import run, running_broker


def heartbeat(error_code: int = 0, version: int = 0) -> Filled:
    return Filled(ConstantTemplate(HeartbeatResponse(error_code=error_code), version))


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_filled_template_is_encoded_and_decoded_as_its_message(version: int) -> None:
    if version:
        template = ResponseTemplate(HeartbeatResponse, "ih", version)
    else:
        template = ResponseTemplate(lambda code: HeartbeatResponse(0, code), "h", version)
    header = RequestHeader(HeartbeatResponse.API_KEY, version, -77, None)
    for integers in ((5, 27), (-1, 0)) if version else ((27,), (-1,)):
        message = template.make(*integers)
        filled = Filled(template, integers)
        assert encode_frame(header, version == 4, filled) == encode_frame(header, version == 4, message)
        first, second = filled.decoded(), filled.decoded()
        assert first == message
        first.error_code = 99  # type: ignore[attr-defined]  # a heartbeat's
        assert second == filled.decoded() == message


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_constant_response_is_encoded_and_decoded_as_its_message(version: int) -> None:
    header, message = RequestHeader(HeartbeatResponse.API_KEY, version, -77, None), HeartbeatResponse(0, 27)
    constant = heartbeat(27, version)
    assert encode_frame(header, version == 4, constant) == encode_frame(header, version == 4, message)
    decoded: Any = constant.decoded()
    assert decoded == message
    decoded.error_code = 99
    assert constant.decoded() == message


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("records", [b"", b"r", bytes(200), bytes(5000)], ids=len)
def test_a_template_with_records_is_encoded_as_its_message(version: int, records: bytes) -> None:
    def make(offset: int, found: Any) -> FetchResponse:
        row = PartitionData(3, 0, offset, records=found)
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[row])])

    template = RecordsTemplate(make, "q", version)
    header = RequestHeader(FetchResponse.API_KEY, version, 5, None)
    filled, message = FilledWithRecords(template, (1 << 40,), records), make(1 << 40, records)
    assert filled.decoded() == message
    frames = [b"".join(map(bytes, encode_frame(header, version == 12, each))) for each in (filled, message)]  # type: ignore[arg-type]
    assert frames[0] == frames[1]


def test_a_message_that_its_version_can_not_express_is_not_encoded() -> None:
    with pytest.raises(UnsupportedVersion):
        heartbeat(version=5)


def test_a_decoded_handler_returns_messages() -> None:
    answers: list[Any] = [heartbeat(), HeartbeatResponse(error_code=1), None]
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
            topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
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
        EncodedParts(HeartbeatResponse, 0, [encode(HeartbeatResponse(), 0)]), heartbeat(), None,
    ]  # fmt: skip

    async def answer(_context: Any, request: int) -> Any:
        return answers[request]

    handle: Any = decoded_handler(answer)
    assert [asyncio.run(handle(None, number)) for number in range(3)] == [
        HeartbeatResponse(),
        HeartbeatResponse(),
        None,
    ]
