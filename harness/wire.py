"""A blocking client that sends any request in any version and returns the response."""

import select
import socket
from types import TracebackType
from typing import Any, Self

from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.primitives import Reader, Writer

TIMEOUT_S = 30


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
