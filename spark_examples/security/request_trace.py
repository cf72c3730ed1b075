"""The input of the security pipeline: the trace of a kafkapy broker while real clients use it, and some misuse it.

Each client is a process with a loopback address of its own (Linux gives 127.0.0.0/8 away), so that the trace tells them
apart as it would tell machines. All are kafka-python; only the flood is a bare socket that sends valid requests.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from spark_examples.common.broker import running_broker

ROOT = Path(__file__).resolve().parents[2]
TOPICS = tuple(f"topic-{number:02d}" for number in range(60))
OWN_TOPICS = TOPICS[:10]
"""What an honest client reads at most."""
SCANS, SCAN_PAUSE_S, SLOW_TOPICS = 2, 7.0, 40
FLOOD = 1500
API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""A whole request: size, API, version, correlation id, no client id."""
END_TIMEOUT_S = 120


class BoundSocket(socket.socket):
    """A socket that connects from the address of its process."""

    source: str = "127.0.0.1"
    _is_bound = False

    def connect_ex(self, address: Any, /) -> int:
        """As of any socket, the first time after binding it."""
        self._bind()
        return super().connect_ex(address)

    def connect(self, address: Any, /) -> None:
        """As of any socket, the first time after binding it."""
        self._bind()
        super().connect(address)

    def _bind(self) -> None:
        if self.family == socket.AF_INET and not self._is_bound:
            self.bind((self.source, 0))
            self._is_bound = True


def produce(bootstrap: str, seconds: float) -> None:
    """Ten records a second."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        producer.send(OWN_TOPICS[0], b"order")
        time.sleep(0.1)
    producer.close()


def consume(bootstrap: str, seconds: float) -> None:
    """A member of a group."""
    _poll(KafkaConsumer(OWN_TOPICS[0], bootstrap_servers=bootstrap, group_id="billing"), seconds)


def watch(bootstrap: str, seconds: float) -> None:
    """Reads ten topics, as many as an honest client does."""
    _poll(KafkaConsumer(*OWN_TOPICS, bootstrap_servers=bootstrap), seconds)


def list_topics(bootstrap: str, seconds: float) -> None:
    """Asks for all topics twice a second, in one request."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        admin.list_topics()
        time.sleep(0.5)
    admin.close()


def scan(bootstrap: str, _: float) -> None:
    """Looks at each topic by itself, one after the other; and comes again when it should be forgotten."""
    for number in range(SCANS):
        time.sleep(SCAN_PAUSE_S if number else 0)
        _look_at(bootstrap, TOPICS, 0)


def scan_slowly(bootstrap: str, seconds: float) -> None:
    """As `scan`, but so slowly that its rate tells nothing."""
    _look_at(bootstrap, TOPICS[:SLOW_TOPICS], seconds / SLOW_TOPICS)


def flood(bootstrap: str, _: float) -> None:
    """Very many requests, without waiting for the responses between."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(API_VERSIONS_V0 * FLOOD)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass


def _poll(consumer: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        consumer.poll(200)
    consumer.close()


def _look_at(bootstrap: str, names: tuple[str, ...], pause_s: float) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    for name in names:
        consumer.beginning_offsets([TopicPartition(name, 0)])
        time.sleep(pause_s)
    consumer.close()


class Planted(NamedTuple):
    """A client: its address, what it does, and how a crawler among them gives itself away."""

    address: str
    role: Callable[[str, float], None]
    crawls: str | None = None


CLIENTS: Final = (
    Planted("127.0.0.11", produce),
    Planted("127.0.0.12", consume),
    Planted("127.0.0.13", watch),
    Planted("127.0.0.14", list_topics),
    Planted("127.0.0.66", scan, "topics"),
    Planted("127.0.0.67", flood, "rate"),
    Planted("127.0.0.68", scan_slowly, "topics"),
)


def record(seconds: float, log: Path) -> list[bytes]:
    """The trace of a broker of its own, whose log goes into `log`, while all clients run.

    Raises NoBrokerError, or RuntimeError if a client fails.
    """
    with running_broker(None, log, trace=True) as bootstrap:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics({name: {"num_partitions": 1} for name in TOPICS}, wait_for_metadata=True)
        admin.close()
        begin = log.stat().st_size
        _run_clients(bootstrap, seconds)
    with log.open("rb") as lines:
        lines.seek(begin)
        return [line for line in lines.read().splitlines() if _is_traced(line)]


def _is_traced(line: bytes) -> bool:
    """Whether it is a line of the trace, not of the broker's log, and whole."""
    try:
        told = json.loads(line)
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("kind") in ("request", "response")


def _run_clients(bootstrap: str, seconds: float) -> None:
    command = [sys.executable, "-m", "spark_examples.security.request_trace", bootstrap, str(seconds)]
    clients = [
        subprocess.Popen([*command, planted.address], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for planted in CLIENTS
    ]
    try:
        for planted, client in zip(CLIENTS, clients, strict=True):
            _, errors = client.communicate(timeout=seconds + END_TIMEOUT_S)
            if client.returncode:
                raise RuntimeError(f"The client at {planted.address} failed:\n{errors[-2000:]}")
    finally:
        for client in clients:
            client.kill()


def write_trace(lines: list[bytes], path: Path) -> None:
    """Keeps the trace, to run the pipeline on it again."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def end_with_parent(parent: int) -> None:
    """Ends this process within half a second of the one that has started it, however that ends."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    bootstrap, seconds, address = sys.argv[1:]
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    BoundSocket.source = address
    socket.socket = BoundSocket  # type: ignore[misc] # kafka-python has no option for the address to connect from
    role = next(planted.role for planted in CLIENTS if planted.address == address)
    role(bootstrap, float(seconds))


if __name__ == "__main__":
    main()
