"""Topics of message formats 0 and 1, and of changing ones: the same requests to 2.7.2 and to us, the same files."""

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools
from compat_tests.data_path.frames import fetch, list_offsets, produce_request
from compat_tests.groups.wire import Wire, answer_to_creation
from compat_tests.storage.test_same_bytes import contents_of
from harness.kafkapy_process import KafkapyProcess
from harness.real_kafka import RealKafka
from kafkapy.config.log_config import LogConfig
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.records.batch import MAGIC, iterate_headers
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition

pytestmark = [pytest.mark.java, pytest.mark.together]

START_MS = 1_700_000_000_000
KEEP_ALL = {"log.retention.ms": "-1"}
TOPIC = 2
SEGMENT_BYTES = 6000
PROBE = "probe"
GZIP = 1
CONFIGS: dict[str, dict[str, str]] = {
    "format-0": {"message.format.version": "0.9.0"},
    "format-1": {"message.format.version": "0.10.0"},
    "format-2": {"message.format.version": "2.7"},
    "gzip-0": {"message.format.version": "0.8.2", "compression.type": "gzip"},
    "gzip-2": {"compression.type": "gzip", "message.format.version": "2.7"},
    "snappy-1": {"message.format.version": "0.10.2", "compression.type": "snappy"},
    "plain-1": {"message.format.version": "0.10.1-IV2", "compression.type": "uncompressed"},
    "mixed": {"message.format.version": "0.9.0", "index.interval.bytes": "200"},
}
GZIPPED = ("gzip-0", "gzip-2")
"""Java and we have different implementations of deflate: a newly compressed batch has the same records, other bytes."""
CHANGES = {20: "0.10.0", 40: "2.7", 60: "0.9.0", 80: "2.7"}
"""After how many requests the topic ``mixed`` changes its ``message.format.version``, and to what."""


def _requests(topic: str) -> Iterator[tuple[int, bytes]]:
    """(version of Produce, its records): formats, codecs and versions by chance, the same for each broker."""
    chance = random.Random(topic)
    for number in range(100):
        magic = chance.choice([0, 1, 2])
        codec = chance.choice([0, 0, GZIP, 2, 3] if topic in GZIPPED else [0, 0, 2, 3])
        records = [
            Record(
                chance.choice([None, b"key"]),
                bytes(chance.choices(range(97, 110), k=chance.randrange(600))),
                START_MS + 10 * number + chance.randrange(-20, 20),
                (),
                at,
            )
            for at in range(chance.choice([1, 1, 2, 5, 12]))
        ]
        if magic == MAGIC:
            yield 8, encode_batch(records, compression=codec)
        else:
            yield chance.choice([0, 1, 2]), encode_legacy(records, magic, compression=codec)


def _set_format(wire: Wire, topic: str, release: str) -> None:
    change = AlterableConfig(name="message.format.version", config_operation=0, value=release)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[change])
    answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 0)
    assert [each.error_code for each in answer.responses] == [0]


def _change_format(wire: Wire, topic: str, release: str) -> None:
    """Change a topic's format and wait until the broker has heard of it: changes arrive in their order."""
    _set_format(wire, topic, release)
    for probed, code in (("0.9.0", 43), ("2.7", 0)):
        _set_format(wire, PROBE, probed)
        while list_offsets(wire, PROBE, START_MS).error_code != code:
            pass


