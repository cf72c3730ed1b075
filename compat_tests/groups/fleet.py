"""The consumers of one group, which are started and stopped one by one while numbered records are sent.

Every record must be read once, those of a partition in their order, and no partition may have two owners at once. A
member whose epoch is behind that of the group when it becomes a classic one is told so by ILLEGAL_GENERATION, on Apache
Kafka too: it loses its partitions without a commit, and what it has read since its last one is read again.
"""

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Producer

from compat_tests.clients.client import wait_until

PARTITIONS: Final = 6
SECONDS_BETWEEN_RECORDS: Final = 0.004
RECORDS_AFTER_EACH_CHANGE: Final = 50
TIMEOUT_S: Final = 60
CLASSIC, CONSUMER = "classic", "consumer"


class Numbers:
    """Sends 0, 1, 2, … to every partition until it ends."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._sent: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": True})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> Mapping[int, int]:
        """Stop; returns how many were sent to each partition."""
        self._stop.set()
        self._thread.join()
        return self._sent

    def _send(self) -> None:
        while not self._stop.wait(SECONDS_BETWEEN_RECORDS):
            for partition, number in self._sent.items():
                self._producer.produce(self._topic, str(number).encode(), partition=partition)
                self._sent[partition] = number + 1
            self._producer.poll(0)
        assert self._producer.flush(TIMEOUT_S) == 0


class Fleet(ABC):
    """The consumers, and what they were given and have read."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.failures: list[str] = []
        self._owners: dict[int, int] = {}
        self._read: dict[int, list[int]] = defaultdict(list)
        self._protocols: dict[int, str] = {}
        self._lost: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, member: int, protocol: str) -> None:
        """Start a consumer that uses the protocol."""
        self._protocols[member] = protocol
        self.start_consumer(member, protocol)

    def stop(self, member: int) -> None:
        """Close a consumer; the next one of a static member returns to its partitions."""
        self.stop_consumer(member)
        del self._protocols[member]
        self.taken([each for each, owner in self._owners.items() if owner == member])

    @abstractmethod
    def start_consumer(self, member: int, protocol: str) -> None: ...

    @abstractmethod
    def stop_consumer(self, member: int) -> None: ...

    @abstractmethod
    def poll(self) -> None:
        """Read a little, and report what has happened."""

    @abstractmethod
    def close(self) -> None: ...

    # Reports

    def given(self, member: int, partitions: Iterable[int]) -> None:
        for each in partitions:
            owner = self._owners.setdefault(each, member)
            if owner != member:
                self.failures.append(f"{each} was given to {member} while {owner} had it")

    def taken(self, partitions: Iterable[int]) -> None:
        """They were revoked, and what was read of them is committed."""
        for each in partitions:
            self._owners.pop(each, None)

    def lost(self, partitions: Iterable[int]) -> None:
        """They were taken away before their offsets could be committed."""
        partitions = list(partitions)
        self._lost.update(partitions)
        self.taken(partitions)

    def was_read(self, partition: int, number: int) -> None:
        read = self._read[partition]
        if partition in self._lost and number < len(read):
            return
        if number != len(read):
            self.failures.append(f"{number} of {partition} was read in the place of {len(read)}")
        read.append(number)

    def count_of(self, partition: int) -> int:
        """How many of a partition's records were read, which is the next offset."""
        return len(self._read[partition])

    # Waits

    def settle(self) -> None:
        """Read until every member has partitions, every partition has an owner, and all are read further."""
        self._poll_until(
            lambda: len(self._owners) == PARTITIONS and set(self._owners.values()) == set(self._protocols),
            "each member has partitions",
        )
        goal = {each: len(self._read[each]) + RECORDS_AFTER_EACH_CHANGE for each in range(PARTITIONS)}
        self._poll_until(lambda: all(len(self._read[each]) >= goal[each] for each in goal), "all partitions are read")

    def read_all(self, sent: Mapping[int, int]) -> None:
        """Read all that was sent."""
        self._poll_until(lambda: all(len(self._read[each]) == sent[each] for each in sent), "all records are read")

    def _poll_until(self, condition: Callable[[], bool], what: str) -> None:
        def attempt() -> bool:
            self.poll()
            assert not self.failures, self.failures[:5]
            return condition()

        wait_until(attempt, f"{what}; owners {self._owners}, protocols {self._protocols}", TIMEOUT_S)
