"""A kafkapy broker with many topics, groups and transactional ids, and the way back to that state after an attack."""

import shutil
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from compat_tests.groups.wire import Wire
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST
from kafkapy.protocol.headers import RequestHeader, write_request_header
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.primitives import Reader, Writer

TOPICS_AT_ONCE: Final = 500
IN_FLIGHT: Final = 200
PARTITIONS_OF_FIRST: Final = 100
"""The first topic has more than one partition, for requests that name many of one topic."""
CONCURRENT_TRANSACTIONS: Final = 51
FIRST_GROUP_GONE: Final = "Dead"
NOT_READY: Final = (14, 15, 16)
TIMEOUT_S: Final = 120.0


class Counts(NamedTuple):
    """The number of topics, groups and transactional ids of the broker."""

    topics: int
    groups: int
    transactional_ids: int


def topic(number: int) -> str:
    """The name of a prepared topic."""
    return f"t-{number:06}"


def group(number: int) -> str:
    """The name of a prepared group."""
    return f"g-{number:06}"


def transactional_id(number: int) -> str:
    """A prepared transactional id."""
    return f"x-{number:06}"


class Prepared:
    """The broker. Its data is built once, kept as a copy, and put back by ``restore``.

    ``directory`` is where the broker's own directory is made. With ``kept``, a directory, the copy outlives the
    process, and a later run with the same counts uses it.
    """

    def __init__(
        self,
        counts: Counts,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        kept: Path | None = None,
    ) -> None:
        self.counts = counts
        self.broker = KafkapyProcess(config={"log.retention.ms": "-1", **(config or {})}, directory=directory)
        name = "prepared-{}-{}-{}".format(*counts)
        self._copy = (kept or self.broker.directory) / name
        self._directories = 0
        self._fresh_ids = iter(range(counts.transactional_ids - 1, -1, -1))

    def __enter__(self) -> "Prepared":
        try:
            if not self._copy.exists():
                self.broker.start()
                self._build()
                self.broker.stop()
                self._copy.parent.mkdir(parents=True, exist_ok=True)
                copy(self.broker.data, self._copy)
            self.restore()
        except BaseException:
            self.broker.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()
        self.broker.close()

    def restore(self) -> None:
        """Start the broker on its prepared data; a running one is killed."""
        self.broker.kill()
        shutil.rmtree(self.broker.data, ignore_errors=True)
        copy(self._copy, self.broker.data)
        self.broker.start()
        self._directories = self._count_directories()
        with Wire(self.broker.bootstrap) as wire:
            while wire.ask(DescribeGroupsRequest([group(0)]), 0).groups[0].error_code in NOT_READY:
                wire.has_answer(0.05)

    def is_whole(self) -> bool:
        """Whether the topics and the first group are still as prepared, by a quick check."""
        if self._count_directories() != self._directories:
            return False
        try:
            with Wire(self.broker.bootstrap) as wire:
                found = wire.ask(DescribeGroupsRequest([group(0)]), 0).groups[0]
        except (OSError, AssertionError):  # no answer in time, or the connection was closed
            return False
        return bool(found.error_code == 0 and found.group_state != FIRST_GROUP_GONE)

    def fresh_producer(self) -> tuple[str, int, int]:
        """A transactional id that no attack has used since the last start over, with its producer id and epoch."""
        number = next(self._fresh_ids, None)
        if number is None:
            self._fresh_ids = iter(range(self.counts.transactional_ids - 1, -1, -1))
            number = next(self._fresh_ids)
        name = transactional_id(number)
        with Wire(self.broker.bootstrap) as wire:
            while True:
                answer = wire.ask(InitProducerIdRequest(name, transaction_timeout_ms=60_000), 1)
                if answer.error_code not in (*NOT_READY, CONCURRENT_TRANSACTIONS):
                    return name, answer.producer_id, answer.producer_epoch
                wire.has_answer(0.05)

    def _count_directories(self) -> int:
        return sum(entry.is_dir() for entry in self.broker.data.iterdir())

    def _build(self) -> None:
        with Wire(self.broker.bootstrap) as wire:
            self._create_topics(wire)
            for key_type, first in ((0, group(0)), (1, transactional_id(0))):
                while wire.ask(FindCoordinatorRequest(first, key_type), 1).error_code in NOT_READY:
                    wire.has_answer(0.05)
        commits = (self._commit(number) for number in range(self.counts.groups))
        pipelined(self.broker.port, 2, commits, lambda each: each.topics[0].partitions[0].error_code)
        names = (transactional_id(number) for number in range(self.counts.transactional_ids))
        requests = (InitProducerIdRequest(name, transaction_timeout_ms=60_000) for name in names)
        pipelined(self.broker.port, 1, requests, lambda each: each.error_code)

    def _create_topics(self, wire: Wire) -> None:
        for start in range(0, self.counts.topics, TOPICS_AT_ONCE):
            numbers = range(start, min(start + TOPICS_AT_ONCE, self.counts.topics))
            topics = [CreatableTopic(topic(each), PARTITIONS_OF_FIRST if each == 0 else 1, 1) for each in numbers]
            answer = wire.ask(CreateTopicsRequest(topics, timeout_ms=int(TIMEOUT_S * 1000)), 4)
            assert all(each.error_code == 0 for each in answer.topics), answer.topics[:3]

    def _commit(self, number: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(0, 0, committed_metadata="")
        name = topic(number % self.counts.topics)
        return OffsetCommitRequest(
            group(number),
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name, partitions=[partition])],
        )


def pipelined(port: int, version: int, requests: Iterator[Any], error_code: Any) -> None:
    """Send requests, some at once, until each was answered without an error.

    An answer that says that the coordinator is not ready has its request sent again.
    """
    waiting: list[Any] = []
    with socket.create_connection((HOST, port), TIMEOUT_S) as connection:
        stream = connection.makefile("rb")
        while waiting or (waiting := [each for each, _ in zip(requests, range(IN_FLIGHT), strict=False)]):
            connection.sendall(b"".join(framed(each, version) for each in waiting))
            again = []
            for request in waiting:
                (size,) = struct.unpack(">i", stream.read(4))
                reader = Reader(stream.read(size)[4:])
                code = error_code(response_class(request.API_KEY).read(reader, version))
                assert code == 0 or code in NOT_READY, code
                if code:
                    again.append(request)
            waiting = again


def framed(request: Any, version: int, correlation_id: int = 0, client_id: str | None = "a") -> bytes:
    """The request's frame with its size."""
    writer = Writer()
    write_request_header(writer, RequestHeader(request.API_KEY, version, correlation_id, client_id))
    request.write(writer, version)
    data = writer.getvalue()
    return len(data).to_bytes(4, "big") + data


def copy(source: Path, target: Path) -> None:
    """Copy a data directory; files of zeros stay sparse."""
    shutil.copytree(source, target, symlinks=True)
