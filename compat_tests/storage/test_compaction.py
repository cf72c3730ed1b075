"""Compaction beside Apache Kafka 4.4.0's: both must make the same files of the same logs, and 2.7.2 must read them."""

import json
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kazoo.client import KazooClient

from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools
from harness.kafkapy_process import KafkapyProcess
from harness.real_kafka import RealKafka
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records
from kafkapy.storage.compaction.cleaner import LogCleaner
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

pytestmark = pytest.mark.java

SEGMENT_BYTES = 20_000
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "index.interval.bytes": "500",
}
LOG_CONFIG = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=SEGMENT_BYTES,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=0,
    index_interval_bytes=500,
)
STAMPED = {"message.timestamp.type": "LogAppendTime"}
PRODUCERS: dict[str, dict[str, object]] = {
    "plain": {},
    "stamped": {},
    "idempotent": {"enable.idempotence": True},
    "transactional": {"transactional.id": "t"},
    **{codec: {"compression.type": codec} for codec in ("gzip", "snappy", "lz4", "zstd")},
}
NOT_CLEANING = {"log.cleaner.enable": "false"}
CLEANING = {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "100"}
IO_BUFFER = {"log.cleaner.io.buffer.size": "8000"}
PATIENCE_S = 40


def create(bootstrap: str, segment_key: str = "segment.bytes") -> None:
    """Create the topics; Apache Kafka 4.1 takes a size below 1 MiB under another key."""
    config = {**TOPIC_CONFIG, segment_key: str(SEGMENT_BYTES)}
    admin = kafka_admin.AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        kafka_admin.NewTopic(name, 1, 1, config={**config, **(STAMPED if name == "stamped" else {})})
        for name in PRODUCERS
    ]
    for created in admin.create_topics(topics).values():
        created.result()


Newest = dict[bytes, bytes | None]


def produce(bootstrap: str, topic: str, options: dict[str, object], seed: int, newest: Newest) -> None:
    """Bursts of records of few keys, some without a value; every third transaction is aborted.

    The committed records are noted in ``newest``.
    """
    chance = random.Random(f"{topic}{seed}")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", **options})
    transactional = "transactional.id" in options
    if transactional:
        producer.init_transactions()
    for burst in range(40):
        if transactional:
            producer.begin_transaction()
        committed = not transactional or burst % 3 != 0
        for _ in range(chance.choice([1, 1, 2, 5, 20])):
            key = b"key-%d" % int(chance.expovariate(0.05))
            value = bytes(chance.choices(range(97, 110), k=chance.randrange(10, 600)))
            kept = None if chance.random() < 0.15 else value
            producer.produce(topic, kept, key, headers={"burst": str(burst)})
            if committed:
                newest[key] = kept
        producer.flush()
        if transactional:
            (producer.commit_transaction if committed else producer.abort_transaction)()


def consumed(bootstrap: str, topic: str) -> Newest:
    """The newest committed value of each key that a consumer gets, but what was deleted."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True})
    newest: Newest = {}
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(PATIENCE_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return newest
            newest[message.key() or b""] = message.value()
    finally:
        consumer.close()
    raise AssertionError(f"{topic} has no end")


def contents(directory: Path) -> dict[str, bytes]:
    """The files that compaction writes, by name; 4.1 makes an index entry by batch, 2.7.2 and kafkapy one by write."""
    endings = (".log", ".txnindex")
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name.endswith(endings)}


def surviving(directory: Path) -> list[tuple[object, ...]]:
    """Every record, and the headers of batches, as values."""
    found: list[tuple[object, ...]] = []
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        for position, header in iterate_headers(content):
            batch = content[position : position + header.size]
            found.append(header._replace(crc=0, size=0))
            found += read_records(batch, header)
    return found


def checkpoint(data: Path) -> dict[str, int]:
    """The content of cleaner-offset-checkpoint."""
    path = data / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {line.split()[0]: int(line.split()[2]) for line in lines}


def size(directory: Path) -> int:
    """Bytes of a partition's logs; as many as one may think of while they are being renamed."""
    try:
        return sum(path.stat().st_size for path in directory.glob("*.log"))
    except FileNotFoundError:
        return sys.maxsize


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def compact_ours(data: Path, now_ms: int) -> None:
    """Every log of a stopped broker's directory, by us, at a time."""
    clock = ManualClock(now_ms)
    manager = LogManager([str(data)], LOG_CONFIG, clock)
    load_logs(manager, lambda topic: LOG_CONFIG if topic in PRODUCERS else LogConfig())
    waiting: list[Callable[[], object]] = []
    config = BrokerConfig.from_properties({"broker.id": "0", "log.dirs": str(data), **IO_BUFFER})
    cleaner = LogCleaner(manager, config, waiting.append)
    for log in manager.all_logs():
        log.update_high_watermark(log.log_end_offset)
    cleaner.start()
    clock.advance(0)

    def is_done() -> bool:
        while waiting:
            waiting.pop(0)()
        return not cleaner._runs

    until(is_done, "our compaction")
    assert not cleaner.uncleanable
    cleaner.stop()
    clock.advance(60_000)
    manager.shutdown()


def compact_theirs(broker: RealKafka, expected: dict[str, int]) -> None:
    """The same by the real broker, which is then stopped."""
    broker.overrides = {**CLEANING, **IO_BUFFER, "log.segment.delete.delay.ms": "0"}
    broker.start()
    until(lambda: expected.items() <= checkpoint(broker.data).items(), f"{checkpoint(broker.data)} to be {expected}")
    broker.stop()


