"""One of the two brokers, and connections to it that carry frames as they are."""

import select
import socket
import struct
import time
from contextlib import suppress
from typing import Any, Final

from kafkapy.protocol.headers import read_response_header
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages import has_classes, response_class
from kafkapy.protocol.primitives import encode
from kafkapy.protocol.reader import Reader

TIMEOUT_S: Final = 20.0
CLOSED: Final = "closed"
PROBE: Final = struct.pack(">hhih", 18, 0, 0x7FFFFFF0, -1)
"""ApiVersions v0: whether a connection, or a broker, still answers."""


class SilentError(Exception):
    """A broker has neither answered nor closed the connection."""


class Connection:
    """A connection that sends and receives frames."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, frame: bytes, announced: int | None = None) -> None:
        """Send one frame; ``announced`` is its size unless it lies."""
        with suppress(ConnectionError):  # earlier answers, or the end of the stream, can still be read
            self._socket.sendall(struct.pack(">i", len(frame) if announced is None else announced) + frame)

    def has_answer(self, timeout_s: float) -> bool:
        """Whether anything has come by then."""
        return bool(self._received or select.select([self._socket], [], [], timeout_s)[0])

    def receive(self, timeout_s: float = TIMEOUT_S) -> bytes | str | None:
        """A frame without its size, ``CLOSED``, or None when there is nothing in time."""
        deadline = time.monotonic() + timeout_s
        while not self._is_whole():
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                return None
            try:
                piece = self._socket.recv(1 << 20)
            except ConnectionError:
                piece = b""
            if not piece:
                return CLOSED
            self._received += piece
        size = 4 + int.from_bytes(self._received[:4], "big")
        frame, self._received = self._received[4:size], self._received[size:]
        return frame

    def _is_whole(self) -> bool:
        return len(self._received) >= 4 and len(self._received) >= 4 + int.from_bytes(self._received[:4], "big")

    def close(self) -> None:
        self._socket.close()


class Side:
    """A broker and the connections to it, which are opened when they are used first."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.port = int(bootstrap.rpartition(":")[2])
        self._connections: dict[int, Connection] = {}
        self._bystander = Connection(bootstrap)

    def connection(self, number: int) -> Connection:
        if number not in self._connections:
            self._connections[number] = Connection(self.bootstrap)
        return self._connections[number]

    def drop(self, number: int) -> None:
        """Close a connection; the next use opens another."""
        connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()

    def drop_all(self) -> None:
        """Close all connections except the harness's own."""
        for number in [each for each in self._connections if each >= 0]:
            self.drop(number)

    def serves_others(self) -> bool:
        """Whether a client that was connected all the time still gets answers."""
        self._bystander.send(PROBE)
        return isinstance(self._bystander.receive(), bytes)

    def ask(self, frame: bytes) -> bytes:
        """The answer to a valid request on the harness's own connection."""
        connection = self.connection(-1)
        connection.send(frame)
        answer = connection.receive()
        if not isinstance(answer, bytes):
            raise SilentError(f"{self.bootstrap}: {answer} to {frame.hex()}")
        return answer

    def close(self) -> None:
        for number in list(self._connections):
            self.drop(number)
        self._bystander.close()


def decoded(answer: bytes, key: int, version: int) -> Any:
    """The response, or None where the bytes are not the one that this version has, to the last byte."""
    if not has_classes(key):
        return None
    reader = Reader(memoryview(answer))
    try:
        read_response_header(reader, key, version)
        start = reader.position
        response = response_class(key).read(reader, version)
        reader.expect_end()
    except ProtocolError:
        return None
    return response if encode(response, version) == answer[start:] else None
