"""A long log read from its beginning, beside what the machine's `sendfile` does with the same files."""

import json
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.brokers import Arena, Contestant, LoadError
from bench.loads import Metrics, python_client
from bench.long_log_client import FETCH_SIZE, RECORD_SIZE, RECORDS_OF_A_BATCH
from bench.measure import Meter

CLIENT = "bench.long_log_client"


@dataclass(frozen=True)
class LongLog:
    """Reads `gigabytes` of 1 kB records in fetches of 1 MB on one connection, one after the other."""

    gigabytes: int
    warm_ups = 0
    most_rounds = 1
    topic = "long"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        batches = self.gigabytes * 10**9 // (RECORD_SIZE * RECORDS_OF_A_BATCH)
        options = json.dumps({"port": contestant.port, "topic": self.topic, "batches": batches})
        python_client(CLIENT, "fill", options)
        contestant.check_records(self.topic, batches * RECORDS_OF_A_BATCH)
        with Meter(contestant.pid) as meter:
            answer = python_client(CLIENT, "read", options)
        gigabytes = answer["bytes"] / 1e9
        files = sorted(contestant.process.directory.glob(f"**/{self.topic}-0/*.log"))
        if sum(path.stat().st_size for path in files) < answer["bytes"]:
            raise LoadError(f"the files of {self.topic} are shorter than what was read")
        stream, alone = sendfile_alone(files, asked=False), sendfile_alone(files, asked=True)
        contestant.drop_topics()
        return {
            "s_per_gb": meter.processor_s / gigabytes,
            "wall_s_per_gb": answer["wall_s"] / gigabytes,
            "sendfile_s_per_gb": alone.processor_s / gigabytes,
            "sendfile_wall_s_per_gb": alone.wall_s / gigabytes,
            "stream_wall_s_per_gb": stream.wall_s / gigabytes,
            "wall_above_sendfile": answer["wall_s"] / alone.wall_s,
        }


class Alone(NamedTuple):
    """What sending files takes without a broker: by the clock, and of the processor."""

    wall_s: float
    processor_s: float


def sendfile_alone(files: Sequence[Path], *, asked: bool) -> Alone:
    """Sends the files by the megabyte over a loopback connection; the reader ends there.

    With `asked` the reader asks for each megabyte when it has the one before, as a consumer does.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        size = sum(path.stat().st_size for path in files)
        reader = threading.Thread(target=_read_all, args=(server.getsockname()[1], size, asked))
        reader.start()
        connection, _ = server.accept()
        began, used_s = time.monotonic(), time.thread_time()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _send_all(connection, files, asked)
            used_s = time.thread_time() - used_s
            reader.join()
        return Alone(time.monotonic() - began, used_s)


def _send_all(connection: socket.socket, files: Sequence[Path], asked: bool) -> None:
    left = 0
    for path in files:
        with path.open("rb") as file:
            position, end = 0, path.stat().st_size
            while position < end:
                if asked and not left:
                    connection.recv(1)
                    left = FETCH_SIZE
                wanted = min(end - position, left if asked else FETCH_SIZE)
                sent = os.sendfile(connection.fileno(), file.fileno(), position, wanted)
                position += sent
                left -= sent


def _read_all(port: int, size: int, asked: bool) -> None:
    buffer = memoryview(bytearray(FETCH_SIZE))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while size > 0:
            have, wanted = 0, min(FETCH_SIZE, size)
            if asked:
                connection.sendall(b"?")
            while have < wanted:
                have += connection.recv_into(buffer[have:wanted])
            size -= wanted