def horizon_in(directory: Path) -> int | None:
    """The latest delete horizon in a partition's logs: as ``delete.retention.ms`` is 0, the time of a compaction."""
    headers = (header for path in directory.glob("*.log") for _, header in iterate_headers(path.read_bytes()))
    return max((header.delete_horizon_ms for header in headers if header.delete_horizon_ms is not None), default=None)


def copy_logs(source: Path, target: Path) -> None:
    """Copy the partitions of the test's topics, with what is known of their clean parts, to a new directory."""
    for topic in PRODUCERS:
        shutil.copytree(source / f"{topic}-0", target / f"{topic}-0", copy_function=shutil.copy2)
    if (source / "cleaner-offset-checkpoint").exists():
        shutil.copy2(source / "cleaner-offset-checkpoint", target)


def skip_producer_ids(zookeeper: str) -> None:
    """Let a cluster give other producer ids than those in logs that come from another cluster."""
    client: Any = KazooClient(zookeeper)
    client.start()
    block = {"version": 1, "broker": 0, "block_start": "100000", "block_end": "100999"}
    client.set("/latest_producer_id_block", json.dumps(block).encode())
    client.stop()
    client.close()


def hand_over(broker: RealKafka, ours: Path, newest: dict[str, Newest]) -> None:
    """A broker of another release serves the logs that kafkapy has compacted, and compacts them further."""
    create(broker.bootstrap)
    broker.stop()
    for topic in PRODUCERS:
        shutil.rmtree(broker.data / f"{topic}-0")
    for name in ("cleaner-offset-checkpoint", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (broker.data / name).unlink(missing_ok=True)
    copy_logs(ours, broker.data)
    for metadata in broker.data.glob("*/partition.metadata"):
        metadata.unlink()
    clean_to = checkpoint(ours)
    assert broker.zookeeper is not None
    skip_producer_ids(broker.zookeeper.bootstrap)
    broker.overrides = dict(CLEANING)
    broker.start()
    for topic, options in PRODUCERS.items():
        produce(broker.bootstrap, topic, options, 7, newest[topic])
    until(
        lambda: all(checkpoint(broker.data)[topic] > clean_to[topic] for topic in PRODUCERS), "their further compaction"
    )
    for topic in PRODUCERS:
        found = consumed(broker.bootstrap, topic)
        assert found.items() >= {key: value for key, value in newest[topic].items() if value is not None}.items(), topic
        assert all(found[key] is None for key in found if newest[topic][key] is None), topic
    broker.stop()


@pytest.mark.timeout(400)
def test_both_compact_logs_to_the_same_files(tmp_path: Path, kafka_tools: Tools) -> None:
    """Three times: the second time tombstones go, and the third time markers.

    Apache Kafka is first, so that its time is known from the horizons that it writes.
    """
    newest: dict[str, Newest] = {topic: {} for topic in PRODUCERS}
    with RealKafka("4.4.0", heap="256M", directory=tmp_path / "broker", config=NOT_CLEANING) as broker:
        create(broker.bootstrap, "internal.segment.bytes")
        for seed in range(3):
            if seed:
                broker.overrides = dict(NOT_CLEANING)
                broker.start()
            for topic, options in PRODUCERS.items():
                produce(broker.bootstrap, topic, options, seed, newest[topic])
            broker.stop()
            before = tmp_path / f"before-{seed}"
            copy_logs(broker.data, before)
            expected = tmp_path / f"expected-{seed}"
            copy_logs(before, expected)
            compact_ours(expected, time.time_ns() // 1_000_000)
            compact_theirs(broker, {topic: checkpoint(expected)[topic] for topic in PRODUCERS})
            ours = tmp_path / f"ours-{seed}"
            for topic in PRODUCERS:
                mine, theirs = ours / topic, broker.data / f"{topic}-0"
                copy_logs(before, mine)
                compact_ours(mine, horizon_in(theirs) or time.time_ns() // 1_000_000)
                mine /= f"{topic}-0"
                assert surviving(mine) == surviving(theirs), (topic, seed)
                assert len(surviving(mine)) < len(surviving(before / f"{topic}-0")), "there was something to compact"
                if topic not in ("gzip", "snappy", "lz4", "zstd"):
                    assert contents(mine) == contents(theirs), (topic, seed)
    with RealKafka("2.7.2", heap="256M", directory=tmp_path / "old", config=NOT_CLEANING) as old:
        hand_over(old, expected, newest)
    paths = [path for topic in PRODUCERS for path in sorted((expected / f"{topic}-0").glob("*.log"))]
    dump(kafka_tools, paths, "--deep-iteration")


def test_a_groups_offsets_are_compacted_and_survive(tmp_path: Path) -> None:
    """__consumer_offsets is a compacted topic as any other; the running broker compacts it in its worker."""
    settings = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "4000",
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.min.cleanable.ratio": "0.1",
    }
    broker = KafkapyProcess(directory=tmp_path / "broker", config=settings)
    with broker:
        admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([kafka_admin.NewTopic("t", 1, 1)])["t"].result()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
        for offset in range(200):
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        consumer.close()
        logs = broker.data / "__consumer_offsets-0"
        until(lambda: checkpoint(broker.data).get("__consumer_offsets", 0) > 0, "the compaction of offsets")
        until(lambda: size(logs) < 15_000, "the compaction of most of them")
        broker.stop()
        broker.start()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        assert consumer.committed([TopicPartition("t", 0)], timeout=20)[0].offset == 199
        consumer.close()
