"""``kafka-dump-log`` of 2.7.2 over every kind of file that we write, and its counts of a real directory beside ours."""

import shutil
from pathlib import Path

import pytest

from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools
from harness.storage.batches import GOLDEN, PARTITION, START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.records.batch import iterate_headers
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with several segments, producers, transactions and every index."""
    data = tmp_path_factory.mktemp("written")
    manager = LogManager([str(data)], LogConfig(segment_bytes=60_000), ManualClock(START_MS))
    load_logs(manager)
    log = manager.get_or_create(PARTITION)
    for number in range(300):
        log.append_as_leader(batch(1 + number % 3, timestamp=START_MS + number, value=b"v" * 300), number // 200)
        log.append_as_leader(produced(number, transactional=True), number // 200)
        if number % 50 == 49:
            log.append_as_leader(marker(commit=number % 100 == 99), number // 200, from_client=False)
    log.update_high_watermark(log.log_end_offset)
    manager.shutdown()
    return data / "orders-0"


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("*.log", ("--deep-iteration",)),
        ("*.index", ()),
        ("*.index", ("--index-sanity-check",)),
        ("*.index", ("--verify-index-only",)),
        ("*.timeindex", ()),
        ("*.timeindex", ("--index-sanity-check",)),
        ("*.timeindex", ("--verify-index-only",)),
        ("*.snapshot", ()),
        ("*.txnindex", ()),
    ],
)
def test_dump_log_finds_nothing_wrong(
    kafka_tools: Tools, written: Path, pattern: str, options: tuple[str, ...]
) -> None:
    paths = sorted(written.glob(pattern))
    assert paths
    output = dump(kafka_tools, paths, *options)
    for path in paths:
        assert f"Dumping {path}" in output
    if options == ("--index-sanity-check",):
        assert output.count("passed sanity check") == len(paths)


def test_dump_log_counts_our_records(kafka_tools: Tools, written: Path) -> None:
    paths = sorted(written.glob("*.log"))
    output = dump(kafka_tools, paths, "--deep-iteration")
    ours = sum(header.record_count for path in paths for _, header in iterate_headers(path.read_bytes()))
    assert output.count("| offset: ") == ours
    assert output.count("endTxnMarker: ABORT") == output.count("endTxnMarker: COMMIT") == 3


def test_our_reader_counts_a_real_directory_as_dump_log_does(kafka_tools: Tools, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "data")
    manager = LogManager([str(tmp_path / "data")], LogConfig(), ManualClock(START_MS))
    load_logs(manager)
    for name in ("seg-0", "segc-0", "rf3-0"):
        log = manager.get(TopicPartition(name[:-2], 0))
        assert log is not None
        counted = sum(header.record_count for each in log.segments for _, header, _ in each.batches(0, each.size))
        paths = sorted((tmp_path / "data" / name).glob("*.log"))
        assert dump(kafka_tools, paths, "--deep-iteration").count("| offset: ") == counted