def _create(wire: Wire, name: str, configs: dict[str, str]) -> None:
    settings = [CreatableTopicConfig(*pair) for pair in {"segment.bytes": str(SEGMENT_BYTES), **configs}.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
    assert answer_to_creation(wire, topic) == 0
    while list_offsets(wire, name, -1).error_code != 0:
        pass


def _feed(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        _create(wire, PROBE, {})
        for name, configs in CONFIGS.items():
            _create(wire, name, configs)
            end = 0
            for number, (version, records) in enumerate(_requests(name)):
                if name == "mixed" and number in CHANGES:
                    _change_format(wire, name, CHANGES[number])
                answer = wire.ask(produce_request(name, records, acks=1), version)
                found = answer.responses[0].partition_responses[0]
                assert (found.error_code, found.base_offset) == (0, end), (name, version)
                end += len(_records_of(records))


def _records_of(content: bytes) -> list[Record]:
    return [
        record for position, header in iterate_headers(content) for record in read_records(content, header, position)
    ]


class Fed(NamedTuple):
    """The files of a broker after the requests, and its responses to fetches."""

    data: Path
    fetched: dict[tuple[object, ...], tuple[int, int, bytes]]


def _fetch_all(bootstrap: str) -> dict[tuple[object, ...], tuple[int, int, bytes]]:
    """(topic, version, offset, size) → (error, high watermark, records)."""
    found: dict[tuple[object, ...], tuple[int, int, bytes]] = {}
    with Wire(bootstrap) as wire:
        for topic in CONFIGS.keys() - set(GZIPPED):
            for case in itertools.product((0, 1, 2, 3, 4, 11), (0, 7, 50, 111), (300, 2500, 1 << 20)):
                version, offset, size = case
                answer = fetch(wire, topic, offset, version, partition_max_bytes=size)
                found[topic, *case] = (answer.error_code, answer.high_watermark, bytes(answer.records))
    return found


@pytest.fixture(scope="module")
def real_fed(tmp_path_factory: pytest.TempPathFactory) -> Fed:
    """A 2.7.2 broker that was fed and has stopped cleanly."""
    copy = tmp_path_factory.mktemp("real") / "data"
    with RealKafka("2.7.2", heap="256M", config=KEEP_ALL) as broker:
        _feed(broker.bootstrap)
        fetched = _fetch_all(broker.bootstrap)
        broker.stop()
        shutil.copytree(broker.data, copy)
    return Fed(copy, fetched)


@pytest.fixture(scope="module")
def our_fed(tmp_path_factory: pytest.TempPathFactory) -> Fed:
    """Ours, fed with the same."""
    with KafkapyProcess(directory=tmp_path_factory.mktemp("ours"), config=KEEP_ALL) as broker:
        _feed(broker.bootstrap)
        fetched = _fetch_all(broker.bootstrap)
        broker.stop()
        return Fed(broker.data, fetched)


@pytest.fixture(scope="module")
def real(real_fed: Fed) -> Path:
    """Its data directory."""
    return real_fed.data


@pytest.fixture(scope="module")
def ours(our_fed: Fed) -> Path:
    """Our data directory."""
    return our_fed.data


def test_every_version_of_fetch_gets_the_same_bytes(real_fed: Fed, our_fed: Fed) -> None:
    differing = [case for case, answer in our_fed.fetched.items() if answer != real_fed.fetched[case]]
    assert differing == []


@pytest.mark.parametrize("topic", sorted(CONFIGS.keys() - set(GZIPPED)))
def test_the_files_are_the_same(real: Path, ours: Path, topic: str) -> None:
    theirs, written = contents_of(real / f"{topic}-0"), contents_of(ours / f"{topic}-0")
    assert sorted(written) == sorted(theirs)
    assert [name for name in written if written[name] != theirs[name]] == []
    assert sum(name.endswith(".log") for name in written) > 1


@pytest.mark.parametrize("topic", GZIPPED)
def test_recompressed_batches_hold_the_same_records(real: Path, ours: Path, topic: str) -> None:
    def held(data: Path) -> list[tuple[tuple[int, ...], list[Record]]]:
        content = b"".join(path.read_bytes() for path in sorted((data / f"{topic}-0").glob("*.log")))
        return [
            (tuple(header._replace(size=0, crc=0)), read_records(content, header, position))
            for position, header in iterate_headers(content)
        ]

    assert held(ours) == held(real)


@pytest.mark.parametrize("topic", CONFIGS)
def test_dump_log_accepts_kafkapys_files_of_old_formats(kafka_tools: Tools, ours: Path, topic: str) -> None:
    logs = sorted((ours / f"{topic}-0").glob("*.log"))
    counted = sum(len(_records_of(path.read_bytes())) for path in logs)
    assert dump(kafka_tools, logs, "--deep-iteration").count("offset: ") >= counted
    for pattern in ("*.index", "*.timeindex"):
        indexes = sorted((ours / f"{topic}-0").glob(pattern))
        assert dump(kafka_tools, indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)
        dump(kafka_tools, indexes)


@pytest.mark.parametrize("clean", [True, False])
def test_kafkas_directory_opens(real: Path, tmp_path: Path, clean: bool) -> None:
    """After a clean stop nothing changes; after any other, all that derives from the log is rebuilt as it was."""
    shutil.copytree(real, tmp_path / "data")
    if not clean:
        (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
        (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink()
    manager = LogManager([str(tmp_path / "data")], LogConfig(), ManualClock(START_MS))
    load_logs(manager)
    for topic in CONFIGS:
        log = manager.get(TopicPartition(topic, 0))
        assert log is not None
        theirs = b"".join(path.read_bytes() for path in sorted((real / f"{topic}-0").glob("*.log")))
        listed = _records_of(theirs)
        assert log.log_end_offset == len(listed)
        for offset in range(0, len(listed), 7):
            read = log.read(offset, 1 << 20).records
            assert not isinstance(read, bytes)
            first = next(record for record in _records_of(read.read()) if record.offset >= offset)
            assert first == listed[offset]
    manager.shutdown()
    for topic in CONFIGS:
        theirs_by_name, left = contents_of(real / f"{topic}-0"), contents_of(tmp_path / "data" / f"{topic}-0")
        for name in theirs_by_name:
            if name.endswith(".log") or (clean and name.endswith((".index", ".timeindex"))):
                assert left[name] == theirs_by_name[name], (topic, name)
