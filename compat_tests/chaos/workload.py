"""Clients that write and read all the time while brokers fail, and what they saw: one round, on topics of its own.

Three idempotent producers write to `records-N` with acks=all, two of confluent-kafka and one of kafka-python. A copier
reads it and writes `copies-N` in transactions that contain its offsets, some of them aborted. A group of two members
reads and commits; readers without a group restart at random offsets. `Round.finish` compares all that with the logs.
"""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from compat_tests.chaos.checks import (
    Observations,
    Outcome,
    Position,
    Transaction,
    broken_transactions,
    doubled_and_reordered,
    gaps,
    lost_and_moved,
    make_value,
    not_copied_once,
    not_processed,
    short,
)
from compat_tests.chaos.java_copier import JavaCopier

PARTITIONS = 4
TRANSACTIONAL_ID = "copier"
SENT_EVERY_S = 0.4
MOST_AT_ONCE = 10
MOST_COPIED = 500
COPIED_EVERY_S = 0.3
COMMITTED_EVERY_S = 1.5
MOST_PENDING = 400
ABORTED = 0.15
READ_AGAIN = 0.02
PATIENCE_S = 120.0
TRANSACTION_S = 25.0
STALE_S = 30.0
"""The longest wait for committed offsets that are not those of a stopped coordinator."""
STUCK_S = 45.0
DELIVERY_S = 600
SHORT: dict[str, Any] = {
    "log_level": 0,
    "socket.timeout.ms": 8000,
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5000,
}
RESET = {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}
"""The consumer has lost its position and has to begin again.

librdkafka 2.8 may report that an intact log is truncated: it compares the end of the epoch of an older position with
its newest position. If records that were read are gone, the comparison with the log at the end of the round finds them.
"""


class History:
    """The results of a round's clients. Times are of `time.monotonic`; each topic of `copies` has a copier."""

    def __init__(self, number: int, copiers: int = 1) -> None:
        self.records = f"records-{number}"
        self.copies = tuple(f"copies-{number}-{index}" for index in range(copiers))
        self.lock = threading.Lock()
        self.acknowledged: dict[int, dict[bytes, int | None]] = defaultdict(dict)
        self.transactions: dict[str, dict[str, Transaction]] = {name: {} for name in self.copies}
        self.read = {name: Observations(name) for name in self.topics}
        self.processed: dict[int, set[int]] = defaultdict(set)
        self.commits: dict[int, int] = {}
        self.high_watermarks: dict[int, int] = defaultdict(int)
        self.violations: list[str] = []
        self.doubled: list[str] = []
        """Values that are there twice: violations, unless the producer has sent them again under a new epoch."""
        self.errors: dict[str, int] = defaultdict(int)
        self.refused: dict[str, int] = defaultdict(int)
        self.newest_acknowledged_s: dict[int, float] = dict.fromkeys(range(PARTITIONS), 0.0)
        self.newest_copied_s = dict.fromkeys(self.copies, 0.0)
        self.longest_s: dict[str, float] = defaultdict(float)
        """The longest successful calls of a kind."""
        self.newest_processed_s: dict[int, float] = dict.fromkeys(range(PARTITIONS), 0.0)
        self.sent_s: dict[bytes, float] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics of the round."""
        return self.records, *self.copies

    @property
    def acknowledged_count(self) -> int:
        """Records of producers that the brokers have confirmed."""
        return sum(map(len, self.acknowledged.values()))

    @property
    def committed_count(self) -> int:
        """Transactions that are committed for sure."""
        return sum(
            each.outcome is Outcome.COMMITTED for found in self.transactions.values() for each in list(found.values())
        )

    def acknowledge(self, partition: int, value: bytes, offset: int | None) -> None:
        """The brokers have confirmed a record; of one that they have had before, they may not know the offset."""
        with self.lock:
            self.acknowledged[partition][value] = offset
            newest_s = self.newest_acknowledged_s
            newest_s[partition] = max(newest_s[partition], self.sent_s[value])

    def process(self, partition: int, offset: int, value: bytes) -> None:
        """The group got a record."""
        with self.lock:
            self.processed[partition].add(offset)
            newest_s = self.newest_processed_s
            newest_s[partition] = max(newest_s[partition], self.sent_s.get(value, 0.0))

    def copied(self, topic: str, began_s: float) -> None:
        """A transaction of a copier was committed."""
        with self.lock:
            self.newest_copied_s[topic] = max(self.newest_copied_s[topic], began_s)
            self._note("a whole transaction", time.monotonic() - began_s)

    def took(self, call: str, began_s: float) -> None:
        """A call of a client returned with success."""
        with self.lock:
            self._note(call, time.monotonic() - began_s)

    def _note(self, call: str, seconds: float) -> None:
        self.longest_s[call] = max(self.longest_s[call], round(seconds, 1))

    def see(self, topic: str, message: Message) -> None:
        """Some consumer got a record."""
        partition, offset, value = place(message)
        with self.lock:
            self.read[topic].add(partition, offset, value)

    def violate(self, sentence: str) -> None:
        """Something happened that must not."""
        with self.lock:
            self.violations.append(sentence)

    def count(self, error: object) -> None:
        """A client reported an error that it may report."""
        with self.lock:
            self.errors[str(error)[:100]] += 1


def place(message: Message) -> tuple[int, int, bytes]:
    """Partition, offset and value of a record."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    return partition, offset, value or b""


