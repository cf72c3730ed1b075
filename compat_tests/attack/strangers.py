"""Thousands of connections that do not authenticate, and what they cost the broker and the clients that do.

    python -m compat_tests.attack.strangers --connections 5000 [--markdown out/strangers.md]

The broker has a listener with SASL_SSL and one with SASL_PLAINTEXT. The connections of each kind (``KINDS``) are opened
one kind after the other: some send nothing, some a part of a TLS handshake, some begin to authenticate and stop, some
send a byte now and then, some the most bytes that the broker takes. Meanwhile a second client, which has logged in with
SASL_SSL, sends a small request every 3 ms. A row is one kind: how much the broker's memory has grown for each of its
connections, and the second client's p99 and maximum while they were opened. At the end all of them must be closed by
the broker, within its limit of time. Raises StrangersError for what exceeds ``MEMORY``, the time, or the bounds.
"""

import argparse
import gc
import os
import resource
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from compat_tests.attack.latencies import Latencies
from compat_tests.attack.options import Bounds, bounds_of, parser_of
from compat_tests.attack.prepared import framed
from compat_tests.attack.second_client import SecondClient
from compat_tests.attack.watch import Watch, waited_s
from compat_tests.security.secured import SecuredBroker
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST
from harness.tunnel import Tunnel
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.authentication import FRAME_SIZE, TIME_LIMIT_MS
from kafkapy.security.scram import scram_client

MEMORY: Final = 65_536
"""The most bytes of the broker's memory for one connection."""
SLACK_S: Final = 5.0
"""After the limit of time, until the broker has closed all: its processor is busy with that."""
TIMEOUT_S: Final = 30.0
PACE_S: Final = 0.2
"""The interval at which slow peers send a byte."""
RECORD_SIZE: Final = 16_384 + 17
"""Bytes of the longest record of TLS 1.3."""
LONG_HELLO: Final = bytes((22, 3, 1, 64, 0, 1, 0, 63, 252)) + bytes(999)
"""The beginning of a first record of TLS that announces 16 KiB."""
HANDSHAKE: Final = framed(SaslHandshakeRequest("PLAIN"), 1)


class StrangersError(Exception):
    """A limit was exceeded; the message has the figures."""


class Place(NamedTuple):
    """Where the connections go to: the ports of the broker, and the context of a client that knows its authority."""

    ports: dict[str, int]
    context: ssl.SSLContext

    @classmethod
    def of(cls, broker: SecuredBroker) -> Self:
        """Those of a broker."""
        authorities = "".join(each.authority_pem for each in broker.security.values())
        return cls(
            {kind: broker.port(kind) for kind in broker.addresses}, ssl.create_default_context(cadata=authorities)
        )

    def plain(self, kind: str) -> socket.socket:
        """A connection without TLS to the listener of a kind of security."""
        found = socket.create_connection((HOST, self.ports[kind]), TIMEOUT_S)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def over_tls(self, kind: str) -> ssl.SSLSocket:
        """A connection with TLS."""
        return self.context.wrap_socket(self.plain(kind), server_hostname="localhost")

    def hello(self) -> bytes:
        """The first bytes of a client of TLS."""
        outgoing = ssl.MemoryBIO()
        half = self.context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        try:
            half.do_handshake()
        except ssl.SSLWantReadError:
            return outgoing.read()
        raise AssertionError("a handshake needs the other side")


Opener = Callable[[Place], socket.socket]


def silent(place: Place, kind: str) -> socket.socket:
    """Sends nothing."""
    return place.plain(kind)


