"""A client with small requests, in its own process, which measures the latency of each response during attacks.

    python -m compat_tests.attack.second_client PORT INTERVAL_S [TOPIC]

The process sends ApiVersions v0 every ``INTERVAL_S`` seconds, one request at a time on one connection. With ``TOPIC``
it takes turns between ApiVersions, Metadata of that topic, and Produce of one record to it. It reads one-word commands
from its standard input and answers each with one line of JSON, also while it waits for the broker:

    report         what was measured since the last report (``Report``)
    acknowledged   the offsets of the acknowledged records, in the order of sending
    stop           end

``SecondClient`` starts it and speaks to it.
"""

import gc
import json
import select
import socket
import struct
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from compat_tests.attack.latencies import Sample
from harness.process import HOST
from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Writer
from kafkapy.records.record import Record, encode_batch

API_VERSIONS, METADATA, PRODUCE = "ApiVersions", "Metadata", "Produce"
RECONNECT_S: Final = 0.02
COMMAND_S: Final = 10.0
"""How long an answer to a command may take: the process never waits for the broker alone."""


class Request(NamedTuple):
    """A request of this client."""

    kind: str
    api_key: int
    version: int
    frame: bytes


class Report(NamedTuple):
    """The measurements of the process since the last report."""

    samples: list[Sample]
    waiting_s: float
    """For how long the current request has had no answer."""
    faults: list[str]
    """Answers that were wrong or missing, closed connections."""


class Client:
    """The client, within its process."""

    def __init__(self, port: int, interval_s: float, topic: str | None) -> None:
        self._port = port
        self._interval_s = interval_s
        self._topic = topic
        self._connection: socket.socket | None = None
        self._sent = 0
        self._acknowledged: list[tuple[int, int]] = []
        self._samples: list[Sample] = []
        self._faults: list[str] = []
        self._sent_at_s = 0.0
        self._stopped = False

    def run(self) -> None:
        """Send and measure until ``stop`` is read, or the end of the standard input."""
        while not self._stopped:
            if self._connection is None and not self._connect():
                self._idle(RECONNECT_S)
                continue
            request = self._next_request()
            self._sent_at_s = time.monotonic()
            try:
                answer = self._ask(request)
            except OSError as error:
                self._lost(f"{request.kind}: {error}")
                continue
            if answer is None:
                return
            self._samples.append((request.kind, self._sent_at_s, time.monotonic() - self._sent_at_s))
            self._sent_at_s = 0.0
            self._check(request, answer)
            self._sent += 1
            self._idle(self._interval_s)

    def _connect(self) -> bool:
        try:
            self._connection = socket.create_connection((HOST, self._port), 5)
        except OSError:
            return False
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return True

    def _lost(self, why: str) -> None:
        self._faults.append(why)
        self._sent += 1
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._sent_at_s = 0.0

    def _next_request(self) -> Request:
        if self._topic is None or self._sent % 3 == 0:
            return Request(API_VERSIONS, 18, 0, struct.pack(">hhih", 18, 0, self._sent, -1))
        if self._sent % 3 == 1:
            return self._encoded(METADATA, 4, MetadataRequest([MetadataRequestTopic(name=self._topic)]))
        batch = encode_batch([Record(None, b"%d" % self._sent, int(time.time() * 1000))])
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(0, batch)])
        return self._encoded(PRODUCE, 7, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]))

    def _encoded(self, kind: str, version: int, request: Any) -> Request:
        writer = Writer()
        write_request_header(writer, RequestHeader(request.API_KEY, version, self._sent, "second"))
        request.write(writer, version)
        return Request(kind, request.API_KEY, version, writer.getvalue())

    def _ask(self, request: Request) -> bytes | None:
        """The answer's frame; None when the process is to end first."""
        connection = self._connection
        assert connection is not None
        connection.sendall(len(request.frame).to_bytes(4, "big") + request.frame)
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            if connection not in select.select([connection, sys.stdin], [], [])[0]:
                self._obey()
                if self._stopped:
                    return None
                continue
            piece = connection.recv(65_536)
            if not piece:
                raise ConnectionError("the broker closed the connection")
            received += piece
        return received[4:]

    def _check(self, request: Request, answer: bytes) -> None:
        reader = Reader(answer)
        try:
            correlation_id = read_response_header(reader, request.api_key, request.version)
            response: Any = response_class(request.api_key).read(reader, request.version)
            reader.expect_end()
        except ProtocolError as error:
            self._faults.append(f"{request.kind}: undecodable answer: {error}")
            return
        error_code = self._error_code(request, response)
        if correlation_id != self._sent or error_code:
            self._faults.append(f"{request.kind} {self._sent}: correlation id {correlation_id}, error {error_code}")

    def _error_code(self, request: Request, response: Any) -> int:
        if request.kind == API_VERSIONS:
            return int(response.error_code)
        if request.kind == METADATA:
            topic = response.topics[0]
            return int(topic.error_code or topic.partitions[0].error_code)
        partition = response.responses[0].partition_responses[0]
        if partition.error_code == 0:
            self._acknowledged.append((partition.base_offset, self._sent))
        return int(partition.error_code)

    def _idle(self, seconds: float) -> None:
        if select.select([sys.stdin], [], [], seconds)[0]:
            self._obey()

    def _obey(self) -> None:
        command = sys.stdin.readline().strip()
        if command == "report":
            waiting_s = time.monotonic() - self._sent_at_s if self._sent_at_s else 0.0
            print(json.dumps([self._samples, waiting_s, self._faults]), flush=True)
            self._samples, self._faults = [], []
        elif command == "acknowledged":
            print(json.dumps(self._acknowledged), flush=True)
        else:
            self._stopped = True


class SecondClient:
    """Starts the process, and sends it commands."""

    def __init__(self, port: int, interval_s: float = 0.003, topic: str | None = None) -> None:
        self.interval_s = interval_s
        arguments = [str(port), str(interval_s), *([topic] if topic else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "compat_tests.attack.second_client", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def report(self) -> Report:
        """Measurements since the last report."""
        samples, waiting_s, faults = self._command("report")
        return Report([tuple(each) for each in samples], waiting_s, faults)

    def acknowledged(self) -> list[tuple[int, int]]:
        """Offset and number of each acknowledged record, in the order of sending; the value is the number's digits."""
        return [tuple(each) for each in self._command("acknowledged")]

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.communicate("stop\n", COMMAND_S)

    def _command(self, word: str) -> Any:
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None
        assert pipes[1] is not None
        pipes[0].write(f"{word}\n")
        pipes[0].flush()
        if not select.select([pipes[1]], [], [], COMMAND_S)[0]:
            raise TimeoutError(f"the second client does not answer {word}")
        return json.loads(pipes[1].readline())


def main() -> None:
    gc.disable()
    Client(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None).run()


if __name__ == "__main__":
    main()
