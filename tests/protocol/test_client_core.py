"""The client's side of a connection, without a socket."""

import random
import struct
import tracemalloc

import pytest

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.client_core import ClientCore, OtherProtocol
from kafkapy.protocol.framing import FrameTooLarge, InvalidFrameLength
from kafkapy.protocol.headers import read_request_header, write_response_header
from kafkapy.protocol.message import InvalidValue, Message, ProtocolError, UnsupportedVersion
from kafkapy.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.protocol.primitives import Reader, Writer

GROUPS = ListGroupsResponse(groups=[ListedGroup("g", "consumer", "Stable"), ListedGroup("h", "", "Empty")])


def response_frame(api_key: int, version: int, correlation_id: int, response: Message) -> bytes:
    writer = Writer()
    write_response_header(writer, api_key, version, correlation_id)
    response.write(writer, version)
    body = writer.getvalue()
    return struct.pack(">i", len(body)) + body


def asking(*versions: int) -> ClientCore:
    """A core that has sent a ListGroups request in each version."""
    core = ClientCore("test")
    for version in versions:
        core.request(ListGroupsRequest(), version)
    return core


def negotiated(core: ClientCore, *apis: tuple[int, int, int]) -> None:
    handshake = core.negotiate()
    assert next(handshake) == (ApiVersionsRequest(), 0)
    with pytest.raises(StopIteration):
        handshake.send(ApiVersionsResponse(api_keys=[ApiVersion(*api) for api in apis]))


def test_a_request_is_a_frame_with_a_header_and_the_next_correlation_id() -> None:
    core = ClientCore("me")
    for correlation_id in (1, 2):
        data = core.request(MetadataRequest(), 9)
        assert struct.unpack(">i", data[:4]) == (len(data) - 4,)
        reader = Reader(data[4:])
        assert read_request_header(reader)[:4] == (ApiKey.METADATA, 9, correlation_id, "me")
        assert MetadataRequest.read(reader, 9) == MetadataRequest()
        reader.expect_end()


def test_a_request_that_its_version_can_not_express_is_refused_and_not_awaited() -> None:
    core = ClientCore("me")
    with pytest.raises(ProtocolError):
        core.request(HeartbeatRequest("g", 1, "m", group_instance_id="i"), 0)
    with pytest.raises(InvalidValue, match="HeartbeatRequest"):
        core.request(HeartbeatRequest("g", 1 << 40, "m"), 0)
    assert not core.awaits_response


def test_responses_may_arrive_in_pieces_of_any_size() -> None:
    stream = b"".join(response_frame(ApiKey.LIST_GROUPS, version, at, GROUPS) for at, version in ((1, 4), (2, 4)))
    pieces = [[stream[:cut], stream[cut:]] for cut in range(len(stream) + 1)]
    pieces.append([stream[at : at + 1] for at in range(len(stream))])
    for split in pieces:
        core, responses = asking(4, 4), []
        for piece in split:
            core.receive_data(piece)
            while (response := core.next_response()) is not None:
                responses.append(response)
        assert responses == [GROUPS, GROUPS]
        assert not core.awaits_response


def test_an_incomplete_response_is_none() -> None:
    core = asking(4)
    core.receive_data(response_frame(ApiKey.LIST_GROUPS, 4, 1, GROUPS)[:-1])
    assert core.next_response() is None
    assert core.awaits_response


def test_a_request_without_response_takes_no_place_in_the_order() -> None:
    core = ClientCore("test")
    core.request(ProduceRequest(acks=0), 8, has_response=False)
    assert not core.awaits_response
    core.request(ListGroupsRequest(), 0)
    core.receive_data(response_frame(ApiKey.LIST_GROUPS, 0, 2, ListGroupsResponse()))
    assert core.next_response() == ListGroupsResponse()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (response_frame(ApiKey.LIST_GROUPS, 4, 2, GROUPS), ProtocolError, "correlation id 2 in place of 1"),
        (struct.pack(">ii", 4, 1), ProtocolError, None),
        (struct.pack(">i", 0), ProtocolError, None),
        (struct.pack(">i", 3) + b"abc", ProtocolError, None),
        (struct.pack(">i", -1), InvalidFrameLength, "-1 bytes"),
        (struct.pack(">i", 1001), FrameTooLarge, "1001 bytes, at most 1000"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", OtherProtocol, "it speaks HTTP, not Kafka's protocol"),
        (b"\x15\x03\x01\0\x02\x02\x46", OtherProtocol, "it speaks TLS"),
        (b"HTTX", FrameTooLarge, "1213486168 bytes"),
        (struct.pack(">ii", 40, 1) + b"\xff" * 36, ProtocolError, None),
        (struct.pack(">iib", 12, 1, 0) + bytes(7) + b"\x01", ProtocolError, None),
        (response_frame(ApiKey.LIST_GROUPS, 4, 1, GROUPS)[4:], ProtocolError, None),
    ],
)
def test_bytes_that_are_no_response_end_the_connection(
    data: bytes, error: type[Exception], message: str | None
) -> None:
    core = ClientCore("test", max_response_size=1000)
    core.request(ListGroupsRequest(), 4)
    core.receive_data(data + bytes(1000))
    with pytest.raises(error, match=message):
        core.next_response()
    core.receive_data(response_frame(ApiKey.LIST_GROUPS, 4, 1, GROUPS))
    with pytest.raises(error):
        core.next_response()
    with pytest.raises(error):
        core.request(ListGroupsRequest(), 4)


