"""The load on a mirror's source while the mirror is killed, and the comparison with the copy on the target.

Writers of librdkafka run all the time: one for each codec, one with keys, and one with transactions, of which some are
aborted. Each value is unique, so a record has a place in the source by which the copy is judged.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.exchange.contents import Contents, Read, read_all

PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = ("codecs", "keyed", "transactions")
TICK_S = 0.02
PER_TICK = 2
"""Records of each writer in a tick: 600 a second in all, and those of transactions."""
KEYS = 50
ABORTED_SHARE = 0.25
LONGEST_TRANSACTION = 20
PATIENCE_S = 600
CALL_S = 30
PATIENT = {
    "message.timeout.ms": PATIENCE_S * 1000,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
}

WRITER = "writer"
TRANSACTIONAL = {"transactional.id": WRITER, "transaction.timeout.ms": 60_000, "message.timeout.ms": 60_000}


def create_topics(bootstrap: str, replicas: int) -> None:
    """Create the topics on the source; the mirror creates them on the target."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, replicas) for name in TOPICS]).values():
        made.result(60)


class Load:
    """Writes to the source until ``finish``; ``acknowledged`` and ``aborted`` have values."""

    def __init__(self, bootstrap: str, seed: int, tick_s: float = TICK_S) -> None:
        self.acknowledged: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.failures: list[str] = []
        self.transactions: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self._seed = seed
        self._tick_s = tick_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._transact)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def finish(self) -> None:
        """Write no more; all that was written is acknowledged. AssertionError for records that were not."""
        self.__exit__()
        assert not self.failures, self.failures[:3]

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is None:
            self.acknowledged.add(value)
        else:
            self.failures.append(str(error))

    def _producer(self, **settings: object) -> Producer:
        common = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 10, **PATIENT}
        return Producer({**common, **settings})

    def _send(self) -> None:
        drawn = random.Random(self._seed)
        plain = [(codec, self._producer(**{"compression.type": codec})) for codec in CODECS]
        keyed = self._producer(**{"compression.type": "lz4"})
        number = 0
        while not self._stop.wait(self._tick_s):
            for _ in range(PER_TICK):
                number += 1
                padding = b"x" * drawn.choice((0, 10, 100, 900))
                for codec, producer in plain:
                    value = b"%s %d %s" % (codec.encode(), number, padding)
                    headers = [("number", b"%d" % number)] if number % 3 else None
                    extra = {} if headers is None else {"headers": headers}
                    self._one(producer, "codecs", value, partition=number % PARTITIONS, **extra)
                self._one(keyed, "keyed", b"%d %s" % (number, padding), key=b"%d" % drawn.randrange(KEYS))
            for producer in (*(each for _, each in plain), keyed):
                producer.poll(0)
        left = [producer.flush(PATIENCE_S) for producer in (*(each for _, each in plain), keyed)]
        if any(left):
            self.failures.append(f"{sum(left)} records were not acknowledged in {PATIENCE_S} s")

    def _one(self, producer: Producer, topic: str, value: bytes, **extra: object) -> None:
        while not self.failures:
            try:
                producer.produce(topic, value, on_delivery=self._on_delivery, **extra)  # type: ignore[arg-type]
            except BufferError:
                producer.poll(TICK_S)
            else:
                return

    def _transact(self) -> None:
        drawn = random.Random(self._seed + 1)
        producer: Producer | None = None
        number = 0
        while not self._stop.wait(self._tick_s):
            try:
                if producer is None:
                    producer = self._producer(**TRANSACTIONAL)
                    _patiently(partial(producer.init_transactions, CALL_S))
                number += 1
                self._one_transaction(producer, drawn, number)
            except KafkaException as error:  # a fatal one: the next producer fences this one
                self.transactions[f"ended by {error.args[0].name()}"] += 1
                producer = None

    def _one_transaction(self, producer: Producer, drawn: random.Random, number: int) -> None:
        is_aborted = drawn.random() < ABORTED_SHARE
        values = [b"%d-%d" % (number, each) for each in range(drawn.randint(1, LONGEST_TRANSACTION))]
        producer.begin_transaction()
        for place, value in enumerate(values):
            producer.produce("transactions", value, b"%d" % number, place % PARTITIONS)
        try:
            if is_aborted:
                _patiently(lambda: producer.flush(CALL_S))
                _patiently(lambda: producer.abort_transaction(CALL_S))
            else:
                _patiently(lambda: producer.commit_transaction(CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _patiently(lambda: producer.abort_transaction(CALL_S))
            is_aborted = True
        (self.aborted if is_aborted else self.acknowledged).update(values)
        self.transactions["aborted" if is_aborted else "committed"] += 1


def _patiently(call: Callable[[], object]) -> None:
    """Call again while librdkafka says that it may be tried again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise
        else:
            return


class Verdict:
    """The copy beside its source: ``violations`` are lines, ``repeated`` counts records that came again."""

    def __init__(self, load: Load, source: Contents, target: Contents, *, exactly_once: bool) -> None:
        self.violations: list[str] = []
        self.records = sum(map(len, source.values()))
        self.repeated = 0
        in_source = {each.value for records in source.values() for each in records if each.value is not None}
        if missing := load.acknowledged - in_source:
            self.violations.append(f"{len(missing)} acknowledged records are not on the source, as {min(missing)!r}")
        if aborted := load.aborted & in_source:
            self.violations.append(f"{len(aborted)} aborted records are seen on the source, as {min(aborted)!r}")
        if wrong := source.keys() ^ target.keys():
            self.violations.append(f"partitions are on one side only: {sorted(wrong)}")
        for place in sorted(source.keys() & target.keys()):
            wanted, found = ([each._replace(offset=0) for each in side[place]] for side in (source, target))
            self.repeated += len(found) - len(wanted)
            fault = first_difference(wanted, found) if exactly_once else first_disorder(wanted, found)
            if fault:
                self.violations.append(f"{place[0]}-{place[1]}: {fault}")

    @classmethod
    def read(cls, load: Load, source: str, target: str, *, exactly_once: bool) -> Self:
        """Read both sides as a consumer of committed records does, and compare."""
        sides = [read_all(each, committed=True) for each in (source, target)]
        return cls(load, *sides, exactly_once=exactly_once)


def first_difference(wanted: list[Read], found: list[Read]) -> str:
    """ "" if both are the same, else where they begin to differ."""
    for at, pair in enumerate(zip(wanted, found, strict=False)):
        if pair[0] != pair[1]:
            return f"record {at} should be {_short(pair[0])} and is {_short(pair[1])}"
    return "" if len(wanted) == len(found) else f"{len(found)} records instead of {len(wanted)}"


def first_disorder(wanted: list[Read], found: list[Read]) -> str:
    """ "" if nothing is missing and nothing comes before what is before it in the source; records may come again."""
    places = {each: at for at, each in enumerate(wanted)}
    seen = 0
    for at, each in enumerate(found):
        place = places.get(each)
        if place is None:
            return f"record {at}, {_short(each)}, is not in the source"
        if place > seen:
            return f"record {at}, {_short(each)}, comes before {_short(wanted[seen])}"
        seen = max(seen, place + 1)
    return "" if seen == len(wanted) else f"{len(wanted) - seen} records are missing, the first {_short(wanted[seen])}"


def _short(read: Read) -> str:
    return f"{(read.value or b'')[:40]!r}"