class Client(Protocol):
    """One thread's work; `step` returns soon."""

    def step(self) -> None: ...

    def finish(self) -> None: ...


class Writer:
    """Numbered records to all partitions in turn; a library's producer sends them."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self._name, self._bootstrap, self._history = name, bootstrap, history
        self._incarnation = 0
        self._numbers = itertools.count()
        self._random = random.Random(name)
        self._pending = 0
        self._is_broken = False
        self._open()

    def _open(self) -> None:
        raise NotImplementedError

    def _send(self, partition: int, value: bytes) -> None:
        raise NotImplementedError

    def _poll(self) -> None:
        raise NotImplementedError

    def step(self) -> None:
        if self._is_broken:
            self._is_broken = False
            self._incarnation += 1
            self._open()
        for number in itertools.islice(self._numbers, self._random.randint(1, MOST_AT_ONCE)):
            if self._pending >= MOST_PENDING:
                break
            value = make_value(f"{self._name}-{self._incarnation}", number, 1000 if number % 10 == 0 else 30)
            self._history.sent_s[value] = time.monotonic()
            self._count_pending(1)
            self._send(number % PARTITIONS, value)
        self._poll()

    def _count_pending(self, change: int) -> None:
        with self._history.lock:  # kafka-python calls back in a thread of its own
            self._pending += change

    def _delivered(self, partition: int, value: bytes, offset: int | None) -> None:
        self._count_pending(-1)
        self._history.acknowledge(partition, value, offset)

    def _refused(self, value: bytes, error: object) -> None:
        """A producer gave up a record before its time was over; the record may be in the log or not."""
        self._is_broken = True
        with self._history.lock:
            self._pending -= 1
            self._history.refused[f"{self._name}: {error}"[:160]] += 1

    def finish(self) -> None:
        """Waits until every record has an outcome."""
        deadline = time.monotonic() + PATIENCE_S
        while self._pending and time.monotonic() < deadline:
            self._poll()
            time.sleep(0.01)
        if self._pending:
            self._history.violate(f"no progress: {self._pending} records of {self._name} have no outcome")


class ConfluentWriter(Writer):
    """With librdkafka's idempotent producer."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self._producers: list[Producer] = []
        """The last one sends; the others have records without an outcome still."""
        super().__init__(name, bootstrap, history)

    def _open(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "enable.idempotence": True,
            "linger.ms": 10,
            "message.timeout.ms": DELIVERY_S * 1000,
            "request.timeout.ms": 6000,
            "retry.backoff.ms": 50,
            "error_cb": self._failed,
        }
        self._producers.append(Producer({**SHORT, **settings}))

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self._is_broken = True
            self._history.count(f"fatal error of {self._name}: {error}")

    def _send(self, partition: int, value: bytes) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._refused(value, error)
            else:
                self._delivered(partition, value, message.offset())

        try:
            self._producers[-1].produce(self._history.records, value, partition=partition, on_delivery=on_delivery)
        except KafkaException as error:
            self._refused(value, error)

    def _poll(self) -> None:
        for producer in self._producers:
            with suppress(KafkaException):  # a fatal error, which the callback has counted
                producer.poll(0)


