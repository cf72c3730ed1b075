"""kafka-dump-log over everything that kafkapy left behind when it stopped: logs, indexes, snapshots."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.clients.client import CODECS, ProduceOptions, Sent, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools
from harness.kafkapy_process import KafkapyProcess

BATCHES, RECORDS = 12, 5
GROUP = "readers"


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a broker that served a varied run and ended."""
    with KafkapyProcess(directory=tmp_path_factory.mktemp("broker")) as broker:
        client = ConfluentClient(broker.bootstrap)
        for codec in CODECS:
            _fill(client, codec, {"segment.bytes": "20000"}, idempotent=codec in ("none", "lz4"))
        _fill(client, "none", {"message.timestamp.type": "LogAppendTime", "segment.bytes": "20000"}, name="appended")
        client.delete_records("codec-gzip", 31)
        member = client.join(GROUP, "codec-none")
        wait_until(lambda: len(member.received) == BATCHES * RECORDS, "all records")
        member.commit()
        member.close()
        broker.stop()
        yield broker.data


def _fill(
    client: ConfluentClient, codec: str, configs: dict[str, str], *, idempotent: bool = False, name: str = ""
) -> None:
    topic = name or f"codec-{codec}"
    client.create_topic(topic, configs=configs)
    dice = random.Random(topic)
    for _ in range(BATCHES):
        sent = [
            Sent(b"value " + dice.randbytes(900).hex().encode(), b"key", (("header", b"h"),)) for _ in range(RECORDS)
        ]
        client.produce(topic, sent, ProduceOptions(codec, idempotent=idempotent))


def _files(directory: Path, suffix: str, *, closed: bool = False) -> list[Path]:
    """The files of that kind; `closed` leaves out those of the segment that is still written to, the last one."""
    found = sorted(directory.glob(f"*-*/*.{suffix}"))
    last = {path.parent: path for path in found}
    return [path for path in found if not (closed and last[path.parent] == path)]


@pytest.fixture
def tools(tools_version: str, tools_of: Callable[[str], Tools]) -> Tools:
    return tools_of(tools_version)


def test_every_record_is_read(directory: Path, tools: Tools) -> None:
    logs = _files(directory, "log")
    assert len([path for path in logs if path.parent.name == "codec-none-0"]) > 2
    said = dump(tools, logs, "--deep-iteration", "--print-data-log")
    for codec in CODECS:
        assert said.count(f"compresscodec: {codec}") + said.count(f"compresscodec: {codec.upper()}") >= 1
    assert said.count("payload: value ") == 6 * BATCHES * RECORDS - _deleted(directory)


def _deleted(directory: Path) -> int:
    """The number of records in the segments that DeleteRecords has deleted."""
    first = min(int(path.stem) for path in (directory / "codec-gzip-0").glob("*.log"))
    assert first <= 31
    return first


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_every_index_agrees_with_its_log(directory: Path, tools: Tools, suffix: str) -> None:
    indexes = _files(directory, suffix, closed=True)
    assert len(indexes) > 10
    said = dump(tools, indexes, "--index-sanity-check")
    assert said.count("passed sanity check") == len(indexes)
    dump(tools, indexes, "--verify-index-only")


def test_every_snapshot_of_producers_is_read(directory: Path, tools: Tools) -> None:
    said = dump(tools, _files(directory, "snapshot"))
    assert "producerEpoch: 0" in said


def test_the_groups_records_are_decoded(directory: Path, tools: Tools) -> None:
    logs = sorted(directory.glob("__consumer_offsets-*/*.log"))
    said = dump(tools, logs, "--deep-iteration", "--offsets-decoder")
    assert GROUP in said
    assert "codec-none" in said
    assert '"offset":60' in said or "offset=60" in said
