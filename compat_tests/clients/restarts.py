"""A broker that restarts and stalls under the load of many clients at once, and the result of each client.

Of a cluster, leaders, coordinators and the controller are killed one after the other, and started again.

Each client keeps a producer, idempotent where it can be, and a member of a group busy in a topic of its own, all of
them on one broker at the same time, since what takes long is the broker.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import pytest
from confluent_kafka import KafkaException

from compat_tests.brokers.own_broker import Mortal, disturbances_of
from compat_tests.brokers.targets import KAFKAPY
from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import EARLIEST, LOAD_PARTITIONS, Load, Received, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from harness.java_programs import MissingToolchainError

RECORDS_BETWEEN = 60
AT_ONCE = 10
"""Records of a partition that may be under way when the broker ends. Of these batches it knows the last one's offset
alone when it is back: the others, sent again, are doubles to it, and no offset is told (DUPLICATE_SEQUENCE_NUMBER)."""


class Reader(Protocol):
    """A consumer that joined a group and goes on reading."""

    @property
    def received(self) -> Sequence[Received]: ...

    @property
    def error(self) -> Exception | None:
        """The reason for its end."""

    def close(self) -> None: ...


class Worker(Protocol):
    """The calls that a client of these tests has."""

    name: str
    bootstrap: str
    is_idempotent: bool

    def start_load(self, topic: str) -> Load: ...

    def join(self, group: str, topic: str) -> Reader: ...


class Held:
    """The number of records in a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._reader = ConfluentClient(bootstrap)
        self._topic = topic
        self._last = 0

    def count(self) -> int:
        """The last count, while a broker that has come back does not have its partitions yet."""
        with suppress(KafkaException):
            self._last = sum(self._reader.watermarks(self._topic, place)[1] for place in range(LOAD_PARTITIONS))
        return self._last


@dataclass
class Busy:
    """One client with its load and its member, and the result."""

    client: Worker
    topic: str
    load: Load
    member: Reader | None
    """None where the library has no groups."""
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def goes_on(self) -> None:
        """Returns when the broker has taken some more of its records."""
        wanted = self.load.acknowledged() + RECORDS_BETWEEN
        try:
            wait_until(lambda: self.load.acknowledged() >= wanted, f"{self.client.name}'s next records")
        except AssertionError:
            self.load.finish()  # knows why
            raise

    def finish(self) -> None:
        """Ends the load, lets the member read what is left, and ends that too."""
        self.places = self.load.finish()
        if self.member is not None:
            wait_until(self._has_read, f"what {self.client.name}'s member has to read")

    def _has_read(self) -> bool:
        if len(self.read()) >= len(self.places):
            return True
        if self.member is not None and self.member.error is not None:
            raise self.member.error
        return False

    def read(self) -> set[bytes | None]:
        """The values that the member has received."""
        return {record.value for record in self.member.received} if self.member is not None else set()

    def close(self) -> None:
        if self.member is not None:
            self.member.close()


Outcome = Busy | BaseException
Clients = Mapping[str, Callable[[], Worker]]
"""How each client is made, by its name; a making may raise MissingToolchainError."""


def _made(make: Callable[[], Worker]) -> Worker | BaseException:
    try:
        return make()
    except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001  (told by the client's own test)
        return error


def _started(name: str, client: Worker | BaseException) -> Outcome:
    if isinstance(client, BaseException):
        return client
    try:
        topic = _topic(name)
        load = client.start_load(topic)
        try:
            member = client.join(_group(name), topic)
        except pytest.skip.Exception:
            member = None
        return Busy(client, topic, load, member)
    except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001  (told by the client's own test)
        return error


def _topic(name: str) -> str:
    return f"load-of-{name}"


def _group(name: str) -> str:
    return f"group-of-{name}"


def _each(outcomes: dict[str, Outcome], step: Callable[[Busy], None]) -> None:
    """Takes the step with every client that is still well, all at once."""

    def attempt(name: str) -> None:
        busy = outcomes[name]
        if isinstance(busy, Busy):
            try:
                step(busy)
            except Exception as error:  # noqa: BLE001  (told by the client's own test)
                outcomes[name] = error

    with ThreadPoolExecutor(len(outcomes)) as pool:
        list(pool.map(attempt, outcomes))


def outcomes_of(clients: Clients, mortal: Mortal) -> dict[str, Outcome]:
    """The result of each client after all that happens to the broker, or to those of the cluster; all are running."""
    topics, groups = list(map(_topic, clients)), list(map(_group, clients))
    for topic in topics:
        create_topic(mortal.bootstrap, topic, LOAD_PARTITIONS)
    with ThreadPoolExecutor(len(clients)) as pool:
        made = list(pool.map(_made, clients.values()))  # some are compiled, which would take long beside the load
        found = dict(zip(clients, pool.map(_started, clients, made), strict=True))
    _each(found, Busy.goes_on)
    for disturb in disturbances_of(mortal, topics, groups):
        disturb()
        _each(found, Busy.goes_on)
    _each(found, Busy.finish)
    _each(found, Busy.close)
    return found


def check(busy: Outcome, mortal: Mortal) -> None:
    """Nothing is lost or doubled, nor out of order; skips where the toolchain is missing.

    Apache Kafka forgets all but a producer's last batch when it ends. To a client that had no answer to several it
    says then that the first is out of order (45), and clients from 2.5 on begin a new epoch and write them again: there
    these records may come twice.
    """
    if isinstance(busy, MissingToolchainError):
        pytest.skip(str(busy))
    if isinstance(busy, BaseException):
        raise busy
    if busy.member is not None:
        assert busy.read() == {b"%d" % number for number in busy.places}
    assert sorted(busy.places) == list(range(len(busy.places)))
    reader = ConfluentClient(busy.client.bootstrap)
    for partition in range(LOAD_PARTITIONS):
        numbers = sorted(number for number, place in busy.places.items() if place[0] == partition)
        first, end = reader.watermarks(busy.topic, partition)
        log = reader.consume(busy.topic, end, partition=partition, offset=EARLIEST)
        assert first == 0
        found = {int(each.value or b""): each.offset for each in log}
        assert found.keys() == set(numbers)
        told = {number: busy.places[number][1] for number in numbers if busy.places[number][1] >= 0}
        assert {number: (found[number], offset) for number, offset in told.items() if found[number] != offset} == {}
        assert len(numbers) - len(told) <= AT_ONCE
        if busy.client.is_idempotent:
            came = [(each.offset, int(each.value or b"")) for each in log]
            order = [number for _, number in came]
            if not mortal.name.startswith(KAFKAPY):
                order = list(dict.fromkeys(order))
            assert order == numbers, _disorder(came)


def _disorder(found: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Neighbours in the log, as (offset, number), of which the second should not follow the first."""
    return [(one, next_one) for one, next_one in pairwise(found) if next_one[1] <= one[1]]
