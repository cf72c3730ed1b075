"""The least that answering produce requests can cost: epoll, recv, CRC-32C, pwrite and send, and nothing else.

`python -m bench.floors.small <topic>` prints its port, serves any number of connections and ends with its input. It
takes the very requests of `small_client` and nothing else.
"""

import os
import select
import socket
import struct
import sys
import tempfile
from threading import Thread

from crc32c import crc32c

from bench.clients.raw import HOST
from bench.clients.small import LARGE_SIZE

BUFFER_SIZE = 2 * LARGE_SIZE
SIZE = struct.Struct(">i")
BEFORE_CRC_COVERS = 21
"""Bytes of a batch in front of those that its CRC covers."""


class Floor:
    """Serves until it is stopped; `records_place` is where the records begin in a request of one partition."""

    def __init__(self, topic: str) -> None:
        self.listener = socket.create_server((HOST, 0), backlog=256)
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self.written = 0
        fields = struct.pack(f">iih{len(topic)}siihqqqi", 1, 1, len(topic), topic.encode(), 1, 0, 0, 0, -1, 0, 0)
        self.answer = SIZE.pack(len(fields)) + fields
        # size, header with the client id "bench", transactional id, acks, time-out, counts, topic, index, size
        self.records_place = 4 + 8 + 2 + 5 + 2 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4 + 4
        self.buffer = memoryview(bytearray(BUFFER_SIZE))
        self.poll = select.epoll()
        self.connections: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Answer what arrives."""
        self.poll.register(self.listener, select.EPOLLIN)
        while True:
            for number, _ in self.poll.poll():
                if number == self.listener.fileno():
                    connection, _ = self.listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.connections[connection.fileno()] = connection
                    self.poll.register(connection, select.EPOLLIN)
                else:
                    self.answer_one(number)

    def answer_one(self, number: int) -> None:
        """Take one request and answer it."""
        connection, buffer = self.connections[number], self.buffer
        have = connection.recv_into(buffer)
        if not have:
            self.poll.unregister(connection)
            self.connections.pop(number).close()
            return
        size = SIZE.size + SIZE.unpack_from(buffer)[0]
        while have < size:
            have += connection.recv_into(buffer[have:])
        records = buffer[self.records_place : size]
        crc32c(records[BEFORE_CRC_COVERS:])
        self.written += os.pwrite(self.file.fileno(), records, self.written)
        connection.send(self.answer)


def main() -> None:
    """Serve until the input ends."""
    floor = Floor(sys.argv[1])
    print(floor.listener.getsockname()[1], flush=True)
    Thread(target=floor.serve, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
