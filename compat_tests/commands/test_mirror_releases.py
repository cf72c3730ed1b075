"""``kafkapy mirror`` beside later releases of Apache Kafka, as one node of KRaft; librdkafka compares both sides."""

import subprocess
import sys
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Producer

from compat_tests.exchange.contents import Read, read_all
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess
from harness.real_kafka import RealKafka

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(600)]

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS, RECORDS, TRANSACTIONS = 2, 200, 9
START_MS = 1_700_000_000_000
START_S, PATIENCE_S = 300.0, 200
KEPT = {"retention.ms": "-1"}
"""The records' timestamps are old."""


def _fill(broker: ChildProcess, prefix: str) -> None:
    """A topic for each codec, with keys, headers and tombstones, and one of transactions, a third of them aborted."""
    names = [prefix + name for name in (*CODECS, "transactions")]
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics(
        [kafka_admin.NewTopic(name, PARTITIONS, 1, config=KEPT) for name in names]
    ).values():
        made.result(PATIENCE_S)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "batch.num.messages": 7})
        for at in range(RECORDS):
            value = None if at % 50 == 49 else b"%d" % at * 20
            headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % at), ("empty", b"")] if at % 3 else []
            key = b"key-%d" % (at % 40)
            producer.produce(prefix + codec, value, key, at % PARTITIONS, timestamp=START_MS + at, headers=headers)
        assert producer.flush(PATIENCE_S) == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": prefix})
    producer.init_transactions(PATIENCE_S)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(f"{prefix}transactions", b"%d" % number, b"key", partition, timestamp=START_MS + number)
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S) if number % 3 == 1 else producer.commit_transaction(PATIENCE_S)


def _contents(broker: ChildProcess, prefix: str) -> dict[tuple[str, int], list[Read]]:
    """The committed records; offsets of the two sides differ where markers of transactions lie between."""
    found = read_all(broker.bootstrap, committed=True)
    return {place: [each._replace(offset=0) for each in found[place]] for place in found if place[0].startswith(prefix)}


def _mirror(source: ChildProcess, target: ChildProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkapy", "mirror", "--from", source.bootstrap, "--to", target.bootstrap]
    return subprocess.run([*command, "--once", *words], capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_later_releases_are_source_and_target(version: str) -> None:
    theirs, ours = RealKafka(version), KafkapyProcess()
    try:
        theirs.start(wait=False)
        ours.start()
        theirs.wait_ready(START_S)
        for source, target, prefix in ((theirs, ours, "there."), (ours, theirs, "back.")):
            _fill(source, prefix)
            wanted = _contents(source, prefix)
            assert sum(map(len, wanted.values())) == RECORDS * len(CODECS) + 2 * PARTITIONS * TRANSACTIONS // 3
            for words in ([], ["--exactly-once"]):
                copied = _mirror(source, target, "--topics", f"{prefix}.*", *words)
                assert copied.returncode == 0, copied.stderr
                assert _contents(target, prefix) == wanted
                again = _mirror(source, target, "--topics", f"{prefix}.*", *words)
                assert again.stdout.startswith("copied 0 records"), again
                back = _mirror(target, source, "--topics", f"{prefix}.*", *words)
                assert back.stdout == "copied 0 records of 0 partitions\n", back.stderr
                _delete_copy(target, prefix)
    finally:
        theirs.close()
        ours.close()


def _delete_copy(target: ChildProcess, prefix: str) -> None:
    """Delete the topics of the copy; with them the group loses its positions, so that it can be made again."""
    admin = kafka_admin.AdminClient({"bootstrap.servers": target.bootstrap})
    names = [prefix + name for name in (*CODECS, "transactions")]
    for done in admin.delete_topics(names, operation_timeout=PATIENCE_S).values():
        done.result(PATIENCE_S)
