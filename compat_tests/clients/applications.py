"""Applications of many clients at once that write transactions over the kills of brokers, and what became of each.

An application writes one number after the other, each in a transaction that also commits an offset of its group; every
fourth transaction is aborted. When its client gives up, it goes on as applications do: a new producer of the same
transactional id makes the coordinator end what is open, and the topic tells which number was the last to be committed.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Union

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import Client, KafkaCodeError, Transaction, wait_until
from compat_tests.cluster.three_brokers import TRANSACTION, ThreeBrokers
from harness.java_programs import MissingToolchainError

TRANSACTIONS = 8
"""How many one producer writes; the next ones are written by another one."""
ABORTED = 3
"""Transactions whose number modulo four is this are aborted."""
GIVING_UP = 60
"""Failures of one client, each after its own retries, that end its application."""
PAUSE_S = 0.5
"""Between a failure and the next producer: some clients give up at once."""
PATIENCE_S = 60.0
Clients = Mapping[str, Callable[[], Client]]
Outcome = Union["Application", BaseException]


class Application:
    """One client, busy in a thread of its own until `finish`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.topic = topic_of(client.name)
        self.group = f"group-of-{self.topic}"
        self.written = 0
        """All numbers below are committed, or were to be aborted."""
        self.failures: list[KafkaCodeError] = []
        self._error: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def goes_on(self) -> None:
        """Returns when a producer that began after now has written all of its transactions."""
        before = self.written
        deadline = time.monotonic() + PATIENCE_S
        while self.written <= before + TRANSACTIONS and not self._ended():
            assert time.monotonic() < deadline, f"{self.client.name} writes nothing after {before}: {self.failures}"
            time.sleep(0.05)
        self._tell()

    def finish(self) -> None:
        """Begins no more transactions and waits."""
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        assert self._ended(), f"{self.client.name} is still in a transaction"
        self._tell()

    def _ended(self) -> bool:
        return not self._thread.is_alive()

    def _tell(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                try:
                    self._write()
                except KafkaCodeError as failure:
                    self._note(failure)
                    self._resume()
        except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001  (raised by the client's own test)
            self._error = error

    def _note(self, failure: KafkaCodeError) -> None:
        self.failures.append(failure)
        if len(self.failures) >= GIVING_UP:
            raise failure
        self._is_over.wait(PAUSE_S)

    def _write(self) -> None:
        numbers = range(self.written, self.written + TRANSACTIONS)
        wanted = [
            Transaction((b"%d" % each,), commit=each % 4 != ABORTED, group=self.group, offset=each + 1)
            for each in numbers
        ]
        self.client.transact(self.topic, self.topic, wanted)
        self.written = numbers.stop

    def _resume(self) -> None:
        """Ends what the last producer left, by a transaction of a new one, and learns what was committed."""
        while True:
            try:
                self.client.transact(self.topic, self.topic, [Transaction((b"resumed",), commit=False)])
                break
            except KafkaCodeError as failure:
                self._note(failure)
        self.written = max(map(int, committed_values(self.client.bootstrap, self.topic)), default=-1) + 1

    def check(self) -> None:
        """Each number that was to be committed is there once, in order, and the group's offset is that of the last."""
        expected = [number for number in range(self.written) if number % 4 != ABORTED]
        assert list(map(int, committed_values(self.client.bootstrap, self.topic))) == expected
        found = self.client.consume(self.topic, len(expected), committed=True)
        assert [int(each.value or b"") for each in found] == expected
        wait_until(lambda: self.client.committed(self.group, self.topic) == expected[-1] + 1, "the group's offset")


def topic_of(name: str) -> str:
    """The topic, and transactional id, of a client's application."""
    return f"transactions-of-{name}"


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """Every value that a reader of committed records sees in partition 0."""
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} has no end"
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()


def applications_over_kills(clients: Clients, cluster: ThreeBrokers) -> dict[str, Outcome]:
    """The results of each client's application while a leader, a coordinator and the controller were killed."""
    topics = list(map(topic_of, clients))
    for topic in topics:
        create_topic(cluster.bootstrap, topic)
    with ThreadPoolExecutor(len(clients)) as pool:
        found: dict[str, Outcome] = dict(zip(clients, pool.map(_started, clients.values()), strict=True))
        for disturb in (lambda: None, *cluster.disturbances(topics, topics, TRANSACTION)):
            disturb()
            found = dict(zip(found, pool.map(_after(Application.goes_on), found.values()), strict=True))
        return dict(zip(found, pool.map(_after(Application.finish), found.values()), strict=True))


def _started(make: Callable[[], Client]) -> Outcome:
    try:
        return Application(make())
    except (Exception, MissingToolchainError) as error:  # noqa: BLE001  (raised by the client's own test)
        return error


def _after(step: Callable[[Application], None]) -> Callable[[Outcome], Outcome]:
    """Takes the step if the application is still well."""

    def attempt(outcome: Outcome) -> Outcome:
        if isinstance(outcome, BaseException):
            return outcome
        try:
            step(outcome)
        except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001  (raised by the client's own test)
            return error
        return outcome

    return attempt
