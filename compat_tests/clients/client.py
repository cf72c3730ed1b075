"""The calls that the scenarios make to a client library; each library implements this interface."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

EARLIEST, LATEST = -2, -1
TIMEOUT_S = 40.0
RESETS = ("earliest", "latest", "none")
LOAD_PARTITIONS = 2
BROKERS_DEFAULT = -1
"""The replication factor of a topic that leaves it to the broker (KIP-464): 1 on a single one, 3 in a cluster."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = (int(time.time()) - 3600) * 1000
"""An hour ago: a broker deletes records that are older than a week."""


@dataclass(frozen=True)
class Sent:
    """One record as it is handed to a producer; without a partition the library's own partitioner chooses by key."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int | None = 0


@dataclass(frozen=True)
class Received(Sent):
    """One record as a consumer got it."""

    offset: int = -1
    log_append_time: bool = False


def received_of(record: Any) -> Received:
    """A record as kafka-python and aiokafka, which began as one, show it."""
    return Received(
        record.value,
        record.key,
        tuple((name, value) for name, value in record.headers),
        record.timestamp,
        record.partition,
        record.offset,
        record.timestamp_type == 1,
    )


@dataclass(frozen=True)
class Transaction:
    """The records of one transaction in partition 0, the offset that it commits for a group, and its end."""

    values: tuple[bytes, ...]
    commit: bool = True
    group: str | None = None
    offset: int = 0


@dataclass(frozen=True)
class ProduceOptions:
    """How records are produced; `request_limit` is the client's own limit on the size of a request."""

    codec: str = "none"
    idempotent: bool = False
    acks: int = -1
    request_limit: int = 1048576


DEFAULTS = ProduceOptions()


@dataclass(frozen=True)
class GroupState:
    """A group in the response of DescribeGroups."""

    state: str
    protocol_type: str
    members: int


class KafkaCodeError(Exception):
    """A broker's refusal, with the number of its error code."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class Member(Protocol):
    """A consumer that joined a group and polls in a thread of its own."""

    @property
    def assignment(self) -> set[int]: ...

    @property
    def received(self) -> list[Received]: ...

    @property
    def error(self) -> Exception | None:
        """The error that ended the member."""

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Load(Protocol):
    """A producer that keeps sending numbered records while the broker restarts, until `finish` is called.

    Record n has the number as its value and goes to partition n % LOAD_PARTITIONS. The producer is idempotent where
    the library has that, and waits for all acknowledgements.
    """

    def acknowledged(self) -> int:
        """The number of records that the broker has acknowledged so far."""

    def finish(self) -> dict[int, tuple[int, int]]:
        """Sends no more and waits; the partition and offset of each number. Raises KafkaCodeError if one was lost."""


class Client(Protocol):
    """One client library, blocking, a fresh connection for each call."""

    name: str
    bootstrap: str
    sends_null_headers: bool
    hashes_like_java: bool
    """Whether it has a partitioner that is meant to equal Java's default partitioner."""
    is_idempotent: bool
    """Whether its producer can be idempotent."""

    def produce(self, topic: str, records: Sequence[Sent], options: ProduceOptions = DEFAULTS) -> list[tuple[int, int]]:
        """Sends the records in order and waits; returns (partition, offset) of each."""

    def transact(self, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
        """One producer writes these transactions, one after the other."""

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = EARLIEST, committed: bool = False
    ) -> list[Received]:
        """Reads `count` records of one partition from an offset on; `committed` reads with read_committed."""

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset and the end offset."""

    def offset_for_time(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        """The first offset whose timestamp is at least this one."""

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None: ...

    def join(self, group: str, topic: str, reset: str = "earliest") -> Member:
        """Joins a group; `reset` (earliest, latest, none) is where it begins without an offset."""

    def fence(self, topic: str, transactional_id: str) -> int:
        """Two producers of one id: the first writes "old" and, when the second has committed "new", can't commit.

        Returns the error code that the first one got.
        """

    def start_load(self, topic: str) -> Load: ...

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def topics(self) -> dict[str, int]:
        """The partition count of every topic."""

    def add_partitions(self, topic: str, total: int) -> None: ...

    def configs(self, topic: str) -> dict[str, str]: ...

    def set_config(self, topic: str, key: str, value: str) -> None: ...

    def delete_records(self, topic: str, before: int) -> int:
        """Deletes the records before the offset in partition 0; returns the new first offset."""

    def describe_group(self, group: str) -> GroupState: ...

    def groups(self) -> set[str]: ...

    def delete_group(self, group: str) -> None: ...


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Returns when the condition holds; fails with `what` was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s, but not seen: {what}"
        time.sleep(0.02)


@dataclass
class MemberThread:
    """The shared part of a group member: a thread that polls until `close` is called.

    `poll(self)` is called again and again; it updates `assignment` and `received`, and performs `pending_commit`.
    """

    poll: Callable[["MemberThread"], None]
    end: Callable[[], None]
    assignment: set[int] = field(default_factory=set)
    received: list[Received] = field(default_factory=list)
    error: Exception | None = None
    commits_wanted: int = 0
    commits_done: int = 0

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.poll(self)
        except Exception as error:  # noqa: BLE001  (handed to the test's thread, which raises it)
            self.error = error
        finally:
            self.end()

    def commit(self) -> None:
        """Commits the position, from the polling thread, and waits for that."""
        self.commits_wanted += 1
        wait_until(lambda: self.error is not None or self.commits_done == self.commits_wanted, "the commit")
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Leaves the group."""
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the group member did not leave"
