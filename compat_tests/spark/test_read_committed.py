"""Spark reads what was committed, all of it and nothing else, in batches and as a stream."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.brokers.topics import create_topic
from compat_tests.spark.runs import quick_java
from harness.process import Broker

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers
pytest.importorskip("pyspark", reason="comes with the spark extra")

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 2
ROUNDS = 40
TIMEOUT_S = 30
PATIENCE_MS = 240_000
QUIET = {"log_level": 0}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
Row = tuple[int, int, str]
Ask = Callable[[str, str], list[Row]]


class Writer:
    """A producer, and where its records came to lie."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str | None = None) -> None:
        self.written: list[Row] = []
        self._topic = topic
        own: dict[str, str | int | bool] = {"enable.idempotence": True}
        if transactional_id:
            own = {"transactional.id": transactional_id, "transaction.timeout.ms": PATIENCE_MS}
        self.producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **own})
        if transactional_id:
            self.producer.init_transactions(TIMEOUT_S)

    def write(self, count: int, note: str) -> list[Row]:
        """Records on all partitions in turn, acknowledged; their rows."""
        before = len(self.written)
        for number in range(count):
            self.producer.produce(
                self._topic, f"{note}-{number}", partition=number % PARTITIONS, on_delivery=self._delivered
            )
        assert self.producer.flush(TIMEOUT_S) == 0
        assert len(self.written) == before + count
        return self.written[before:]

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.written.append((partition, offset, (message.value() or b"").decode()))

    def end(self, *, commit: bool) -> None:
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(TIMEOUT_S)


class History:
    """Transactions that overlap, and records without one between them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.first, self.second = (Writer(bootstrap, topic, f"{topic}-{name}") for name in ("first", "second"))
        self.plain = Writer(bootstrap, topic)
        self.committed: list[Row] = []

    def unfold(self) -> None:
        """Some transactions are committed, some aborted; long ranges hold only aborted records."""
        for number in range(ROUNDS):
            fates = number % 2 == 0 or number > ROUNDS - 8, number % 3 == 0
            if 10 <= number < 20:
                fates = False, False
            self.first.producer.begin_transaction()
            self.second.producer.begin_transaction()
            rows = [self.first.write(1 + number % 5, f"first-{number}")]
            rows += [self.second.write(1 + number % 7, f"second-{number}")]
            rows[0] += self.first.write(2, f"first-{number}-more")
            self.second.end(commit=fates[1])
            if number % 4 == 0:
                self.committed += self.plain.write(1, f"plain-{number}")
            self.first.end(commit=fates[0])
            for fate, written in zip(fates, rows, strict=True):
                self.committed += written if fate else []

    def leave_one_open(self) -> list[Row]:
        """What it has written and, behind it, what is committed already: to be shown when it ends, not earlier."""
        self.first.producer.begin_transaction()
        self.second.producer.begin_transaction()
        held = self.first.write(6, "open") + self.second.write(6, "behind it")
        self.second.end(commit=True)
        return held

    @property
    def all(self) -> list[Row]:
        return [row for writer in (self.first, self.second, self.plain) for row in writer.written]


def wait_for_markers(admin: AdminClient, topic: str) -> None:
    """Kafka answers EndTxn before its markers are in the partitions."""
    specification = {TopicPartition(topic, index): kafka_admin.OffsetSpec.latest() for index in range(PARTITIONS)}
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        ends = []
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            found = admin.list_offsets(specification, isolation_level=level)
            ends.append([found[place].result(TIMEOUT_S).offset for place in specification])
        if ends[0] == ends[1]:
            return
    raise TimeoutError("a transaction is still open")


@contextmanager
def spark_reading(bootstrap: str, topic: str, directory: Path) -> Iterator[Ask]:
    """Reads with a new Spark process; sorted rows."""
    command = [sys.executable, "-m", "compat_tests.spark.reader", bootstrap, topic, str(directory)]
    with (
        (directory / "reader.log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=quick_java(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None

        def ask(way: str, isolation: str) -> list[Row]:
            asked.write(f"{way} {isolation}\n".encode())
            asked.flush()
            answer = answers.readline()
            assert answer, (directory / "reader.log").read_text(errors="replace")[-4000:]
            return [(partition, offset, value) for partition, offset, value in json.loads(answer)]

        try:
            yield ask
            asked.close()
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()


@pytest.mark.scenario("transactions", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_reads_what_was_committed(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    create_topic(broker.bootstrap, topic_name, PARTITIONS)
    history = History(broker.bootstrap, topic_name)
    history.unfold()
    wait_for_markers(admin, topic_name)
    held = history.leave_one_open()
    with spark_reading(broker.bootstrap, topic_name, tmp_path) as ask:
        assert ask("batch", COMMITTED) == ask("stream", COMMITTED) == sorted(history.committed)
        assert ask("batch", UNCOMMITTED) == sorted(history.all)
        history.first.end(commit=True)
        wait_for_markers(admin, topic_name)
        assert ask("batch", COMMITTED) == ask("stream", COMMITTED) == sorted(history.committed + held)