def half_hello(place: Place) -> socket.socket:
    """Sends half of the first record of TLS."""
    found = place.plain("sasl_ssl")
    data = place.hello()
    found.sendall(data[: len(data) // 2])
    return found


def only_tls(place: Place) -> socket.socket:
    """Sends nothing after the handshake of TLS."""
    return place.over_tls("sasl_ssl")


def begun(found: socket.socket) -> socket.socket:
    """Has asked for the versions and named a mechanism, and stops."""
    found.sendall(framed(ApiVersionsRequest(), 0) + HANDSHAKE)
    assert found.recv(4)
    return found


def halfway(place: Place) -> socket.socket:
    """Has sent the first message of SCRAM, and stops."""
    found = place.over_tls("scram")
    first = next(scram_client("SCRAM-SHA-256", "alice", "alice-secret"))
    found.sendall(framed(SaslHandshakeRequest("SCRAM-SHA-256"), 1) + framed(SaslAuthenticateRequest(first), 1))
    assert found.recv(4)
    return found


def most(found: socket.socket) -> socket.socket:
    """Sends the longest frame that the broker takes, except its last byte."""
    found.sendall(HANDSHAKE + struct.pack(">i", FRAME_SIZE) + bytes(FRAME_SIZE - 1))
    return found


def most_of_all(found: ssl.SSLSocket) -> socket.socket:
    """Sends the same, and the longest record of TLS, except its last byte."""
    most(found)
    with socket.socket(fileno=os.dup(found.fileno())) as below:
        below.sendall(bytes((23, 3, 3)) + struct.pack(">H", RECORD_SIZE) + bytes(RECORD_SIZE - 1))
    return found


def unread(found: socket.socket) -> socket.socket:
    """Asks for the versions ten thousand times, and does not read the answers: the broker ends it."""
    with suppress(OSError):
        found.sendall(framed(ApiVersionsRequest(), 0) * 10_000)
    return found


class Kind(NamedTuple):
    """A kind of connection.

    A slow one sends a byte of ``trickle`` now and then. ``all_greet``: when all are open, each sends the first record
    of TLS, all of them at once, and does not answer the broker's.
    """

    name: str
    open: Opener
    trickle: bytes = b""
    all_greet: bool = False


KINDS: Final = (
    Kind("SASL_PLAINTEXT, silent", lambda place: silent(place, "sasl_plaintext")),
    Kind("SASL_PLAINTEXT, SaslHandshake", lambda place: begun(place.plain("sasl_plaintext"))),
    Kind("SASL_PLAINTEXT, slow", lambda place: place.plain("sasl_plaintext"), HANDSHAKE * 20),
    Kind("SASL_PLAINTEXT, longest frame", lambda place: most(place.plain("sasl_plaintext"))),
    Kind("SASL_PLAINTEXT, unread answers", lambda place: unread(place.plain("sasl_plaintext"))),
    Kind("SASL_SSL, silent", lambda place: silent(place, "sasl_ssl")),
    Kind("SASL_SSL, half a hello", half_hello),
    Kind("SASL_SSL, slow hello", lambda place: place.plain("sasl_ssl"), LONG_HELLO),
    Kind("SASL_SSL, only a hello", lambda place: silent(place, "sasl_ssl"), all_greet=True),
    Kind("SASL_SSL, only TLS", only_tls),
    Kind("SASL_SSL, SaslHandshake", lambda place: begun(place.over_tls("sasl_ssl"))),
    Kind("SASL_SSL, half of SCRAM", halfway),
    Kind("SASL_SSL, slow", lambda place: place.over_tls("sasl_ssl"), HANDSHAKE * 20),
    Kind("SASL_SSL, longest frame", lambda place: most(place.over_tls("sasl_ssl"))),
    Kind("SASL_SSL, longest frame and record", lambda place: most_of_all(place.over_tls("sasl_ssl"))),
    Kind("SASL_SSL, unread answers", lambda place: unread(place.over_tls("sasl_ssl"))),
)  # fmt: skip


class Row(NamedTuple):
    """The connections of one kind."""

    name: str
    connections: int
    memory: int
    """Bytes of the broker for each."""
    processor_s: float
    """Processor time of the broker for each, also for what the second client asked meanwhile."""
    seconds: float
    latencies: Latencies


class Strangers:
    """The connections of a run, and what is measured."""

    def __init__(self, place: Place, watch: Watch, second: SecondClient) -> None:
        self._place = place
        self._watch = watch
        self._second = second
        self._sockets: list[socket.socket] = []
        self._slow: list[tuple[socket.socket, bytes]] = []
        self._sent_s = 0.0
        self.all_latencies = Latencies(second.interval_s)

    def __enter__(self) -> "Strangers":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()

    def open(self, kind: Kind, count: int) -> Row:
        """Open connections of one kind."""
        self._latencies()
        before, used_s, began_s = self._watch.resident_bytes(), self._watch.processor_s(), time.monotonic()
        for _ in range(count):
            found = kind.open(self._place)
            self._sockets.append(found)
            if kind.trickle:
                found.sendall(kind.trickle[:1])
                self._slow.append((found, kind.trickle[1:]))
            self._trickle()
        if kind.all_greet:
            hello = self._place.hello()
            for each in self._sockets[-count:]:
                each.sendall(hello)
        memory = (self._settled_bytes() - before) // count
        used_s = (self._watch.processor_s() - used_s) / count
        return Row(kind.name, count, memory, used_s, time.monotonic() - began_s, self._latencies())

    def _settled_bytes(self) -> int:
        """The broker's memory when it has served what was sent."""
        used_s = -1.0
        while (now_s := self._watch.processor_s()) - used_s > 0.02:  # besides the second client's requests
            used_s = now_s
            time.sleep(0.1)
        return self._watch.resident_bytes()

    def _trickle(self) -> None:
        """Send the next byte of each slow connection, when it is due."""
        if time.monotonic() - self._sent_s < PACE_S:
            return
        self._sent_s = time.monotonic()
        still = []
        for sock, data in self._slow:
            try:
                sock.sendall(data[:1])
            except OSError:
                continue  # the broker has closed it
            if data[1:]:
                still.append((sock, data[1:]))
        self._slow = still

    def _latencies(self) -> Latencies:
        report = self._second.report()
        if report.faults:
            raise StrangersError(f"the second client: {report.faults[:3]}")
        found = Latencies(self._second.interval_s)
        for each in (found, self.all_latencies):
            each.add(sample[2] for sample in report.samples)
        return found

    def wait_closed(self, limit_s: float) -> float:
        """Wait until the broker has closed all; return how long the last one took. Raises StrangersError."""
        began_s = time.monotonic()
        poll, left = select.poll(), {each.fileno(): each for each in self._sockets}
        for number in left:
            poll.register(number, select.POLLIN)
        while left:
            if time.monotonic() - began_s > limit_s:
                raise StrangersError(f"{len(left)} connections are open {limit_s:.0f} s after the last was opened")
            for number, _ in poll.poll(100):
                if _is_closed(left[number]):
                    poll.unregister(number)
                    del left[number]
            self._trickle()
        self._latencies()
        return time.monotonic() - began_s


def _is_closed(sock: socket.socket) -> bool:
    """Whether the broker has closed it; bytes before that are read."""
    try:
        if isinstance(sock, ssl.SSLSocket):
            sock.setblocking(False)
        return not sock.recv(65_536, 0 if isinstance(sock, ssl.SSLSocket) else socket.MSG_DONTWAIT)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


class Target(NamedTuple):
    """A broker with a second client that has logged in."""

    broker: SecuredBroker
    place: Place
    second: SecondClient
    tunnel: Tunnel
    watch: Watch

    def waited_s(self) -> float:
        """For how long broker, tunnel and second client were ready to run and had no processor."""
        return sum(waited_s(each or 0) for each in (self.broker.process.pid, self.tunnel.pid, self.second.pid))


@contextmanager
def target(idle_ms: int) -> Iterator[Target]:
    """Start them; the broker closes connections after ``idle_ms``, ``connections.max.idle.ms``."""
    with ExitStack() as stack:
        process = KafkapyProcess(options=("--log-level", "error"))
        stack.callback(process.close)
        broker = SecuredBroker(process)
        process.overrides.update(broker.settings() | {"connections.max.idle.ms": str(idle_ms)})
        process.start()
        broker.store_users()
        properties = broker.security["sasl_ssl"].java_properties("", "alice")
        tunnel = stack.enter_context(Tunnel(broker.port("sasl_ssl"), properties))
        second = stack.enter_context(SecondClient(tunnel.port))
        yield Target(broker, Place.of(broker), second, tunnel, Watch(process))


def exceeding(rows: Sequence[Row], bounds: Bounds, latencies: Latencies) -> list[str]:
    """A sentence for each limit that is exceeded."""
    found = [f"{row.name}: {row.memory} bytes for each connection" for row in rows if row.memory > MEMORY]
    broken = bounds.broken(latencies.percentile(0.99), latencies.max_s)
    return found + ([f"the second client waited: {latencies}"] if broken else [])


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as Markdown."""
    yield "| connections | number | bytes each | processor ms each | opened in s | second client |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        figures = f"{row.memory:,} | {row.processor_s * 1000:.2f} | {row.seconds:.1f} | {row.latencies}"
        yield f"| {row.name} | {row.connections} | {figures} |"


def chosen(names: Sequence[str]) -> list[Kind]:
    """The kinds whose names contain one of these texts; all if there are none."""
    return [kind for kind in KINDS if not names or any(name in kind.name for name in names)]


def run(wanted: argparse.Namespace) -> None:
    """One run; raises StrangersError."""
    gc.freeze()
    kinds, bounds = chosen(wanted.kinds), bounds_of(wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with target(wanted.idle_ms) as found, Strangers(found.place, found.watch, found.second) as strangers:
        rows = [strangers.open(kind, wanted.connections // len(kinds)) for kind in kinds]
        lines = list(table(rows))
        print(*lines, sep="\n", flush=True)
        closed_s = strangers.wait_closed(min(wanted.idle_ms, TIME_LIMIT_MS) / 1000 + SLACK_S)
        text = (
            f"all closed {closed_s:.1f} s after the last was opened; second client: {strangers.all_latencies};"
            f" without a processor, though ready: {found.waited_s():.1f} s"
        )
        print(text)
        if wanted.markdown:
            wanted.markdown.write_text("\n".join([*lines, "", text, ""]))
        if beyond := exceeding(rows, bounds, strangers.all_latencies):
            raise StrangersError("; ".join(beyond))


def main() -> int:
    parser = parser_of(__name__)
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--idle-ms", type=int, default=30_000, help="connections.max.idle.ms of the broker")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--kinds", nargs="+", default=[], metavar="TEXT", help="only those whose names have this text")
    wanted = parser.parse_args()
    try:
        run(wanted)
    except StrangersError as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
