"""Group members over plain sockets, and librdkafka's consumer; a process whose last line of output is a JSON object.

`python -m bench.clients.groups prepare|commits|settle|first_record '{"port": …}'`
"""

import json
import select
import socket
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

from confluent_kafka import Consumer, Producer

from bench.clients.raw import ANSWER_TIMEOUT_S, HOST, connect, frame, receive, round_trips
from harness.measure import percentile
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import read_response_header
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.protocol.reader import Reader

COMMIT, JOIN, SYNC, BEAT = 7, 5, 3, 3
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06groups\xff\xff\xff\xff"
BEAT_EVERY_S = 0.02
MEMBER_ID_REQUIRED = 79
UNAVAILABLE = (14, 15, 16)
Metrics = dict[str, float]


def decoded(answer: bytes, key: ApiKey, version: int) -> Any:
    reader = Reader(memoryview(answer))
    read_response_header(reader, key, version)
    return response_class(key).read(reader, version)


def ask(connection: socket.socket, request: Any, version: int) -> Any:
    connection.sendall(frame(request.API_KEY, request, version))
    return decoded(receive(connection), request.API_KEY, version)


def commit_request(group: str, topic: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, 1)
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=[partition])])


def prepare(port: int, topic: str, connections: int = 1, **_: Any) -> Metrics:
    """Wait until every group of ``commits`` has its coordinator; the offsets' topic is made by the first question."""
    with connect(port) as connection:
        for number in range(connections):
            group = f"commits-{number}"
            while ask(connection, FindCoordinatorRequest(group), 0).error_code:
                time.sleep(0.05)
            while _committed(connection, group, topic) in UNAVAILABLE:
                time.sleep(0.05)
    return {}


def _committed(connection: socket.socket, group: str, topic: str) -> int:
    return int(ask(connection, commit_request(group, topic), COMMIT).topics[0].partitions[0].error_code)


def commits(port: int, topic: str, connections: int, requests: int) -> Metrics:
    """Send the commits and wait for every answer; round trips in µs."""
    frames = [
        (connect(port), repeat(frame(ApiKey.OFFSET_COMMIT, commit_request(f"commits-{number}", topic), COMMIT)))
        for number in range(connections)
    ]
    started = time.perf_counter()
    waited = round_trips(frames, requests, _no_error)
    elapsed_s = time.perf_counter() - started
    return {"per_s": requests / elapsed_s, "p50_us": percentile(waited, 0.5), "p99_us": percentile(waited, 0.99)}


def _no_error(answer: bytes) -> None:
    if answer[-2:] != b"\0\0":
        raise SystemExit("a commit was answered with an error")


class Member:
    """One member on its own connection: joins, hands out or waits for parts, beats, and joins again when told to."""

    def __init__(self, port: int, group: str) -> None:
        self.connection = connect(port)
        self.member_id = ""
        self.generation = -1
        self.is_settled = False
        self.beat_at_s = 0.0
        self._group = group
        self._asked: tuple[ApiKey, int] | None = None

    def join(self) -> None:
        self.is_settled = False
        protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
        self._send(JoinGroupRequest(self._group, 30_000, 60_000, self.member_id, None, "consumer", protocols), JOIN)

    def _send(self, request: Any, version: int) -> None:
        self._asked = request.API_KEY, version
        self.connection.sendall(frame(request.API_KEY, request, version))

    def beat(self, now_s: float) -> None:
        """Send a heartbeat if one is due and nothing else is asked."""
        if self.is_settled and self._asked is None and now_s >= self.beat_at_s:
            self.beat_at_s = now_s + BEAT_EVERY_S
            self._send(HeartbeatRequest(self._group, self.generation, self.member_id), BEAT)

    def take(self) -> None:
        """Read an answer and do what follows from it."""
        assert self._asked is not None
        key, version = self._asked
        answer = decoded(receive(self.connection), key, version)
        self._asked = None
        if key == ApiKey.JOIN_GROUP:
            self._joined(answer)
        elif answer.error_code:
            self.join()
        elif key == ApiKey.SYNC_GROUP:
            self.is_settled = True

    def _joined(self, answer: Any) -> None:
        if answer.error_code not in (0, MEMBER_ID_REQUIRED):
            raise SystemExit(f"a join was answered with error {answer.error_code}")
        self.member_id = answer.member_id
        if answer.error_code:
            self.join()
            return
        self.generation = answer.generation_id
        parts = [SyncGroupRequestAssignment(each.member_id, b"part") for each in answer.members]
        self._send(SyncGroupRequest(self._group, self.generation, self.member_id, assignments=parts), SYNC)


def settle(port: int, members: int, groups: int) -> Metrics:
    """Let ``groups`` groups settle one after the other; the median time in ms."""
    with connect(port) as connection:
        names = [f"settle-{time.time_ns()}-{number}" for number in range(groups)]
        for name in names:
            ask(connection, FindCoordinatorRequest(name), 0)
    times = [_settle_once(port, name, members) for name in names]
    return {"settle_ms": percentile(times, 0.5)}


def _settle_once(port: int, group: str, count: int) -> float:
    members = {member.connection.fileno(): member for member in (Member(port, group) for _ in range(count))}
    poll = select.epoll()
    for place in members:
        poll.register(place, select.EPOLLIN)
    started = time.perf_counter()
    for member in members.values():
        member.join()
    deadline = started + ANSWER_TIMEOUT_S
    while not _is_settled(members.values()):
        for place, _ in poll.poll(BEAT_EVERY_S):
            members[place].take()
        now = time.perf_counter()
        if now > deadline:
            raise SystemExit(f"{count} members did not settle in {ANSWER_TIMEOUT_S:.0f} s")
        for member in members.values():
            member.beat(now)
    elapsed_ms = 1000 * (time.perf_counter() - started)
    for member in members.values():
        member.connection.close()
    return elapsed_ms


def _is_settled(members: Any) -> bool:
    generations = {member.generation if member.is_settled else -1 for member in members}
    return len(generations) == 1 and -1 not in generations


def first_record(port: int, topic: str, groups: int) -> Metrics:
    """Subscribe as the only member of a new group, again and again; from there to the first record, in ms."""
    bootstrap = f"{HOST}:{port}"
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(groups):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(ANSWER_TIMEOUT_S)
    times = []
    for number in range(groups):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"first-{time.time_ns()}-{number}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        started = time.perf_counter()
        consumer.subscribe([topic])
        while (message := consumer.poll(0.1)) is None or message.error() is not None:
            if time.perf_counter() > started + ANSWER_TIMEOUT_S:
                raise SystemExit("no record came")
        times.append(1000 * (time.perf_counter() - started))
        consumer.close()
    return {"first_ms": percentile(times, 0.5), "first_p90_ms": percentile(times, 0.9)}


MODES: dict[str, Callable[..., Metrics]] = {
    "prepare": prepare,
    "commits": commits,
    "settle": settle,
    "first_record": first_record,
}

if __name__ == "__main__":
    print(json.dumps(MODES[sys.argv[1]](**json.loads(sys.argv[2]))))
