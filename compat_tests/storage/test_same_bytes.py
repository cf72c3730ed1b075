"""The same batches through Apache Kafka 2.7.2's log and through ours: every file must be the same, byte for byte."""

import random
import shutil
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Producer

from harness.real_kafka import RealKafka
from kafkapy.config.log_config import LogConfig
from kafkapy.records.batch import iterate_headers
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.storage.partition_metadata import PARTITION_METADATA_NAME
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

pytestmark = [pytest.mark.java, pytest.mark.together]

START_MS = 1_700_000_000_000
KEEP_ALL = {"log.retention.ms": "-1"}
SEGMENT_BYTES = 100_000
PRODUCERS: dict[str, dict[str, object]] = {
    "plain": {},
    "compressed": {"compression.type": "gzip"},
    "idempotent": {"enable.idempotence": True},
    "transactional": {"transactional.id": "t"},
}


def _create(bootstrap: str, *names: str) -> None:
    admin = kafka_admin.AdminClient({"bootstrap.servers": bootstrap})
    topics = [kafka_admin.NewTopic(name, 1, 1, config={"segment.bytes": str(SEGMENT_BYTES)}) for name in names]
    for created in admin.create_topics(topics).values():
        created.result()


def _produce(bootstrap: str, topic: str, options: dict[str, object]) -> None:
    """Bursts of records, somewhat out of order in time; every third transaction is aborted."""
    chance = random.Random(topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", **options})
    if topic == "transactional":
        producer.init_transactions()
    for burst in range(100):
        if topic == "transactional":
            producer.begin_transaction()
        for _ in range(chance.choice([1, 1, 2, 5, 20])):
            value = bytes(chance.choices(range(97, 110), k=chance.randrange(10, 2000)))
            producer.produce(topic, value, timestamp=START_MS + burst * 10 + chance.randrange(-20, 20))
        producer.flush()
        if topic == "transactional":
            (producer.commit_transaction if burst % 3 else producer.abort_transaction)()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a 2.7.2 broker that has stopped cleanly."""
    copy = tmp_path_factory.mktemp("real") / "data"
    with RealKafka("2.7.2", heap="256M", config=KEEP_ALL) as broker:
        _create(broker.bootstrap, *PRODUCERS)
        for topic, options in PRODUCERS.items():
            _produce(broker.bootstrap, topic, options)
        broker.stop()
        shutil.copytree(broker.data, copy)
    return copy


def contents_of(directory: Path) -> dict[str, bytes]:
    """The files of a partition without the id of its topic, which Apache Kafka 2.7.2 does not have."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != PARTITION_METADATA_NAME}


@pytest.mark.parametrize("topic", PRODUCERS)
def test_the_leaders_files_are_the_same(real: Path, tmp_path: Path, topic: str) -> None:
    manager = LogManager([str(tmp_path)], LogConfig(segment_bytes=SEGMENT_BYTES), ManualClock(START_MS))
    load_logs(manager)
    log = manager.get_or_create(TopicPartition(topic, 0))
    log.leader_epochs.assign(0, 0)
    for path in sorted((real / f"{topic}-0").glob("*.log")):
        content = path.read_bytes()
        for position, header in iterate_headers(content):
            sent = bytearray(content[position : position + header.size])
            sent[:8] = bytes(8)
            appended = log.append_as_leader(sent, 0, from_client=not header.is_control)
            assert (appended.first_offset, appended.duplicate) == (header.base_offset, False)
            log.update_high_watermark(log.log_end_offset)
    manager.shutdown()
    assert len(log.segments) > 1 or topic == "compressed"
    assert contents_of(tmp_path / f"{topic}-0") == contents_of(real / f"{topic}-0")


def test_kafkas_directory_opens_and_ours_opens_in_kafka(real: Path, tmp_path: Path) -> None:
    """Handed over both ways: we open theirs, crash, recover; 2.7.2 then starts on what we left."""
    with RealKafka("2.7.2", heap="256M", directory=tmp_path / "broker", config=KEEP_ALL) as broker:
        _create(broker.bootstrap, "handed")
        _produce(broker.bootstrap, "handed", {"enable.idempotence": True})
        broker.stop()
        theirs = contents_of(broker.data / "handed-0")
        (broker.data / ".kafka_cleanshutdown").unlink()
        manager = LogManager([str(broker.data)], LogConfig(segment_bytes=SEGMENT_BYTES), ManualClock(START_MS))
        load_logs(manager)
        log = manager.get(TopicPartition("handed", 0))
        assert log is not None
        end_offset = log.log_end_offset
        manager.shutdown()
        assert {n: c for n, c in contents_of(broker.data / "handed-0").items() if n.endswith((".log", ".index"))} == {
            n: c for n, c in theirs.items() if n.endswith((".log", ".index"))
        }
        broker.start()
        _produce(broker.bootstrap, "handed", {})
        broker.stop()
        manager = LogManager([str(broker.data)], LogConfig(segment_bytes=SEGMENT_BYTES), ManualClock(START_MS))
        load_logs(manager)
        log = manager.get(TopicPartition("handed", 0))
        assert log is not None
        assert log.log_end_offset == end_offset + sum(
            header.record_count for path in sorted((broker.data / "handed-0").glob("*.log"))
            for _, header in iterate_headers(path.read_bytes())
        ) // 2  # fmt: skip
        log.release()
