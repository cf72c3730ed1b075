"""Clients that run while a cluster changes, and know afterwards what every topic must contain.

Each runs in a thread, can be paused so that the logs do not grow, and measures the longest time without success.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.exchange.contents import QUIET, Contents

PARTITIONS = 3
TIMEOUT_S = 120.0
COMMIT_EACH_S = 0.5
Place = tuple[str, int]


class Busy:
    """A thread that repeats `_step` until it is stopped, and pauses between two steps."""

    def __init__(self) -> None:
        self.longest_gap_s = 0.0
        self.done = 0
        self._last = time.monotonic()
        self._may_run = threading.Event()
        self._is_paused = threading.Event()
        self._is_over = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _step(self) -> None:
        raise NotImplementedError

    def _settle(self) -> None:
        """Called before a pause: wait until all records that were sent are acknowledged."""

    def _run(self) -> None:
        try:
            while self._wait():
                self._step()
        except BaseException as error:  # noqa: BLE001  # it is raised where the test waits
            self._failure = error
            self._is_paused.set()

    def _wait(self) -> bool:
        if not self._may_run.is_set():
            self._settle()
            self._is_paused.set()
            self._may_run.wait()
            self._last = time.monotonic()
        return not self._is_over

    def succeeded(self) -> None:
        """Note that a client has got what it waited for."""
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last)
        self._last = now
        self.done += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run within, at least until some steps have succeeded; paused afterwards."""
        self.longest_gap_s, before = 0.0, self.done
        self._is_paused.clear()
        self._may_run.set()
        try:
            yield
            deadline = time.monotonic() + TIMEOUT_S
            goal = max(before, self.done) + 20
            while self.done < goal and self._failure is None and time.monotonic() < deadline:
                time.sleep(0.02)
            assert self._failure is not None or self.done >= goal, f"{type(self).__name__} makes no progress"
        finally:
            self._may_run.clear()
            assert self._is_paused.wait(TIMEOUT_S), f"{type(self).__name__} was not paused"
            if self._failure is not None:  # it may be the reason why another client makes no progress
                raise self._failure

    def close(self) -> None:
        """End the thread."""
        self._is_over = True
        self._may_run.set()
        self._thread.join(TIMEOUT_S)


class Writer(Busy):
    """An idempotent producer with acks=all; `acknowledged` has the values by place and offset.

    librdkafka acknowledges a batch whose answer was lost when a later one succeeds: such values are in `unplaced`.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._number = 0
        self.acknowledged: dict[Place, dict[int, bytes]] = {(topic, index): {} for index in range(PARTITIONS)}
        self.unplaced: dict[Place, set[bytes]] = {place: set() for place in self.acknowledged}
        self._failed: list[str] = []
        self._producer = Producer({**_base(bootstrap), "enable.idempotence": True, "message.timeout.ms": 120_000})
        super().__init__()

    def _step(self) -> None:
        for index in range(PARTITIONS):
            self._number += 1
            value = b"%s %d" % (self._topic.encode(), self._number)
            self._producer.produce(self._topic, value, partition=index, on_delivery=self._delivered)
        self._producer.poll(0.02)
        assert self._failed == []

    def _settle(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0
        assert self._failed == []

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
            return
        place = message.topic(), message.partition()
        found = self.acknowledged[place]
        offset, value = message.offset(), message.value()
        assert offset not in found, f"{value!r} and {found[offset]!r} were both acknowledged at offset {offset}"
        if offset is None:
            self.unplaced[place].add(value)
        else:
            found[offset] = value
        self.succeeded()

    def check(self, place: Place, found: Mapping[int, bytes | None]) -> None:
        """Compare the records of a partition with the acknowledged ones; learn the offsets of the rest."""
        acknowledged, unplaced = self.acknowledged[place], self.unplaced[place]
        rest = {offset: value for offset, value in found.items() if value in unplaced}
        assert found == {**acknowledged, **rest}, (place, set(found.items()) ^ set(acknowledged.items()), unplaced)
        assert Counter(rest.values()) == Counter(unplaced), (place, rest, unplaced)
        acknowledged.update({offset: value for offset, value in rest.items() if value is not None})
        unplaced.clear()


class Transactions(Busy):
    """One transaction after the other, over all partitions; each fourth is aborted."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        self._topic = topic
        self._number = 0
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []
        self._producer = transactional(bootstrap, transactional_id)
        super().__init__()

    def _step(self) -> None:
        self._number += 1
        values = [b"transaction %d, %d" % (self._number, index) for index in range(PARTITIONS)]
        self._producer.begin_transaction()
        for index, value in enumerate(values):
            self._producer.produce(self._topic, value, partition=index)
        assert self._producer.flush(TIMEOUT_S) == 0  # an abort would drop what has not been sent
        if self._number % 4:
            self._end(self._producer.commit_transaction, self.committed, values)
        else:
            self._end(self._producer.abort_transaction, self.aborted, values)
        self.succeeded()

    def _end(self, end: Callable[[float], None], ended: list[bytes], values: list[bytes]) -> None:
        """Commit or abort; ask again while the answer is missing, abort if the client says so."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                end(TIMEOUT_S)
            except KafkaException as failed:
                error = failed.args[0]
                if time.monotonic() > deadline or not (error.retriable() or error.txn_requires_abort()):
                    raise
                if error.txn_requires_abort():
                    end, ended = self._producer.abort_transaction, self.aborted
            else:
                ended += values
                return


class Member(Busy):
    """The only member of a group; it commits now and then, since each commit waits for all replicas."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.read: dict[Place, dict[int, bytes]] = {(topic, index): {} for index in range(PARTITIONS)}
        self.again = 0
        self._committed_s = 0.0
        self._consumer = Consumer(
            {
                **_base(bootstrap),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
            }
        )
        self._consumer.subscribe([topic])
        super().__init__()

    def _step(self) -> None:
        message = self._consumer.poll(0.1)
        if message is None:
            return
        assert message.error() is None, message.error()
        found = self.read[str(message.topic()), int(message.partition() or 0)]
        offset, value = int(message.offset() or 0), bytes(message.value() or b"")
        if offset in found:
            self.again += 1
            assert found[offset] == value
        elif found:
            assert offset == max(found) + 1, "a record was left out"
        found[offset] = value
        self.succeeded()
        if time.monotonic() - self._committed_s > COMMIT_EACH_S:
            self._committed_s = time.monotonic()
            self._consumer.commit(asynchronous=True)

    def close(self) -> None:
        super().close()
        self._consumer.close()


def _base(bootstrap: str) -> dict[str, object]:
    """Settings of all clients: they ask soon again when a broker is away."""
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 5_000,
        **QUIET,
    }


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    """A producer whose transactions may last as long as a broker allows, 15 minutes."""
    settings = {**_base(bootstrap), "transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    producer = Producer({**settings, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def commit_offsets(bootstrap: str, topic: str, groups: Mapping[str, int]) -> None:
    """Each group, which has no member, commits its offset in every partition."""
    for group, offset in groups.items():
        consumer = Consumer({**_base(bootstrap), "group.id": group})
        consumer.commit(
            offsets=[TopicPartition(topic, index, offset) for index in range(PARTITIONS)], asynchronous=False
        )
        consumer.close()


@contextmanager
def all_running(*clients: Busy) -> Iterator[None]:
    """Run several clients within."""
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(client.running())
        yield


def values(contents: Contents, topic: str) -> list[bytes]:
    """The values of a topic, sorted."""
    return sorted(record.value or b"" for (name, _), records in contents.items() if name == topic for record in records)