def test_responses_before_broken_bytes_are_returned() -> None:
    core = asking(4, 4)
    core.receive_data(response_frame(ApiKey.LIST_GROUPS, 4, 1, GROUPS) + struct.pack(">i", -5))
    assert core.next_response() == GROUPS
    with pytest.raises(InvalidFrameLength):
        core.next_response()


def test_a_response_without_a_request_is_refused() -> None:
    core = ClientCore("test")
    core.receive_data(response_frame(ApiKey.LIST_GROUPS, 4, 1, GROUPS))
    with pytest.raises(ProtocolError, match="no request"):
        core.next_response()


def test_bytes_after_the_response_in_a_frame_are_refused() -> None:
    core = asking(0)
    frame = response_frame(ApiKey.LIST_GROUPS, 0, 1, ListGroupsResponse())
    core.receive_data(struct.pack(">i", len(frame) - 3) + frame[4:] + b"x")
    with pytest.raises(ProtocolError, match="left over"):
        core.next_response()


def test_random_bytes_raise_nothing_but_protocol_errors() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        core = asking(chance.choice((0, 3, 4)))
        data = bytearray(response_frame(ApiKey.LIST_GROUPS, 4, 1, GROUPS))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        core.receive_data(bytes(data))
        try:
            assert core.next_response() is not None
        except ProtocolError:
            continue


def test_an_announced_size_takes_no_memory() -> None:
    core = ClientCore("test", max_response_size=1 << 30)
    core.request(ListGroupsRequest(), 4)
    data = struct.pack(">i", 1 << 30) + bytes(100_000)
    tracemalloc.start()
    try:
        core.receive_data(data)
        assert core.next_response() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 250_000


def test_the_newest_version_that_both_know_is_chosen() -> None:
    core = ClientCore("test", highest={ApiKey.METADATA: 9})
    assert not core.has_negotiated
    negotiated(core, (ApiKey.LIST_GROUPS, 1, 3), (ApiKey.METADATA, 0, 12), (ApiKey.HEARTBEAT, 90, 91))
    assert core.has_negotiated
    assert core.version_of(ListGroupsRequest()) == 3
    assert core.version_of(MetadataRequest()) == 9
    for request in (HeartbeatRequest(), ProduceRequest()):
        with pytest.raises(UnsupportedVersion, match="is not served"):
            core.version_of(request)


def test_refused_api_versions_raise() -> None:
    handshake = ClientCore("test").negotiate()
    next(handshake)
    with pytest.raises(ProtocolError, match="error 35"):
        handshake.send(ApiVersionsResponse(error_code=35))


@pytest.mark.parametrize(("version", "throttle_ms"), [(1, 0), (2, 700)])
def test_the_client_waits_from_the_version_in_which_the_broker_does_not(version: int, throttle_ms: int) -> None:
    core = ClientCore("test")
    core.request(HeartbeatRequest("g", 1, "m"), version)
    core.receive_data(response_frame(ApiKey.HEARTBEAT, version, 1, HeartbeatResponse(throttle_time_ms=700)))
    assert core.next_response() == HeartbeatResponse(throttle_time_ms=700)
    assert core.throttle_ms == throttle_ms
    core.request(HeartbeatRequest("g", 1, "m"), version)
    assert core.throttle_ms == 0


def test_a_negative_throttle_time_counts_as_zero() -> None:
    core = ClientCore("test")
    core.request(HeartbeatRequest("g", 1, "m"), 2)
    core.receive_data(response_frame(ApiKey.HEARTBEAT, 2, 1, HeartbeatResponse(throttle_time_ms=-5)))
    core.next_response()
    assert core.throttle_ms == 0
