"""Counts the responses that arrive on a connection."""

import socket
from typing import Final

READ_SIZE: Final = 1 << 20


class Answers:
    """Counts the frames that come over a connection, without keeping them."""

    def __init__(self, read_size: int = READ_SIZE) -> None:
        self.count = 0
        self._buffer = bytearray(read_size)
        self._head = b""
        self._left = 0

    def receive(self, connection: socket.socket) -> bool:
        """Count the frames that have arrived; False at the end of the stream."""
        size = connection.recv_into(self._buffer)
        self._count(memoryview(self._buffer)[:size])
        return size > 0

    def _count(self, data: memoryview) -> None:
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
                self.count += not self._left
                continue
            missing = 4 - len(self._head)
            self._head += bytes(data[:missing])
            data = data[missing:]
            if len(self._head) == 4:
                self._left, self._head = int.from_bytes(self._head, "big"), b""
                self.count += not self._left
