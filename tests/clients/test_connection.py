"""One connection: the newest common version, and clear errors when the other side is no broker."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import ClientError, NoBrokerError
from kafkapy.clock import SystemClock
from kafkapy.protocol.client_core import Handshake
from kafkapy.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.primitives import encode
from kafkapy.security.settings import ClientSecurity


@contextmanager
def _server(*answers: bytes) -> Iterator[int]:
    """A port where each request gets the next of ``answers``, and a closed connection after the last."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            for answer in answers:
                connection.recv(65536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def _frame(body: bytes, correlation_id: int = 1) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def _versions(*apis: tuple[int, int, int]) -> bytes:
    return _frame(encode(ApiVersionsResponse(0, [ApiVersion(*api) for api in apis]), 0))


def test_the_newest_version_that_both_sides_know_is_used() -> None:
    answer = encode(ListGroupsResponse(), 2)
    with _server(_versions((16, 0, 2)), _frame(answer, 2)) as port, Connection("127.0.0.1", port) as connection:
        assert connection.call(ListGroupsRequest(), ListGroupsResponse).groups == []


def test_a_client_authenticates_again_before_its_session_ends(bootstrap: str) -> None:
    made: list[str] = []

    def authenticate(host: str) -> Handshake:
        made.append(host)
        yield ListGroupsRequest(), 2
        return 1

    host, port = bootstrap.split(":")
    with Connection(host, int(port), security=ClientSecurity(authenticate=authenticate)) as connection:
        connection.post(ListGroupsRequest())
        assert made == [host]
        while len(made) < 3:
            connection.post(ListGroupsRequest())  # a response is awaited: not now
            assert connection.take(ListGroupsResponse).error_code == 0
            assert connection.take(ListGroupsResponse).error_code == 0
            assert connection.call(ListGroupsRequest(), ListGroupsResponse).error_code == 0
            connection.post(ListGroupsRequest())


@pytest.mark.parametrize("apis", [[], [(16, 90, 91)]])
def test_an_api_that_the_broker_does_not_serve(apis: list[tuple[int, int, int]]) -> None:
    with (
        _server(_versions((18, 0, 0), *apis)) as port,
        Connection("127.0.0.1", port) as connection,
        pytest.raises(ClientError, match="does not serve LIST_GROUPS"),
    ):
        connection.call(ListGroupsRequest(), ListGroupsResponse)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "speaks HTTP, not Kafka's protocol: give the address of a broker's plaintext listener",
        ),
        (struct.pack(">i", -1), "a response of -1 bytes"),
        (_frame(b"\0"), "does not answer as a Kafka broker"),
    ],
)
def test_a_server_that_is_no_kafka_broker_is_reported(answer: bytes, message: str) -> None:
    with (
        _server(answer) as port,
        Connection("127.0.0.1", port) as connection,
        pytest.raises(ClientError, match=message),
    ):
        connection.call(ListGroupsRequest(), ListGroupsResponse)


def test_a_broker_that_refuses_api_versions_is_reported() -> None:
    refusal = _frame(encode(ApiVersionsResponse(error_code=35), 0))
    with (
        _server(refusal) as port,
        Connection("127.0.0.1", port) as connection,
        pytest.raises(ClientError, match="does not answer as a Kafka broker: ApiVersions is refused with error 35"),
    ):
        connection.call(ListGroupsRequest(), ListGroupsResponse)


def test_the_client_waits_as_long_as_the_broker_asks() -> None:
    throttled = _frame(encode(ListGroupsResponse(throttle_time_ms=50), 2), 2)
    answer = _frame(encode(ListGroupsResponse(), 2), 3)
    with _server(_versions((16, 0, 2)), throttled, answer) as port, Connection("127.0.0.1", port) as connection:
        began = SystemClock().monotonic_s()
        connection.call(ListGroupsRequest(), ListGroupsResponse)
        connection.call(ListGroupsRequest(), ListGroupsResponse)
        assert SystemClock().monotonic_s() - began >= 0.05


def test_a_lost_connection_is_reported() -> None:
    with (
        _server(b"\0\0") as port,
        Connection("127.0.0.1", port) as connection,
        pytest.raises(NoBrokerError, match=rf"127\.0\.0\.1:{port}"),
    ):
        connection.call(ListGroupsRequest(), ListGroupsResponse)


def test_a_closed_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NoBrokerError, match=rf"no broker answers at 127\.0\.0\.1:{port}: Connection refused"):
        Connection("127.0.0.1", port)


def test_a_broker_that_never_answers() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Connection("127.0.0.1", server.getsockname()[1], timeout_s=0.05) as connection,
        pytest.raises(NoBrokerError, match=r"something listens there, .* within 0\.05 s.* no listener of a broker"),
    ):
        connection.call(ListGroupsRequest(), ListGroupsResponse)


def test_a_broker_that_answers_only_the_first_request() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Connection("127.0.0.1", server.getsockname()[1], timeout_s=0.5) as connection,
    ):
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(_versions((16, 0, 2)))
            with pytest.raises(NoBrokerError, match="does not answer: timed out"):
                connection.call(ListGroupsRequest(), ListGroupsResponse)


def test_a_broker_that_sends_half_of_a_response() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Connection("127.0.0.1", server.getsockname()[1], timeout_s=0.5) as connection,
    ):
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(_versions((16, 0, 2)))
            accepted.sendall((100).to_bytes(4, "big") + bytes(20))
            with pytest.raises(NoBrokerError, match="does not answer: timed out"):
                connection.call(ListGroupsRequest(), ListGroupsResponse)


def test_sending_into_a_closed_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection("127.0.0.1", server.getsockname()[1])
    connection.close()
    with pytest.raises(NoBrokerError, match="broke"):
        connection.call(ListGroupsRequest(), ListGroupsResponse)
