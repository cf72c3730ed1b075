"""A long log read from its beginning, beside what the machine's `sendfile` does with the same files and fetches."""

import json
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.brokers.contestants import Arena, Contestant
from bench.brokers.machine import memory_size
from bench.clients.long_log import FETCH_SIZE, RECORD_SIZE, RECORDS_OF_A_BATCH
from bench.loads.load import Floor, Metrics, python_client
from harness.measure import LoadError, Meter, median

CLIENT = "bench.clients.long_log"
PASSES = 3


@dataclass(frozen=True)
class LongLog:
    """Reads `gigabytes` of 1 kB records in fetches of 1 MB on one connection, one after the other.

    Medians of a few passes, since a single one says little on a machine that others share. A log that doesn't lie twice
    in the machine's memory is taken out of the page cache before each reading: how much of it would be there depends
    on who read before.
    """

    gigabytes: int
    warm_ups = 0
    most_rounds = 1
    topic = "long"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        batches = self.gigabytes * 10**9 // (RECORD_SIZE * RECORDS_OF_A_BATCH)
        options: dict[str, int | str] = {"port": contestant.port, "topic": self.topic, "batches": batches}
        python_client(CLIENT, "fill", json.dumps(options))
        contestant.check_records(self.topic, batches * RECORDS_OF_A_BATCH)
        files = sorted(contestant.process.directory.glob(f"**/{self.topic}-0/*.log"))
        cold = 2 * sum(path.stat().st_size for path in files) > memory_size()
        with Floor("bench.floors.long_log", str(files[0].parent), self.topic) as floor:
            passes = [self._pass(contestant, files, floor, options, cold=cold) for _ in range(PASSES)]
        contestant.drop_topics()
        return {name: median(sorted(each[name] for each in passes)) or 0.0 for name in passes[0]}

    def _pass(
        self,
        contestant: Contestant,
        files: Sequence[Path],
        floor: Floor,
        options: dict[str, int | str],
        *,
        cold: bool,
    ) -> Metrics:
        """Reads the log from the broker, from the floor, and without any fetches, one after the other."""
        before_each = files if cold else ()
        forget(before_each)
        with Meter(contestant.pid) as meter:
            answer = python_client(CLIENT, "read", json.dumps(options))
        gigabytes = answer["bytes"] / 1e9
        if sum(path.stat().st_size for path in files) < answer["bytes"]:
            raise LoadError(f"the files of {self.topic} are shorter than what was read")
        forget(before_each)
        with Meter(floor.pid) as floor_meter:
            least = python_client(CLIENT, "read", json.dumps({**options, "port": floor.port}))
        forget(before_each)
        stream = sendfile_alone(files, asked=False)
        forget(before_each)
        alone = sendfile_alone(files, asked=True)
        return {
            "s_per_gb": meter.processor_s / gigabytes,
            "wall_s_per_gb": answer["wall_s"] / gigabytes,
            "floor_s_per_gb": floor_meter.processor_s / gigabytes,
            "floor_wall_s_per_gb": least["wall_s"] / gigabytes,
            "sendfile_s_per_gb": alone.processor_s / gigabytes,
            "sendfile_wall_s_per_gb": alone.wall_s / gigabytes,
            "stream_wall_s_per_gb": stream.wall_s / gigabytes,
            "wall_above_floor": answer["wall_s"] / least["wall_s"],
            "wall_above_sendfile": answer["wall_s"] / alone.wall_s,
        }


def forget(files: Sequence[Path]) -> None:
    """Takes the files out of the page cache, once the disk has them."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Alone(NamedTuple):
    """The cost of sending files without a broker: by the clock, and of the processor."""

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
