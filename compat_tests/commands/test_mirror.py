"""``kafkapy mirror`` from Apache Kafka 2.7.2 to kafkapy and the other way; kafka-python compares both sides."""

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import confluent_kafka.admin
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from compat_tests.kafkapy_process import KafkapyProcess
from compat_tests.process import ChildProcess
from compat_tests.real_kafka import RealKafka

pytestmark = [pytest.mark.java, pytest.mark.together]

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
}
START_MS = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "transactions": {},
    "compacted": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "4096",
        "compression.type": "lz4",
    },
}
OLD: dict[str, dict[str, str]] = {
    "format0": {"message.format.version": "0.9.0", "compression.type": "gzip"},
    "format1": {"message.format.version": "0.10.2"},
    "format1-snappy": {"message.format.version": "0.10.2", "compression.type": "snappy"},
}
PARTITIONS = 2
RECORDS = 300


class Seen(NamedTuple):
    """A record as kafka-python reads it."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, ChildProcess]]:
    theirs, ours = RealKafka("2.7.2", config=SETTINGS), KafkapyProcess(config=SETTINGS)
    try:
        yield {"kafka": theirs.start(), "kafkapy": ours.start()}
    finally:
        theirs.close()
        ours.close()


def _mirror(source: ChildProcess, target: ChildProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkapy", "mirror", "--from", source.bootstrap, "--to", target.bootstrap]
    return subprocess.run([*command, "--once", *words], capture_output=True, text=True, timeout=100, check=False)


def _fill(broker: ChildProcess, topics: dict[str, dict[str, str]], prefix: str) -> None:
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [kafka_admin.NewTopic(prefix + name, PARTITIONS, 1, config=own) for name, own in topics.items()]
    for made in admin.create_topics(wanted).values():
        made.result(20)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.num.messages": 7})
    for name in topics:
        if name != "transactions":
            _produce(producer, prefix + name, has_headers=not name.startswith("format"))
    assert producer.flush(30) == 0
    if "transactions" in topics:
        _produce_in_transactions(broker, f"{prefix}transactions")


def _produce(producer: Producer, topic: str, *, has_headers: bool) -> None:
    for at in range(RECORDS):
        value = None if at % 50 == 49 else b"%d" % at * 20
        headers = [("number", b"%d" % at), ("empty", b"")] if has_headers and at % 3 else None
        extra: dict[str, Any] = {} if headers is None else {"headers": headers}
        producer.produce(topic, value, b"key-%d" % (at % 40), at % PARTITIONS, timestamp=START_MS + at, **extra)


def _produce_in_transactions(broker: ChildProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    for at in range(9):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % at, b"key", partition, timestamp=START_MS + at)
        producer.flush(20)
        producer.abort_transaction(20) if at % 3 == 1 else producer.commit_transaction(20)


def _read(broker: ChildProcess, topic: str) -> list[Seen]:
    """Every committed record of a topic, in the order of its partitions."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    found: list[Seen] = []
    deadline = time.monotonic() + 30
    while any(consumer.position(place) < ends[place] for place in places):
        assert time.monotonic() < deadline, f"{topic} is not read to its end"
        for place, records in consumer.poll(200).items():
            found += [Seen(place.partition, r.key, r.value, r.timestamp, tuple(r.headers)) for r in records]
    consumer.close()
    return sorted(found, key=lambda each: each.partition)


def _latest(records: list[Seen]) -> list[Seen]:
    """The last record of each key."""
    return sorted({(each.partition, each.key): each for each in records}.values(), key=repr)


def _wait_for_gaps(broker: ChildProcess, topic: str) -> None:
    deadline = time.monotonic() + 40
    while len(_read(broker, topic)) > RECORDS // 2:
        assert time.monotonic() < deadline, f"{topic} is not compacted"
        time.sleep(0.2)


@pytest.mark.parametrize(("source", "target"), [("kafka", "kafkapy"), ("kafkapy", "kafka")])
@pytest.mark.parametrize("words", [[], ["--exactly-once"]], ids=["at-least-once", "exactly-once"])
def test_both_sides_have_the_same_records(
    brokers: dict[str, ChildProcess], source: str, target: str, words: list[str]
) -> None:
    prefix = f"{source}{''.join(words)}."
    topics = TOPICS if words else {**TOPICS, **OLD}
    _fill(brokers[source], topics, prefix)
    _wait_for_gaps(brokers[source], f"{prefix}compacted")
    options = ["--topics", f"{prefix}.*", "--group", f"mirror{prefix}", *words]
    copied = _mirror(brokers[source], brokers[target], *options)
    assert copied.returncode == 0, copied.stderr
    for name in topics:
        wanted, found = (_read(brokers[each], prefix + name) for each in (source, target))
        assert wanted
        if name == "compacted":  # each side goes on removing older records
            wanted, found = _latest(wanted), _latest(found)
        assert found == wanted, name
    assert _mirror(brokers[source], brokers[target], *options).stdout.startswith("copied 0 records")
    back = _mirror(brokers[target], brokers[source], *options)
    assert back.stdout == "copied 0 records of 0 partitions\n", back.stderr
    assert back.stderr.count("is not copied") == len(topics)


def test_old_formats_are_not_copied_in_transactions(brokers: dict[str, ChildProcess]) -> None:
    _fill(brokers["kafka"], {"format1": OLD["format1"]}, "refused.")
    refused = _mirror(brokers["kafka"], brokers["kafkapy"], "--topics", "refused.*", "--exactly-once")
    assert refused.returncode == 1
    assert "message format 1, which can't be in a transaction" in refused.stderr
