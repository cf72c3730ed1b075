"""The least that answering fetches can cost: a server that finds equal batches by counting and sends them by sendfile.

`python -m bench.floors.long_log <folder of a partition> <topic>` prints its port, serves one connection after the other
and ends with its input. It takes the very requests of `long_log_client` and nothing else.
"""

import os
import socket
import struct
import sys
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from bench.clients.long_log import BATCH, FETCH_SIZE, OVERHEAD, RECORDS_OF_A_BATCH

REQUEST_SIZE = 4096
BEHIND_OFFSET = 8 + 4 + 4 + 2
"""The fields behind the offset in a fetch of version 11: log start, bytes, forgotten topics, rack."""


class Segments:
    """Where each offset lies, in files whose batches are all alike."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.bases = [int(path.stem) for path in paths]
        self.sizes = [path.stat().st_size for path in paths]
        self.files = [os.open(path, os.O_RDONLY) for path in paths]
        self.batch_size = BATCH.unpack(os.pread(self.files[0], BATCH.size, 0))[1] + OVERHEAD

    def find(self, offset: int) -> tuple[int, int, int]:
        """Descriptor, position, and how many bytes to send."""
        place = bisect_right(self.bases, offset) - 1
        position = (offset - self.bases[place]) // RECORDS_OF_A_BATCH * self.batch_size
        return self.files[place], position, min(FETCH_SIZE, self.sizes[place] - position)


def head(topic: str, size: int) -> bytes:
    """A fetch response of version 11 up to its records, with the frame's size before it."""
    fields = struct.pack(f">iihiih{len(topic)}siihqqqiii", 1, 0, 0, 0, 1, len(topic), topic.encode(), 1, 0, 0,
                         0, 0, 0, -1, -1, size)  # fmt: skip
    return struct.pack(">i", len(fields) + size) + fields


def serve(connection: socket.socket, segments: Segments, topic: str) -> None:
    """Answers until the client has closed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while request := connection.recv(REQUEST_SIZE):
        (offset,) = struct.unpack_from(">q", request, len(request) - BEHIND_OFFSET - 8)
        file, position, size = segments.find(offset)
        connection.sendall(head(topic, size))
        while size:
            sent = os.sendfile(connection.fileno(), file, position, size)
            position += sent
            size -= sent


def main() -> None:
    """Serves what the command line names."""
    segments = Segments(sorted(Path(sys.argv[1]).glob("*.log")))
    Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                serve(connection, segments, sys.argv[2])


if __name__ == "__main__":
    main()