class KafkaPythonWriter(Writer):
    """With kafka-python's idempotent producer."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self._producers: list[KafkaProducer] = []
        super().__init__(name, bootstrap, history)

    def _open(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            linger_ms=10,
            delivery_timeout_ms=DELIVERY_S * 1000,
            request_timeout_ms=8000,
            max_block_ms=60_000,
            reconnect_backoff_max_ms=500,
            metadata_max_age_ms=5000,
        )
        self._producers.append(producer)

    def _send(self, partition: int, value: bytes) -> None:
        def on_error(error: object) -> None:
            self._refused(value, error)

        try:
            future = self._producers[-1].send(self._history.records, value, partition=partition)
        except KafkaPythonError as error:
            on_error(error)
            return
        future.add_callback(
            lambda found: self._delivered(partition, value, found.offset if found.offset >= 0 else None)
        )
        future.add_errback(on_error)

    def _poll(self) -> None:
        pass

    def finish(self) -> None:
        super().finish()
        for producer in self._producers:
            with suppress(KafkaPythonError):  # some records may have no outcome; that is reported already
                producer.close(timeout=5)


def new_consumer(bootstrap: str, group: str, **config: Any) -> Consumer:
    """A consumer whose waits are short, and which reports an offset that is out of range."""
    settings = {
        **SHORT,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 700,
        "fetch.min.bytes": 20_000,
        "fetch.error.backoff.ms": 50,
        "session.timeout.ms": 8000,
        "heartbeat.interval.ms": 2000,
    }
    return Consumer({**settings, **{name.replace("_", "."): value for name, value in config.items()}})


class Reader:
    """A consumer without a group, of all partitions of a topic; it begins again at a random offset now and then."""

    def __init__(self, bootstrap: str, history: History, topic: str, seed: str) -> None:
        self._history, self._topic = history, topic
        self._has_gaps = topic != history.records
        self._random = random.Random(seed)
        isolation = "read_committed" if self._has_gaps else "read_uncommitted"
        self._consumer = new_consumer(bootstrap, "none", isolation_level=isolation)
        self._positions: dict[int, Position] = {}
        self._ends = dict.fromkeys(range(PARTITIONS), 0)
        self._begin()

    def _begin(self) -> None:
        self._collect()
        self._positions = {
            index: Position(f"a reader of {self._topic}-{index}", self._has_gaps) for index in self._ends
        }
        starts = [
            TopicPartition(self._topic, index, self._random.randint(0, end) if end else 0)
            for index, end in self._ends.items()
        ]
        self._consumer.assign(starts)

    def _collect(self) -> None:
        for position in self._positions.values():
            for violation in position.violations:
                self._history.violate(violation)

    def step(self) -> None:
        for message in self._consumer.consume(200, 0.5):
            error = message.error()
            if error is not None:
                self._explain(message, error)
                continue
            partition, offset, _ = place(message)
            self._positions[partition].read(offset)
            self._ends[partition] = max(self._ends[partition], offset)
            self._history.see(self._topic, message)
        if not self._has_gaps:
            self._see_high_watermarks()
        if self._random.random() < READ_AGAIN:
            self._begin()

    def _explain(self, message: Message, error: KafkaError) -> None:
        self._history.count(f"reader: {error.name()}")
        if error.code() in RESET:
            self._begin()

    def _see_high_watermarks(self) -> None:
        for partition in self._ends:
            found = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            if found is not None and found[1] > self._history.high_watermarks[partition]:
                self._history.high_watermarks[partition] = found[1]

    def finish(self) -> None:
        self._collect()
        self._consumer.close()


class Member:
    """A member of the round's group; a commit that was acknowledged is where its successor begins."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self._name, self._history = name, history
        self._consumer = new_consumer(bootstrap, f"group-{history.records}", auto_offset_reset="earliest")
        self._positions: dict[int, Position] = {}
        self._least: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_s = 0.0
        self._consumer.subscribe(
            [history.records], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        indices = [each.partition for each in partitions]
        self._positions = {
            index: Position(f"{self._name}, {self._history.records}-{index}", False, may_repeat=True)
            for index in indices
        }
        with self._history.lock:
            self._least = {index: self._history.commits.get(index, 0) for index in indices}
        self._committed = {}

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._collect()
        self._positions = {}

    def _collect(self) -> None:
        for position in self._positions.values():
            for violation in position.violations:
                self._history.violate(violation)

    def step(self) -> None:
        for message in self._consumer.consume(200, 0.5):
            error = message.error()
            if error is not None:
                self._history.count(f"member: {error}")
                continue
            partition, offset, value = place(message)
            position = self._positions.get(partition)
            if position is None:
                continue
            if position.next_offset is None and offset < self._least[partition]:
                self._history.violate(
                    f"lost commit: {self._name} begins {self._history.records}-{partition} at {offset}, "
                    f"{self._least[partition]} was committed"
                )
            position.read(offset)
            self._history.see(self._history.records, message)
            self._history.process(partition, offset, value)
        if time.monotonic() - self._commit_s > COMMITTED_EVERY_S:
            self._commit()

    def _commit(self) -> None:
        self._commit_s = time.monotonic()
        news = {
            index: each.next_offset
            for index, each in self._positions.items()
            if each.next_offset is not None and each.next_offset != self._committed.get(index)
        }
        if not news:
            return
        offsets = [TopicPartition(self._history.records, index, offset) for index, offset in news.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._history.count(f"commit: {error.args[0]}")
            return
        with self._history.lock:
            for answer in answers or ():
                if answer.error is None:
                    self._committed[answer.partition] = answer.offset
                    commits = self._history.commits
                    commits[answer.partition] = max(commits.get(answer.partition, 0), answer.offset)

    def finish(self) -> None:
        self._commit()
        self._collect()
        self._consumer.close()


class Copier:
    """Reads, writes and commits its offsets in transactions; a new incarnation fences the one before."""

    def __init__(self, name: str, bootstrap: str, history: History, topic: str, seed: str) -> None:
        self._bootstrap, self._history = bootstrap, history
        self.topic = topic
        self._group = f"copier-{topic}"
        self._transactional_id = f"{TRANSACTIONAL_ID}-{history.copies.index(topic)}"
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._incarnation = 0
        self._is_ready = False
        self._has_lost_position = False
        self._step_began_s: float | None = None
        self._name = name
        self.next_offsets: dict[int, int] = {}
        self._acknowledged: dict[int, int] = {}
        self._consumer = new_consumer(bootstrap, self._group)
        self._open()

    def _open(self) -> None:
        self._incarnation += 1
        self._is_ready = False
        settings = {
            "bootstrap.servers": self._bootstrap,
            "transactional.id": self._transactional_id,
            "transaction.timeout.ms": 30_000,
            "message.timeout.ms": 30_000,
            "request.timeout.ms": 6000,
            "linger.ms": 0,
        }
        self._producer = Producer({**SHORT, **settings})

    @property
    def is_stuck(self) -> bool:
        """Whether the library has not returned for longer than all of its time-outs together."""
        began_s = self._step_began_s
        return began_s is not None and time.monotonic() - began_s > STUCK_S

    def step(self) -> None:
        self._step_began_s = time.monotonic()
        try:
            if not self._is_ready:
                self._producer.init_transactions(20)
                self._go_back()
                self._is_ready = True
            if self._has_lost_position:
                self._has_lost_position = False
                self._go_back()
            found = [
                each
                for each in self._consumer.consume(self._random.randint(1, MOST_COPIED), 0.3)
                if self._is_record(each)
            ]
            if found:
                self._copy(found)
        except KafkaException as error:
            self._history.count(f"copier: {error.args[0].name()}")
            self._open()  # librdkafka answers some later calls with _CONFLICT for ever
        self._step_began_s = None

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            self._history.count(f"copier: {error.name()}")
            self._has_lost_position |= error.code() in RESET
        return error is None

    def _go_back(self) -> None:
        """To the committed offsets, which are at least those of the last transaction that is known to be committed.

        A coordinator that was stopped answers from what it had, until it hears that another one has taken over: Apache
        Kafka's, too. A consumer in a group is safe, since it joins first; this one is asked to look again.
        """
        deadline = time.monotonic() + STALE_S
        found = self._committed()
        while any(offset < self._acknowledged.get(partition, 0) for partition, offset in found.items()):
            if time.monotonic() > deadline:
                self._history.violate(f"committed offsets lost: {found}, after {self._acknowledged}")
                break
            self._history.count("copier: older committed offsets, of a coordinator that was stopped; asked again")
            time.sleep(0.2)
            found = self._committed()
        self.next_offsets = found
        self._consumer.assign(
            [TopicPartition(self._history.records, index, offset) for index, offset in self.next_offsets.items()]
        )

    def _committed(self) -> dict[int, int]:
        places = [TopicPartition(self._history.records, index) for index in range(PARTITIONS)]
        committed = self._consumer.committed(places, 20)
        for each in committed:
            if each.error is not None:
                raise KafkaException(each.error)
        return {each.partition: 0 if each.offset == OFFSET_INVALID else each.offset for each in committed}

    def _copy(self, messages: list[Message]) -> None:
        began_s = time.monotonic()
        name = f"{self._name}{self._incarnation}-{next(self._numbers)}"
        transaction = self._history.transactions[self.topic][name] = Transaction([])
        after = dict(self.next_offsets)
        try:
            self._producer.begin_transaction()
            for message in messages:
                partition, offset, value = place(message)
                if offset != after[partition]:
                    self._history.violate(f"skipped read: the copier got {offset} where {after[partition]} is next")
                after[partition] = offset + 1
                self._history.see(self._history.records, message)
                copy = f"{short(value)}|{name}".encode()
                transaction.records.append((partition, copy))
                self._producer.produce(self.topic, copy, partition=partition)
            if self._random.random() < ABORTED:
                self._producer.flush(20)
                self._patiently(self._producer.abort_transaction)
                transaction.outcome = Outcome.ABORTED
                self._go_back()
                return
            offsets = [TopicPartition(self._history.records, index, offset) for index, offset in after.items()]
            metadata = self._consumer.consumer_group_metadata()
            sending_s = time.monotonic()
            self._patiently(lambda limit: self._producer.send_offsets_to_transaction(offsets, metadata, limit))
            self._history.took("send_offsets_to_transaction", sending_s)
            self._patiently(self._producer.commit_transaction)
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                self._is_ready = False
                raise
            self._history.count(f"copier: {failed.args[0].name()}")
            self._patiently(self._producer.abort_transaction)
            transaction.outcome = Outcome.ABORTED
            self._is_ready = False
            self._go_back()
            self._is_ready = True
        else:
            transaction.outcome = Outcome.COMMITTED
            self.next_offsets = self._acknowledged = after
            self._history.copied(self.topic, began_s)

    def _patiently(self, action: Callable[[float], object]) -> None:
        """Calls it again while the library reports a retriable error."""
        deadline = time.monotonic() + TRANSACTION_S
        while True:
            try:
                action(10.0)
            except KafkaException as failed:
                if not failed.args[0].retriable() or time.monotonic() > deadline:
                    raise
                self._history.count(f"copier: {failed.args[0].name()}, the call again")
            else:
                return

    def finish(self) -> None:
        self._consumer.close()


@dataclass
class Copying:
    """A copier and the thread that it runs in."""

    copier: Copier | JavaCopier
    is_over: threading.Event
    thread: threading.Thread


class Round:
    """The clients of one round in their threads; the last of the `java` and other copiers are programs in Java."""

    def __init__(self, history: History, bootstrap: str, seed: str, java: int = 0) -> None:
        self.history = history
        self._bootstrap = bootstrap
        self._writers: list[Client] = [
            ConfluentWriter("a", bootstrap, history),
            ConfluentWriter("b", bootstrap, history),
            KafkaPythonWriter("k", bootstrap, history),
        ]
        self._seed = seed
        self._copier_numbers = itertools.count()
        in_java = history.copies[len(history.copies) - java :]
        self._copying = [
            self._start(self._new_java_copier(topic) if topic in in_java else self._new_copier(topic))
            for topic in history.copies
        ]
        self._members = [Member(name, bootstrap, history) for name in ("first member", "second member")]
        self._readers: list[Client] = [
            *self._members,
            *(Reader(bootstrap, history, topic, f"{seed} {topic}") for topic in history.topics),
        ]
        self._writing, self._reading = threading.Event(), threading.Event()
        self._write_threads = [self._thread(each, self._writing, SENT_EVERY_S) for each in self._writers]
        self._read_threads = [self._thread(each, self._reading, 0.0) for each in self._readers]

    def _new_copier(self, topic: str) -> Copier:
        name = f"c{next(self._copier_numbers)}."
        return Copier(name, self._bootstrap, self.history, topic, f"{self._seed} {name}")

    def _new_java_copier(self, topic: str) -> JavaCopier:
        history = self.history
        names = f"java-copier-{topic}", (history.records, topic)
        return JavaCopier(self._bootstrap, *names, partial(history.copied, topic), history.count)

    def _start(self, copier: Copier | JavaCopier) -> Copying:
        is_over = threading.Event()
        return Copying(copier, is_over, self._thread(copier, is_over, COPIED_EVERY_S))

    def replace_stuck_copiers(self) -> None:
        """Leaves copiers behind whose library call does not return; the next ones fence them."""
        for place, copying in enumerate(self._copying):
            if copying.copier.is_stuck:
                self.history.count("copier: stuck in librdkafka, replaced")
                copying.is_over.set()
                self._copying[place] = self._start(self._new_copier(copying.copier.topic))

    def _thread(self, client: Client, is_over: threading.Event, every_s: float) -> threading.Thread:
        def run() -> None:
            try:
                while not is_over.wait(every_s):
                    client.step()
                client.finish()
            except Exception as error:  # noqa: BLE001 - a thread that ends unseen would leave its checks out
                self.history.violate(f"the harness: {type(client).__name__}: {error!r}")

        thread = threading.Thread(target=run, daemon=True, name=type(client).__name__)
        thread.start()
        return thread

    def has_progressed(self, since_s: float) -> dict[str, bool]:
        """Which kinds of work have gone on with what was begun after that time."""
        history = self.history
        return {
            "produce": all(newest_s > since_s for newest_s in history.newest_acknowledged_s.values()),
            "transaction": all(newest_s > since_s for newest_s in history.newest_copied_s.values()),
            "group": all(newest_s > since_s for newest_s in history.newest_processed_s.values()),
        }

    def finish(self) -> None:
        """Ends the clients once all has arrived, and checks everything."""
        self._writing.set()
        for thread in self._write_threads:
            thread.join(2 * PATIENCE_S)
        logs: dict[str, dict[int, list[tuple[int, bytes]]]] = {}
        topic = self.history.records
        logs[topic] = self._read_all(topic, "read_uncommitted")
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_all_read(logs[topic]) and time.monotonic() < deadline:
            self.replace_stuck_copiers()
            time.sleep(0.1)
        self._reading.set()
        for copying in self._copying:
            copying.is_over.set()
        for thread in (*self._read_threads, *(copying.thread for copying in self._copying)):
            thread.join(2 * PATIENCE_S)
        for copies in self.history.copies:
            logs[copies] = self._read_all(copies, "read_committed")
        self._check(logs)

    def _is_all_read(self, log: dict[int, list[tuple[int, bytes]]]) -> bool:
        return all(
            all(copying.copier.next_offsets.get(partition, 0) >= len(records) for copying in self._copying)
            and len(self.history.processed[partition]) >= len(records)
            for partition, records in log.items()
        )

    def _check(self, logs: dict[str, dict[int, list[tuple[int, bytes]]]]) -> None:
        history = self.history
        records = logs[history.records]
        found = history.violations
        found += gaps(history.records, records)
        found += lost_and_moved(history.records, history.acknowledged, records)
        for sentence in doubled_and_reordered(history.records, records):
            (history.doubled if sentence.startswith("duplicates") else found).append(sentence)
        found += not_processed(history.processed, records)
        for topic, log in logs.items():
            found += history.read[topic].violations
            found += history.read[topic].not_in(log)
        for topic in history.copies:
            found += broken_transactions(topic, history.transactions[topic], logs[topic])
            found += [f"{topic}: {sentence}" for sentence in not_copied_once(records, logs[topic])]
            found += [
                f"no progress: {len(logs[topic][partition])} of {len(values)} records of {topic}-{partition} are copied"
                for partition, values in records.items()
                if len(logs[topic][partition]) < len(values)
            ]
        for partition, offset in history.high_watermarks.items():
            if offset > len(records[partition]):
                found.append(
                    f"high watermark: {offset} of {history.records}-{partition}, {len(records[partition])} kept"
                )
        for partition, values in records.items():
            unsent = [short(value) for _, value in values if value not in history.sent_s]
            if unsent:
                found.append(f"never sent: {unsent[:5]} in {history.records}-{partition}")

    def _read_all(self, topic: str, isolation: str) -> dict[int, list[tuple[int, bytes]]]:
        """Every record of a topic."""
        consumer = new_consumer(self._bootstrap, "none", isolation_level=isolation, enable_partition_eof=True)
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(PARTITIONS)}
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < PARTITIONS:
            if time.monotonic() > deadline:
                self.history.violate(f"no progress: {topic} can't be read in {PATIENCE_S:.0f} s, only {sorted(ended)}")
                break
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    partition, offset, value = place(message)
                    found[partition].append((offset, value))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
        with suppress(KafkaException):
            consumer.close()
        return found
