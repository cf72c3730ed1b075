"""Very many members of consumer groups, over few connections that send many heartbeats without waiting.

    python -m compat_tests.attack.many_members --members 10000 --partitions 10000 [--target kafka-4.4.0]

All members join one group and send heartbeats until each has its share of the partitions. It prints how long that
took, what a second client with small requests waited meanwhile, and the memory and processor time of the broker.
"""

import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

from compat_tests.attack.latencies import corrected, percentile
from compat_tests.attack.options import Bounds, parser_of
from compat_tests.attack.second_client import SecondClient
from compat_tests.attack.watch import Watch, waited_s
from compat_tests.brokers.targets import KAFKA, KAFKAPY
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST, ChildProcess
from harness.real_kafka import RealKafka
from harness.wire import Wire
from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.primitives import Reader, Writer
from kafkapy.turns import pieces

CONNECTIONS: Final = 20
IN_FLIGHT: Final = 100
"""Requests of a connection that have no answer yet."""
JOIN_EPOCH, VERSION = 0, 1
REBALANCE_TIMEOUT_MS: Final = 300_000
PAUSE_S: Final = 0.2
"""Between two rounds of heartbeats."""


class Member:
    """The state of one member, which subscribes to topics or to a regular expression."""

    __slots__ = ("group_id", "member_id", "topics", "expression", "assignor", "epoch", "owned", "error_code")

    def __init__(
        self,
        group_id: str,
        topics: Sequence[str] = (),
        expression: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = str(uuid.uuid4())
        self.topics = topics
        self.expression = expression
        self.assignor = assignor
        self.epoch = JOIN_EPOCH
        self.owned: list[TopicPartitions] = []
        self.error_code = 0

    @property
    def owned_count(self) -> int:
        """The number of its partitions."""
        return sum(len(topic.partitions) for topic in self.owned)

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat: all fields to join, later only what the member owns."""
        if self.epoch == JOIN_EPOCH:
            return ConsumerGroupHeartbeatRequest(
                self.group_id,
                self.member_id,
                JOIN_EPOCH,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=list(self.topics),
                subscribed_topic_regex=self.expression,
                server_assignor=self.assignor,
                topic_partitions=[],
            )
        return ConsumerGroupHeartbeatRequest(
            self.group_id, self.member_id, self.epoch, rebalance_timeout_ms=-1, topic_partitions=self.owned
        )

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Keep the epoch and the assignment of the response."""
        self.error_code = response.error_code
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = response.assignment.topic_partitions


class Lanes:
    """Connections over which the heartbeats are sent, several on each before its first answer has arrived."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection((HOST, port), 120) for _ in range(CONNECTIONS)]
        self._streams = [each.makefile("rb") for each in self._sockets]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream, connection in zip(self._streams, self._sockets, strict=True):
            stream.close()
            connection.close()

    def beat(self, members: Sequence[Member]) -> None:
        """Send a heartbeat of each member and take the answers."""
        for piece in pieces(members, CONNECTIONS * IN_FLIGHT):
            shares = [piece[place::CONNECTIONS] for place in range(CONNECTIONS)]
            for connection, share in zip(self._sockets, shares, strict=True):
                frames = map(frame, (each.request() for each in share), range(len(share)))
                connection.sendall(b"".join(frames))
            for stream, share in zip(self._streams, shares, strict=True):
                for member in share:
                    member.take(_answer(stream))


def _answer(stream: BinaryIO) -> ConsumerGroupHeartbeatResponse:
    size = int.from_bytes(stream.read(4), "big")
    reader = Reader(stream.read(size))
    read_response_header(reader, ConsumerGroupHeartbeatRequest.API_KEY, VERSION)
    return ConsumerGroupHeartbeatResponse.read(reader, VERSION)


def frame(request: ConsumerGroupHeartbeatRequest, correlation_id: int) -> bytes:
    """The bytes of a request."""
    writer = Writer()
    write_request_header(writer, RequestHeader(request.API_KEY, VERSION, correlation_id, "many"))
    request.write(writer, VERSION)
    content = writer.getvalue()
    return len(content).to_bytes(4, "big") + content


class Effect(NamedTuple):
    """What happened to the broker and to the second client."""

    duration_s: float
    p99_s: float
    max_s: float
    processor_s: float
    memory: int
    """Bytes at the peak, above those before."""
    waited_s: float
    """Seconds in which broker and second client were ready to run and had no processor."""

    @property
    def is_late(self) -> bool:
        """Whether the second client waited too long because of the broker: the machine's part is subtracted."""
        return self.max_s - self.waited_s > Bounds().max_s

    def __str__(self) -> str:
        p99_ms, max_ms = self.p99_s * 1000, self.max_s * 1000
        return (
            f"{self.duration_s:.1f} s, another client waited p99 {p99_ms:.1f} ms, max {max_ms:.1f} ms;"
            f" broker: {self.processor_s:.1f} processor-seconds, {self.memory / 2**20:.0f} MiB;"
            f" without a processor {self.waited_s * 1000:.0f} ms"
        )


def effect_of(broker: ChildProcess, attack: Callable[[], None]) -> Effect:
    """The effect of an attack, seen by a second client."""
    watch = Watch(broker)
    pid = broker.pid
    assert pid is not None
    with SecondClient(broker.port) as second:
        time.sleep(0.5)
        second.report()
        before = watch.resident_bytes(), watch.processor_s(), waited_s(pid) + waited_s(second.pid)
        watch.forget_peak()
        began_s = time.monotonic()
        attack()
        duration_s = time.monotonic() - began_s
        report = second.report()
        waited = waited_s(pid) + waited_s(second.pid) - before[2]
    found = corrected(report.samples, second.interval_s, report.waiting_s)
    assert not report.faults, report.faults
    assert not (traces := watch.tracebacks()), traces
    memory, processor_s = watch.peak_bytes() - before[0], watch.processor_s() - before[1]
    return Effect(duration_s, percentile(found, 0.99), found[-1], processor_s, memory, waited)


def prepare(bootstrap: str, topics: Sequence[str], partitions: int) -> None:
    """Create the topics and the coordinator's own one."""
    with Wire(bootstrap) as wire:
        created = CreateTopicsRequest([CreatableTopic(each, partitions, 1) for each in topics], timeout_ms=60_000)
        errors = [each.error_message for each in wire.ask(created, 5).topics if each.error_code]
        assert not errors, errors
        deadline_s = time.monotonic() + 60
        while wire.ask(FindCoordinatorRequest(key="g", key_type=0), 3).error_code:
            assert time.monotonic() < deadline_s, "no coordinator"
            time.sleep(0.2)


def settle(port: int, members: Sequence[Member], partitions: int, patience_s: float) -> None:
    """The members join, and send heartbeats until each has its share of the partitions."""
    deadline_s = time.monotonic() + patience_s
    with Lanes(port) as lanes:
        while True:
            lanes.beat(members)
            counts = [member.owned_count for member in members]
            errors = {each.error_code for each in members}
            if errors == {0} and sum(counts) == partitions and max(counts) - min(counts) <= 1:
                return
            assert time.monotonic() < deadline_s, (errors, sum(counts), max(counts))
            time.sleep(PAUSE_S)


def broker_of(target: str, config: Mapping[str, str]) -> ChildProcess:
    """A broker of its own, not started yet."""
    if target.startswith(KAFKA):
        return RealKafka(target.removeprefix(KAFKA), config=config, heap="1G")
    return KafkapyProcess(config=config)


def main() -> None:
    parser = parser_of(__name__)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--target", default=KAFKAPY)
    wanted = parser.parse_args()
    members = [Member("g", ["t"]) for _ in range(wanted.members)]
    with broker_of(wanted.target, {}) as broker:
        prepare(broker.bootstrap, ["t"], wanted.partitions)
        attack = partial(settle, broker.port, members, wanted.partitions, 600.0)
        print(f"{wanted.members} members, {wanted.partitions} partitions:", effect_of(broker, attack))
        with Wire(broker.bootstrap) as wire:
            began_s = time.monotonic()
            (group,) = wire.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
            print(f"described {len(group.members)} members in {time.monotonic() - began_s:.2f} s, {group.group_state}")


if __name__ == "__main__":
    main()
