"""Makes a small data directory in which Apache Kafka 2.7.2 has written every kind of file: for tests without Java.

    python -m compat_tests.storage.make_golden tests/golden/formats-272

Message sets of formats 0 and 1 (the broker converts what a new client sends), batches with every codec, both timestamp
types, headers and nulls, a log whose format changed, transactions that committed, aborted and stayed open, idempotent
producers, several segments, a compacted log, a log that begins within a segment, groups. The broker stops cleanly.
"""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.real_kafka import RealKafka

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

START_MS = 1_700_000_000_000
OLD = {"0": "0.9.0", "1": "0.10.2"}
CODECS = ("none", "gzip", "snappy", "lz4")
TOPICS: dict[str, dict[str, str]] = {
    **{f"v{magic}-{codec}": {"message.format.version": version} for magic, version in OLD.items() for codec in CODECS},
    **{f"v2-{codec}": {} for codec in (*CODECS, "zstd")},
    "v1-stamped": {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"},
    "v2-stamped": {"message.timestamp.type": "LogAppendTime"},
    "mixed": {"message.format.version": "0.9.0"},
    "segments": {"segment.bytes": "2000", "index.interval.bytes": "200"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"},
    "cut": {},
    "transactions": {"segment.bytes": "1000"},
}
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


def write(broker: RealKafka) -> None:
    """Fill a broker that was started with ``SETTINGS``."""
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    created = admin.create_topics([kafka_admin.NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()])
    for each in created.values():
        each.result()
    for name in TOPICS:
        if name != "transactions":
            _fill(broker.bootstrap, name, name.partition("-")[2])
    operation = kafka_admin.AlterConfigOpType.SET
    newer = kafka_admin.ConfigEntry("message.format.version", "2.7", incremental_operation=operation)
    resource = kafka_admin.ConfigResource("topic", "mixed", incremental_configs=[newer])
    for each in admin.incremental_alter_configs([resource]).values():
        each.result()
    _fill(broker.bootstrap, "mixed", "gzip")
    for each in admin.delete_records([TopicPartition("cut", 0, 7)]).values():
        each.result()
    _transact(broker.bootstrap)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("cut", 0, 9, metadata="by hand")], asynchronous=False)
    consumer.close()


def _fill(bootstrap: str, topic: str, codec: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 100, "enable.idempotence": topic.startswith(("v2", "seg"))}
    producer = Producer({**settings, "compression.type": codec if codec in (*CODECS, "zstd") else "none"})
    headers: Any = None if topic.startswith(("v0", "v1", "mixed")) else [("h", b"1"), ("null", None)]
    for number in range(60 if topic in ("segments", "compacted") else 12):
        value = None if number % 6 == 5 else b"%d " % number * 20
        key = b"%d" % (number % 4) if number % 3 or topic == "compacted" else None
        producer.produce(topic, value, key, timestamp=START_MS + number * 7 - number % 3 * 20, headers=headers)
        if number % 4 == 3:
            producer.flush(30)
    assert producer.flush(30) == 0


def _transact(bootstrap: str) -> None:
    ends: list[Callable[[Producer], object] | None] = [Producer.commit_transaction, Producer.abort_transaction] * 4
    for number, end in enumerate([*ends, None]):
        name = "open" if end is None else "steady"
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        for part in range(3):
            producer.produce("transactions", b"%d %d " % (number, part) * 8)
        producer.flush(30)
        if end is not None:
            end(producer)


def wait_for_cleaner(broker: RealKafka, timeout_s: float = 30) -> None:
    """Return when the compacted topic has been cleaned and the checkpoint has its offset."""
    path = broker.data / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + timeout_s
    while not (path.exists() and "compacted 0 " in path.read_text()):
        assert time.monotonic() < deadline, "the cleaner did not come round"
        time.sleep(0.1)


def main(target: Path) -> None:
    """Write a directory to ``target``."""
    with RealKafka("2.7.2", heap="256M", config=SETTINGS) as broker:
        write(broker)
        wait_for_cleaner(broker)
        time.sleep(2)  # replaced segments go
        broker.stop()
        shutil.copytree(broker.data, target, ignore=shutil.ignore_patterns(".lock", "*-delete", "*.deleted"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
