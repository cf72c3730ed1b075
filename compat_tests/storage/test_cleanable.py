"""Apache Kafka 2.7.2 and kafkapy compact the same logs at the same time and keep the same records.

One topic for each case, with the same records and timestamps, filled while no cleaner works; then the broker is started
again with one. The test compares, after each of two such rounds, the cleaner's checkpoint, the log's offsets, the
segments and the remaining records.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat_tests.data_path.frames import list_offsets, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.kafkapy_process import KafkapyProcess
from harness.real_kafka import RealKafka
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, encode_batch, read_records

pytestmark = [pytest.mark.java, pytest.mark.together, pytest.mark.timeout(400)]

SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "0",
    "log.index.interval.bytes": "500",
}
NOT_CLEANING = {**SETTINGS, "log.cleaner.enable": "false"}
CLEANING = {**SETTINGS, "log.cleaner.backoff.ms": "100"}
HOUR_MS = 3_600_000
NOW_MS = int(time.time() * 1000)
BATCHES = 24
TIMEOUT_S = 30
POLICY_VIOLATION, INVALID_RECORD = 44, 87


class Case(NamedTuple):
    """A topic's settings, the hours that its records are old (None: no timestamp), whether some are tombstones."""

    configs: dict[str, str]
    ages: list[float | None]
    tombstones: bool = False


OLD: list[float | None] = [48.0] * BATCHES
YOUNG: list[float | None] = [0.1] * BATCHES
LAG = {"min.compaction.lag.ms": str(HOUR_MS)}
NEVER_DIRTY_ENOUGH = {"min.cleanable.dirty.ratio": "1"}
OVERDUE = {**NEVER_DIRTY_ENOUGH, "max.compaction.lag.ms": str(HOUR_MS)}
BOTH = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
CASES = {
    "all of it": Case({}, OLD),
    "young ones wait": Case(LAG, OLD[:10] + YOUNG[10:]),
    "a young one keeps what lies behind it": Case(LAG, YOUNG[:1] + OLD[1:]),
    "one from the future waits": Case(LAG, [*OLD[:12], -99_999.0, *OLD[13:]]),
    "without timestamps the file's age counts": Case(LAG, [None] * BATCHES),
    "never dirty enough": Case(NEVER_DIRTY_ENOUGH, OLD),
    "half dirty": Case({"min.cleanable.dirty.ratio": "0.5"}, OLD),
    "overdue": Case(OVERDUE, OLD),
    "overdue by one record": Case(OVERDUE, [*YOUNG[:12], 48.0, *YOUNG[13:]]),
    "not overdue": Case(OVERDUE, YOUNG),
    "without timestamps nothing is overdue": Case(OVERDUE, [None] * BATCHES),
    "tombstones that stay": Case({"delete.retention.ms": str(HOUR_MS)}, OLD, tombstones=True),
    "tombstones that go": Case({"delete.retention.ms": "0"}, OLD, tombstones=True),
    "too old to keep": Case({**BOTH, **NEVER_DIRTY_ENOUGH, "retention.ms": str(24 * HOUR_MS)}, OLD),
    "too many to keep": Case({**BOTH, **NEVER_DIRTY_ENOUGH, "retention.bytes": "3000"}, OLD),
    "one key": Case({"segment.bytes": "1000000", "segment.ms": "100"}, [48 - n / 3600 for n in range(BATCHES)]),
}


def _batch(case: Case, number: int) -> bytes:
    age = case.ages[number]
    timestamp = -1 if age is None else NOW_MS - int(age * HOUR_MS)
    value = None if case.tombstones and number % 3 == 2 else b"v" * 400
    record = Record(offset=0, timestamp=timestamp, key=b"k%d" % (number * number % 7), value=value, headers=())
    return bytes(encode_batch([record]))


def _fill(wire: Wire, topic: str, case: Case) -> None:
    for number in range(BATCHES):
        assert produce(wire, topic, _batch(case, number))[0] == 0


def _create(wire: Wire, case: Case) -> str:
    configs = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
    return new_topic(wire, 1, **{**configs, **case.configs})


def _delete_records(wire: Wire, topic: str, offset: int) -> int:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000)
    code: int = wire.ask(request, 1).topics[0].partitions[0].error_code
    return code


