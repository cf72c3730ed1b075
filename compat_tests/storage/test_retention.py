"""The same appends and retention settings on Apache Kafka 2.7.2 and on kafkapy leave the same logs.

Offsets, segments, files by name and by content, checkpointed log starts, and what a fetch of each offset answers.
Both brokers look for expired segments first 30 seconds after their start; every topic is set up before that.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat_tests.data_path.frames import fetch, list_offsets, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess
from harness.real_kafka import RealKafka
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.partition_metadata import PARTITION_METADATA_NAME

pytestmark = [pytest.mark.java, pytest.mark.together]

SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "600000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.cleaner.backoff.ms": "600000",
}
VALUE = b"v" * 400
HOUR_MS = 3_600_000
NOW_MS = int(time.time() * 1000)
BATCHES = 24
EARLIEST = -2
LATEST = -1
TIMEOUT_S = 75


class Case(NamedTuple):
    """A topic's settings, the timestamps of its records, and how many of its records are deleted by request."""

    configs: dict[str, str]
    timestamps: list[int]
    delete_up_to: int = 0


def _ages(*hours: float) -> list[int]:
    return [NOW_MS - int(hour * HOUR_MS) for hour in hours]


YOUNG = _ages(*(0.2 - place / 1000 for place in range(BATCHES)))
OLD = _ages(*(48 - place / 1000 for place in range(BATCHES)))
MIXED = OLD[:10] + YOUNG[10:]
CASES = {
    "nothing is due": Case({"retention.ms": str(24 * HOUR_MS)}, YOUNG),
    "the first ones are old": Case({"retention.ms": str(24 * HOUR_MS)}, MIXED),
    "all are old, so the active one is rolled": Case({"retention.ms": str(24 * HOUR_MS)}, OLD),
    "a young one comes first": Case({"retention.ms": str(24 * HOUR_MS)}, YOUNG[:1] + OLD[1:]),
    "no timestamps": Case({"retention.ms": str(24 * HOUR_MS)}, [-1] * BATCHES),
    "too many bytes": Case({"retention.ms": "-1", "retention.bytes": "4500"}, OLD),
    "no bytes at all": Case({"retention.ms": "-1", "retention.bytes": "0"}, OLD),
    "old and too many": Case({"retention.ms": str(24 * HOUR_MS), "retention.bytes": "2500"}, MIXED),
    "deleted by request": Case({"retention.ms": "-1"}, OLD, 13),
    "deleted by request, all": Case({"retention.ms": "-1"}, OLD, BATCHES),
    "compacted": Case({"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "0"}, OLD),
    "compacted and deleted, which is the cleaner's": Case(
        {"cleanup.policy": "compact,delete", "retention.ms": str(24 * HOUR_MS)}, OLD
    ),
    "segments by time": Case({"retention.ms": "-1", "segment.ms": "7200", "segment.bytes": "1000000"}, OLD),
    "segments by full index": Case(
        {"retention.ms": "-1", "segment.index.bytes": "24", "index.interval.bytes": "0", "segment.bytes": "1000000"},
        OLD,
    ),
    "preallocated": Case({"retention.ms": str(24 * HOUR_MS), "preallocate": "true"}, MIXED),
}


def _fill(wire: Wire, case: Case) -> str:
    topic = new_topic(wire, 1, **{"segment.bytes": "2000", **case.configs})
    for timestamp in case.timestamps:
        records = [Record(offset=0, timestamp=timestamp, key=b"k", value=VALUE, headers=())]
        code, _ = produce(wire, topic, bytes(encode_batch(records)))
        assert code == 0
    if case.delete_up_to:
        partition = DeleteRecordsPartition(partition_index=0, offset=case.delete_up_to)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000)
        assert wire.ask(request, 1).topics[0].partitions[0].error_code == 0
    return topic


def _names(data: Path, topic: str) -> set[str]:
    """The files of a partition, without the indexes of an empty segment, which Apache Kafka makes at first use, and
    without the id of the topic, which 2.7.2 does not have."""
    directory = data / f"{topic}-0"
    empty = {path.stem for path in directory.glob("*.log") if path.stat().st_size == 0}
    return {name for name in os.listdir(directory) if not _is_empty_index(name, empty)} - {PARTITION_METADATA_NAME}


def _is_empty_index(name: str, empty: set[str]) -> bool:
    stem, _, kind = name.partition(".")
    return stem in empty and kind in {"index", "timeindex"}


def _state(wire: Wire, data: Path, topic: str) -> dict[str, Any]:
    earliest, latest = (list_offsets(wire, topic, which).offset for which in (EARLIEST, LATEST))
    reads = {offset: fetch(wire, topic, offset, max_wait_ms=0).error_code for offset in range(BATCHES + 2)}
    return {
        "offsets": (earliest, latest),
        "fetch errors": reads,
        "files": _names(data, topic),
        "epochs": (data / f"{topic}-0" / "leader-epoch-checkpoint").read_text(),
    }


def _checkpointed(data: Path, name: str, topics: dict[str, str]) -> dict[str, int]:
    by_topic = {topic: case for case, topic in topics.items()}
    lines = [line.split() for line in (data / name).read_text().splitlines()[2:]]
    return {by_topic[topic]: int(offset) for topic, _, offset in lines if topic in by_topic}


class Outcome(NamedTuple):
    """The log of each case on one broker: while it ran, its checkpoint, and after a clean stop."""

    running: dict[str, dict[str, Any]]
    log_starts: dict[str, int]
    stopped: dict[str, dict[str, bytes]]


def _outcome(broker: ChildProcess, data: Path, topics: dict[str, str]) -> Outcome:
    rolled = topics["all are old, so the active one is rolled"]
    with Wire(broker.bootstrap) as wire:
        deadline = time.monotonic() + TIMEOUT_S
        while list_offsets(wire, rolled, EARLIEST).offset != BATCHES:
            assert time.monotonic() < deadline, "nothing was deleted"
            time.sleep(0.5)
        time.sleep(3)  # one more check, and the checkpoint of the starts
        running = {case: _state(wire, data, topic) for case, topic in topics.items()}
    log_starts = _checkpointed(data, "log-start-offset-checkpoint", topics)
    broker.stop()
    stopped = {
        case: {name: (data / f"{topic}-0" / name).read_bytes() for name in _names(data, topic)}
        for case, topic in topics.items()
    }
    return Outcome(running, log_starts, stopped)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outcome, Outcome]]:
    """The logs of 2.7.2 and of kafkapy."""
    with ExitStack() as stack:
        real, ours = RealKafka("2.7.2", heap="256M", config=SETTINGS), KafkapyProcess(config=SETTINGS)
        filled = []
        for broker in (real, ours):
            stack.enter_context(broker)
            with Wire(broker.bootstrap) as wire:
                filled.append({name: _fill(wire, case) for name, case in CASES.items()})
        yield _outcome(real, real.data, filled[0]), _outcome(ours, ours.data, filled[1])


@pytest.mark.parametrize("case", CASES)
def test_kafka_and_kafkapy_keep_the_same_segments(outcomes: tuple[Outcome, Outcome], case: str) -> None:
    theirs, ours = (outcome.running[case] for outcome in outcomes)
    assert ours == theirs


def test_the_same_starts_are_checkpointed(outcomes: tuple[Outcome, Outcome]) -> None:
    theirs, ours = outcomes
    assert ours.log_starts == theirs.log_starts
    assert theirs.log_starts == {"deleted by request": 13, "deleted by request, all": BATCHES}


@pytest.mark.parametrize("case", CASES)
def test_the_files_are_the_same_after_a_clean_stop(outcomes: tuple[Outcome, Outcome], case: str) -> None:
    if case == "deleted by request, all":
        # 2.7.2 writes no producers at the end of a log that was emptied so, and forgets them; we keep them.
        del outcomes[1].stopped[case][f"{BATCHES:020d}.snapshot"]
    theirs, ours = (
        {name: content for name, content in outcome.stopped[case].items() if not name.endswith(".deleted")}
        for outcome in outcomes
    )
    assert ours == theirs
