"""Clients from before Kafka 0.11, unchanged, and newer libraries that are configured for old brokers."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from compat_tests.clients.agent import Agent, packed_record, unpacked_record
from compat_tests.clients.client import Received, Sent
from harness.jars import jars_directory
from harness.java_programs import MissingToolchainError, java_command

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 10
LOAD = HERE.parent / "clients/java/Load.java"
SOURCES = ("OldAgent.java", "ScalaClients.java", "NewConsumer.java", "OldMember.java")
CODECS = ("none", "gzip", "snappy", "lz4")

Produce = Callable[[str, Sequence[Sent], str], None]
Consume = Callable[[str, int], list[Received]]


@dataclass(frozen=True)
class OldClient:
    """One client; ``writes`` and ``reads`` are the newest message formats that it knows.

    Where it does not send the timestamps that it is given, it writes its own time if its format has any.
    """

    name: str
    writes: int
    produce: Produce | None
    reads: int
    consume: Consume | None
    sends_timestamps: bool = True


def agent_command(version: str) -> list[str]:
    """The command of the clients of one old release, compiled against its jars. Raises MissingToolchainError."""
    json = [
        str(jar) for part in ("core", "databind", "annotations")
        for jar in jars_directory("2.7.2").glob(f"jackson-{part}-*.jar")
    ]  # fmt: skip
    if not json:
        raise MissingToolchainError("the jars of Kafka 2.7.2 are not here: run make jars")
    sources = SOURCES[:2] if version.startswith("0.8") else SOURCES
    return java_command("OldAgent", [LOAD, *(HERE / "java" / name for name in sources)], version, more=":".join(json))


def java_clients(version: str, agent: Agent) -> Iterator[OldClient]:
    """The Java clients of a release, then its Scala clients."""
    magic = 1 if version.startswith("0.10") else 0

    def produce(what: str, topic: str, records: Sequence[Sent], codec: str) -> None:
        agent.ask(what, topic=topic, records=list(map(packed_record, records)), codec=codec, acks=-1, limit=1 << 20)

    def consume(what: str, topic: str, count: int) -> list[Received]:
        return [unpacked_record(each) for each in agent.ask(what, topic=topic, partition=0, offset=0, count=count)]

    reader = None if version.startswith("0.8") else partial(consume, "consume")
    yield OldClient(f"java-{version}", magic, partial(produce, "produce"), magic, reader)
    scala = (partial(produce, "produce_scala"), partial(consume, "consume_simple"))
    yield OldClient(f"scala-{version}", magic, scala[0], magic, scala[1], sends_timestamps=False)


def kafka_python_client(version: tuple[int, ...], bootstrap: str) -> OldClient:
    """kafka-python, configured with the broker's version."""
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "api_version": version}
    magic = 1 if version >= (0, 10) else 0

    def produce(topic: str, records: Sequence[Sent], codec: str) -> None:
        compression = None if codec == "none" else codec
        with closing(KafkaProducer(compression_type=compression, linger_ms=5, **settings)) as producer:
            futures = [
                producer.send(topic, each.value, each.key, partition=0, timestamp_ms=each.timestamp) for each in records
            ]
            for future in futures:
                future.get(TIMEOUT_S)

    def consume(topic: str, count: int) -> list[Received]:
        place = KafkaPythonPartition(topic, 0)
        found: list[Received] = []
        with closing(KafkaConsumer(group_id=None, **settings)) as consumer:
            consumer.assign([place])
            consumer.seek(place, 0)
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                for each in consumer.poll(200, max_records=count - len(found)).get(place, ()):
                    found.append(Received(each.value, each.key, (), each.timestamp, 0, each.offset))
        return found

    return OldClient(f"kafka-python-{'.'.join(map(str, version))}", magic, produce, magic, consume)


def librdkafka_client(version: str | None, bootstrap: str) -> OldClient:
    """librdkafka, told the broker's version (None: it asks, as it does by default)."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    magic = 2
    if version is not None:
        magic = 1 if version.startswith("0.10") else 0
        settings |= {"broker.version.fallback": version, "log_level": 0}
        settings |= {"api.version.request": False}

    def produce(topic: str, records: Sequence[Sent], codec: str) -> None:
        producer = Producer({"compression.type": codec, "linger.ms": 5, "message.timeout.ms": 10_000, **settings})
        errors: list[Any] = []
        for each in records:
            producer.produce(
                topic, each.value, each.key, 0, timestamp=each.timestamp or 0,
                on_delivery=lambda error, _: errors.append(error),
            )  # fmt: skip
        producer.flush(TIMEOUT_S)
        assert errors == [None] * len(records)

    def consume(topic: str, count: int) -> list[Received]:
        consumer = Consumer({"group.id": "none", "enable.auto.commit": False, **settings})
        found: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                for each in consumer.consume(count - len(found), 0.2):
                    assert each.error() is None, each.error()
                    kind, known_ms = each.timestamp()
                    time_ms = None if kind == TIMESTAMP_NOT_AVAILABLE else known_ms
                    found.append(Received(each.value(), each.key(), (), time_ms, 0, each.offset() or 0))
            return found
        finally:
            consumer.close()

    return OldClient(f"librdkafka-{version or 'new'}", magic, produce, magic, consume)


def other_clients(bootstrap: str) -> list[OldClient]:
    """Every client that is not Java."""
    return [
        *(kafka_python_client(version, bootstrap) for version in ((0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1))),
        *(librdkafka_client(version, bootstrap) for version in ("0.8.2.2", "0.9.0.1", None)),
    ]