def _records(directory: Path) -> list[tuple[int, bytes | None, bool]]:
    """(Offset, key, whether there is a value) of the records in the files."""
    for _ in range(100):
        try:
            contents = [path.read_bytes() for path in sorted(directory.glob("*.log"))]
        except FileNotFoundError:  # the broker has replaced a segment since the listing
            continue
        return [
            (record.offset, record.key, record.value is not None)
            for content in contents
            for position, header in iterate_headers(content)
            for record in read_records(content[position : position + header.size], header)
        ]
    raise AssertionError(f"the files of {directory} never stay")


def _clean_to(data: Path, topic: str) -> int | None:
    path = data / "cleaner-offset-checkpoint"
    lines = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(offset) for name, _, offset in lines if name == topic), None)


def _state(wire: Wire, data: Path, topic: str) -> dict[str, Any]:
    return {
        "offsets": tuple(list_offsets(wire, topic, which).offset for which in (-2, -1)),
        "clean to": _clean_to(data, topic),
        "records": _records(data / f"{topic}-0"),
        "segments": sorted(path.name for path in (data / f"{topic}-0").glob("*.log")),
    }


Broker = RealKafka | KafkapyProcess
Topics = dict[str, str]
Outcome = dict[str, list[Any]]


def _prepare(broker: Broker, topics: Topics, number: int) -> None:
    """Fill every topic, and stop."""
    with Wire(broker.bootstrap) as wire:
        for name, case in CASES.items():
            if number == 0:
                topics[name] = _create(wire, case)
            _fill(wire, topics[name], case)
    broker.stop()


def _states(broker: Broker, topics: Topics) -> dict[str, Any]:
    with Wire(broker.bootstrap) as wire:
        return {case: _state(wire, broker.data, topic) for case, topic in topics.items()}


def _settled(brokers: list[Broker], topics: list[Topics]) -> list[dict[str, Any]]:
    """The state of every topic when nothing has changed for two seconds, in which the cleaner checks twenty times."""
    deadline = time.monotonic() + TIMEOUT_S
    before: list[dict[str, Any]] = []
    while (states := [_states(*pair) for pair in zip(brokers, topics, strict=True)]) != before:
        assert time.monotonic() < deadline, "the cleaner does not finish"
        before = states
        time.sleep(2)
    return states


def _refuses(broker: Broker, topics: Topics) -> None:
    """A compacted topic refuses DeleteRecords and records without a key."""
    without_key = bytes(encode_batch([Record(None, b"v", NOW_MS, (), 0)]))
    with Wire(broker.bootstrap) as wire:
        for topic in topics.values():
            assert produce(wire, topic, without_key) == (INVALID_RECORD, -1)
            assert list_offsets(wire, topic, -1).offset == 2 * BATCHES
        assert _delete_records(wire, topics["all of it"], 1) == POLICY_VIOLATION


@pytest.fixture(scope="module")
def outcomes() -> tuple[Outcome, Outcome]:
    """The state of each case on 2.7.2 and on kafkapy."""
    found: tuple[Outcome, Outcome] = {case: [] for case in CASES}, {case: [] for case in CASES}
    with ExitStack() as stack:
        brokers: list[Broker] = [
            stack.enter_context(RealKafka("2.7.2", heap="256M", config=NOT_CLEANING)),
            stack.enter_context(KafkapyProcess(config=NOT_CLEANING)),
        ]
        topics: list[Topics] = [{}, {}]
        for number in range(2):
            for broker, names in zip(brokers, topics, strict=True):
                _prepare(broker, names, number)
                broker.overrides = {**broker.overrides, **CLEANING, "log.cleaner.enable": "true"}
                broker.start()
            for outcome, states in zip(found, _settled(brokers, topics), strict=True):
                for case, state in states.items():
                    outcome[case].append(state)
            for broker, names in zip(brokers, topics, strict=True):
                if number == 0:
                    broker.stop()
                    broker.overrides = {**broker.overrides, **NOT_CLEANING}
                    broker.start()
                else:
                    _refuses(broker, names)
    return found


@pytest.mark.parametrize("case", CASES)
def test_kafka_and_kafkapy_compact_the_same_records(outcomes: tuple[Outcome, Outcome], case: str) -> None:
    theirs, ours = (outcome[case] for outcome in outcomes)
    assert ours == theirs


def test_the_cases_differ(outcomes: tuple[Outcome, Outcome]) -> None:
    """Logs are compacted in the cases with due records, and not in the others."""
    theirs, _ = outcomes
    never = {case for case, rounds in theirs.items() if rounds[-1]["clean to"] is None}
    assert {"never dirty enough", "not overdue", "without timestamps nothing is overdue"} <= never
    assert not never & {"all of it", "overdue", "overdue by one record", "half dirty", "tombstones that go"}
