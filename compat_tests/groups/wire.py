"""A blocking client that sends any request in any version, and says what came back."""

import select
import socket
from types import TracebackType
from typing import Any, Self

from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.protocol.primitives import Reader, Writer

TIMEOUT_S = 30
RANGE = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


class Wire:
    """One connection."""

    def __init__(self, bootstrap: str, client_id: str | None = "wire") -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._client_id = client_id
        self._sent: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        writer = Writer()
        write_request_header(writer, RequestHeader(request.API_KEY, version, len(self._sent), self._client_id))
        request.write(writer, version)
        frame = writer.getvalue()
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        self._sent.append((request.API_KEY, version))

    def has_answer(self, timeout_s: float = 0.2) -> bool:
        return bool(select.select([self._socket], [], [], timeout_s)[0])

    def receive(self) -> Any:
        size = int.from_bytes(self._exactly(4), "big")
        reader = Reader(memoryview(self._exactly(size)))
        key, version = self._sent[-1]
        read_response_header(reader, key, version)
        response = response_class(key).read(reader, version)
        reader.expect_end()
        return response

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data


def join_request(group_id: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    names = fields.pop("protocols", ("range",))
    defaults: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name, RANGE) for name in names],
    }
    return JoinGroupRequest(group_id=group_id, member_id=member_id, **(defaults | fields))


def sync_request(group_id: str, generation_id: int, member_id: str, **fields: Any) -> SyncGroupRequest:
    parts = fields.pop("parts", {})
    assignments = [SyncGroupRequestAssignment(each, part) for each, part in parts.items()]
    return SyncGroupRequest(group_id, generation_id, member_id, assignments=assignments, **fields)


def find_coordinator(wire: Wire, group_id: str) -> Any:
    """Ask until the coordinator is there: real Kafka creates its topic on the first question."""
    while True:
        response = wire.ask(FindCoordinatorRequest(group_id), 0)
        if response.error_code != 15:
            break
        wire.has_answer(0.1)
    while wire.ask(join_request(group_id, "nobody"), 1).error_code != 25:
        wire.has_answer(0.1)  # 14 or 16: the partition is still being taken over
    return response


def create_topic(wire: Wire, name: str) -> None:
    topics = [CreatableTopic(name, num_partitions=1, replication_factor=1)]
    assert wire.ask(CreateTopicsRequest(topics, timeout_ms=10_000), 4).topics[0].error_code in (0, 36)
    wire.has_answer(0.1)
