"""Every kind of file in a data directory, damaged in every way, after a clean stop and after a kill.

For each case the broker either starts or refuses with one sentence that names the file and what to do. After a start,
every acknowledged record is served, or its loss was logged, or a Fetch of it fails; what is served is what was sent;
topics and configurations are all there; records can be produced, and the next start finds the same. ``OUTCOMES`` says
what becomes of each case. ``KAFKAPY_DAMAGE_SEEDS=20`` flips other bytes, one for each seed; one seed is the quick run.
"""

import asyncio
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from harness.client import Client, batch
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.network.loop import BrokerLoop
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.batch import BatchHeader, crc_is_valid, iterate_headers
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import read_records
from kafkapy.server.lifecycle.broker import START_FAILURES, BrokerServer
from kafkapy.turns import finish

SEEDS: Final = int(os.environ.get("KAFKAPY_DAMAGE_SEEDS", "1"))
TOPIC, TRIMMED = "t", "trimmed"
TOPIC_CONFIG: Final[Mapping[str, Any]] = {
    "segment__bytes": "2500",
    "index__interval__bytes": "400",
    "retention__ms": "-1",
}
RECORDS: Final = 60
TRIMMED_TO: Final = 3
ABORTED: Final = 20
"""Before this record a transaction writes and is aborted."""

USUAL: Final = "Recovering "
"""The beginning of the warning that each start after a kill logs."""
NOT_YET: Final = (3, 5, 6, 14, 15, 16, 51)
"""Error codes of a broker that has just started, or that still ends a transaction."""

PROPERTIES: Final = {
    "broker.id": "0",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "log.cleaner.enable": "false",
}

Values = dict[tuple[str, int], bytes]
"""The record at each offset of each topic's partition 0; control batches are left out."""


class Template(NamedTuple):
    """A stopped broker's directory, what it had acknowledged, and beside that the records that were deleted."""

    path: Path
    acknowledged: Values
    produced: Values


class Outcome(NamedTuple):
    """The outcome of a case; ``problem`` is None if it is as expected."""

    kind: str
    problem: str | None


# what is damaged


def _segment(number: int, suffix: str) -> Callable[[Path], Path]:
    """A file of one of the segments of ``TOPIC``; -1 is the active one."""

    def find(data: Path) -> Path:
        logs = sorted((data / f"{TOPIC}-0").glob("*.log"))
        return logs[number].with_suffix(suffix)

    return find


def _aborted(data: Path) -> Path:
    return next((data / f"{TOPIC}-0").glob("*.txnindex"))


def _snapshot(data: Path) -> Path:
    return sorted((data / f"{TOPIC}-0").glob("*.snapshot"))[-1]


def _leftover(suffix: str) -> Callable[[Path], Path]:
    """A second copy of a closed segment, as a compaction that was broken off leaves it."""

    def find(data: Path) -> Path:
        log = _segment(1, ".log")(data)
        for each in (".log", ".index", ".timeindex"):
            shutil.copy(log.with_suffix(each), f"{log.with_suffix(each)}{suffix}")
        return Path(f"{log}{suffix}")

    return find


def _named(name: str) -> Callable[[Path], Path]:
    return lambda data: data / name


def _shm(data: Path) -> Path:
    path = data / "kafkapy-metadata.sqlite-shm"
    path.write_bytes(bytes(32768))
    return path


KINDS: Final[Mapping[str, Callable[[Path], Path]]] = {
    "active .log": _segment(-1, ".log"),
    "closed .log": _segment(1, ".log"),
    "first .log": _segment(0, ".log"),
    "active .index": _segment(-1, ".index"),
    "closed .index": _segment(1, ".index"),
    "active .timeindex": _segment(-1, ".timeindex"),
    "closed .timeindex": _segment(1, ".timeindex"),
    ".txnindex": _aborted,
    ".snapshot": _snapshot,
    "leader-epoch-checkpoint": lambda data: data / f"{TOPIC}-0" / "leader-epoch-checkpoint",
    ".log.swap": _leftover(".swap"),
    ".log.cleaned": _leftover(".cleaned"),
    "recovery-point-offset-checkpoint": _named("recovery-point-offset-checkpoint"),
    "replication-offset-checkpoint": _named("replication-offset-checkpoint"),
    "log-start-offset-checkpoint": _named("log-start-offset-checkpoint"),
    "cleaner-offset-checkpoint": _named("cleaner-offset-checkpoint"),
    "meta.properties": _named("meta.properties"),
    ".kafka_cleanshutdown": _named(".kafka_cleanshutdown"),
    ".lock": _named(".lock"),
    "kafkapy-metadata.sqlite": _named("kafkapy-metadata.sqlite"),
    "kafkapy-metadata.sqlite-wal": _named("kafkapy-metadata.sqlite-wal"),
    "kafkapy-metadata.sqlite-shm": _shm,
    "kafkapy-metadata.journal": _named("kafkapy-metadata.journal"),
}


# how it is damaged


def _missing(path: Path, _: random.Random) -> None:
    path.unlink()


def _empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def _truncated(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(1, max(len(content), 2))])


def _zeros(path: Path, _: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _flipped(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _full_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_bytes(b"x")


def _file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"x")


DAMAGES: Final[Mapping[str, Callable[[Path, random.Random], None]]] = {
    "missing": _missing,
    "empty": _empty,
    "truncated": _truncated,
    "zeros": _zeros,
    "flipped": _flipped,
    "folder": _folder,
    "full folder": _full_folder,
}
BY_CHANCE: Final = ("truncated", "flipped")
NEEDS_CONTENT: Final = ("empty", "truncated", "zeros", "flipped")


# the brokers


def _config(data: Path) -> BrokerConfig:
    return BrokerConfig.from_properties({**PROPERTIES, "log.dirs": str(data)})


async def _answered(client: Client, request: Any, version: int, code_of: Callable[[Any], int]) -> Any:
    """Ask until the broker, just started, knows the partition's leader or coordinator."""
    while True:
        answer = await client.ask(request, version)
        code = code_of(answer)
        if code not in NOT_YET:
            assert code == 0
            return answer
        await asyncio.sleep(0.01)


async def _produce(client: Client, topic: str, records: bytes, transactional_id: str | None = None) -> int:
    """Produce one batch; return its offset."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])
    request = ProduceRequest(transactional_id, -1, 5000, [data])
    answer = await _answered(client, request, 8, lambda each: each.responses[0].partition_responses[0].error_code)
    return int(answer.responses[0].partition_responses[0].base_offset)


async def _abort(client: Client) -> None:
    """A transaction that writes to ``TOPIC`` and is aborted."""
    name = "writer"
    await _answered(client, FindCoordinatorRequest(name, 1), 2, _code)
    producer = await _answered(client, InitProducerIdRequest(name, 60_000), 1, _code)
    who = (producer.producer_id, producer.producer_epoch)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=who[0],
        v3_and_below_producer_epoch=who[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [0])],
    )
    answer = (await client.ask(added, 1)).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert answer.partition_error_code == 0
    sent = batch(b"aborted", producer_id=who[0], producer_epoch=who[1], base_sequence=0, is_transactional=True)
    await _produce(client, TOPIC, sent, name)
    await _answered(client, EndTxnRequest(name, *who, committed=False), 1, _code)


def _code(answer: Any) -> int:
    return int(answer.error_code)


async def _fill(data: Path, *, clean: bool) -> Values:
    broker = BrokerServer(_config(data))
    await broker.start()
    client = await Client.connect(broker)
    await client.create_topic(TOPIC, **TOPIC_CONFIG)
    await client.create_topic(TRIMMED, **TOPIC_CONFIG)
    producer = await client.ask(InitProducerIdRequest(None, 60_000), 1)
    for number in range(RECORDS):
        if number == ABORTED:
            await _abort(client)
        sent = batch((b"%03d" % number) * 30, producer_id=producer.producer_id, producer_epoch=0, base_sequence=number)
        await _produce(client, TOPIC, sent)
    for number in range(2 * TRIMMED_TO):
        await _produce(client, TRIMMED, batch(b"%d" % number))
    trim = DeleteRecordsRequest([DeleteRecordsTopic(TRIMMED, [DeleteRecordsPartition(0, TRIMMED_TO)])], 5000)
    assert (await client.ask(trim, 1)).topics[0].partitions[0].error_code == 0
    found, _ = await _read_all(client)
    await client.close()
    logs = broker.services.log_manager
    if clean:
        await broker.stop()
    else:
        for log in logs.all_logs():
            log.flush()
        finish(logs.checkpoint_recovery_points())
        logs.checkpoint_high_watermarks()
        logs.checkpoint_log_start_offsets()
        await asyncio.to_thread(logs.storage.flusher.close)
        shutil.copytree(data, data.with_suffix(".killed"))
        await broker.kill()
        shutil.rmtree(data)
        data.with_suffix(".killed").rename(data)
    (data / "cleaner-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 5\n")
    return found


async def _offset(client: Client, topic: str, timestamp: int) -> int:
    asked = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])])
    answer = await _answered(client, asked, 1, lambda each: each.topics[0].partitions[0].error_code)
    return int(answer.topics[0].partitions[0].offset)


async def _read_all(client: Client) -> tuple[Values, set[str]]:
    """The records of each topic from its first offset, and the topics of which a Fetch failed."""
    found: Values = {}
    failed = set()
    for topic in (TOPIC, TRIMMED):
        offset, end = await _offset(client, topic, -2), await _offset(client, topic, -1)
        while offset < end:
            answer = (await client.fetch(topic, offset)).responses[0].partitions[0]
            assert answer.records is None or isinstance(answer.records, bytes | bytearray | memoryview)
            records = bytes(answer.records or b"")
            headers = [] if answer.error_code else _headers(records)
            if not headers:
                failed.add(topic)
                offset += 1
            for position, header in headers:
                content = records[position : position + header.size]
                offset = header.next_offset
                if not crc_is_valid(content, 0, header):
                    failed.add(topic)
                elif not header.is_control:
                    for record in read_records(content, header):
                        # Of two records that claim one offset, the second one counts as being at an offset of its own.
                        place = record.offset if (topic, record.offset) not in found else -1 - record.offset
                        found[topic, place] = record.value or b""
    return found, failed


def _headers(records: bytes) -> list[tuple[int, BatchHeader]]:
    """The positions and headers of the batches up to the first that is none."""
    found = []
    with suppress(CorruptRecordError):
        for each in iterate_headers(records):  # an error must not lose those before it
            found.append(each)
    return found


# a case


async def _served(data: Path) -> tuple[Values, set[str], Values]:
    """Start on ``data``, read everything, write a record to each topic; return what was read and what was written."""
    async with BrokerServer(_config(data)) as broker:
        client = await Client.connect(broker)
        found, failed = await _read_all(client)
        overrides = broker.services.config_admin.cached_topic_overrides(TOPIC)
        assert dict(overrides) == {key.replace("__", "."): value for key, value in TOPIC_CONFIG.items()}
        written = {}
        for topic in (TOPIC, TRIMMED):
            written[topic, await _produce(client, topic, batch(b"new"))] = b"new"
        await client.close()
    return found, failed, written


def _run(data: Path) -> tuple[Values, set[str], Values]:
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        return runner.run(asyncio.wait_for(_served(data), 20))


def _judge(template: Template, data: Path, damaged: Path, records: list[logging.LogRecord]) -> Outcome:
    try:
        found, failed, written = _run(data)
    except START_FAILURES as error:
        sentence = str(error)
        is_named = damaged.name in sentence and str(data) in sentence
        return Outcome("refused", None if is_named else f"the refusal does not name {damaged}: {sentence}")
    logged = [each for each in records if each.name.startswith("kafkapy.")]  # clients of other tests may log, too
    traceback = next((each.getMessage() for each in logged if each.exc_info), None)
    if traceback is not None:
        return Outcome("started", f"a traceback: {traceback}")
    strange = {at: value for at, value in found.items() if template.produced.get(at) != value}
    if strange and damaged.suffix == ".log" and set(strange.values()) <= set(template.produced.values()):
        return Outcome("misplaced", None)  # no checksum covers a batch's base offset
    if strange:
        return Outcome("started", f"served records that were never written: {strange}")
    lost = template.acknowledged.keys() - found.keys()
    said = [
        line for each in logged if each.levelno >= logging.WARNING and not (line := each.getMessage()).startswith(USUAL)
    ]
    untold = {
        topic for topic, _ in lost if topic not in failed and not any(f"{data}/{topic}-0" in line for line in said)
    }
    kind = (
        "served"
        if not lost and found.keys() <= template.acknowledged.keys()
        else "undeleted"
        if not lost
        else "failing"
        if {topic for topic, _ in lost} <= failed
        else "lost"
    )
    if untold:
        return Outcome(kind, f"lost in silence: {sorted(lost)}")
    again, failed_again, _ = _run(data)
    if again != found | written or failed_again != failed:
        return Outcome(kind, "the next start serves something else")
    return Outcome(kind if lost or not said else "repaired", None)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: the fsyncs of hundreds of starts take longer than all else."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Template]:
    """The directories after a clean stop (True) and after a kill."""
    made = {}
    for clean in (True, False):
        path = tmp_path_factory.mktemp("template") / "data"
        with asyncio.Runner(loop_factory=BrokerLoop) as runner:
            acknowledged = runner.run(_fill(path, clean=clean))
        deleted = {(TRIMMED, offset): b"%d" % offset for offset in range(TRIMMED_TO)}
        made[clean] = Template(path, acknowledged, {**acknowledged, **deleted})
        assert len(made[clean].acknowledged) == RECORDS + 1 + TRIMMED_TO
    return made


LETTERS: Final = {
    "S": "served",
    "R": "repaired",
    "L": "lost",
    "F": "failing",
    "M": "misplaced",
    "U": "undeleted",
    "X": "refused",
}
OUTCOMES: Final = """\
file                             stop    missing  empty  truncated  zeros  flipped  folder  full_folder
active .log                      clean   L        L      L          L      FLMRS    L       L
active .log                      killed  L        L      L          L      FLMRS    L       L
closed .log                      clean   L        L      FL         F      FMRS     L       L
closed .log                      killed  L        L      FL         F      FMRS     L       L
first .log                       clean   L        L      FL         F      FMRS     L       L
first .log                       killed  L        L      FL         F      FMRS     L       L
active .index                    clean   R        S      RS         R      RS       R       R
active .index                    killed  S        S      RS         S      RS       R       R
closed .index                    clean   R        S      RS         R      RS       R       R
closed .index                    killed  R        S      RS         R      RS       R       R
active .timeindex                clean   R        S      RS         R      RS       R       R
active .timeindex                killed  S        S      RS         S      RS       R       R
closed .timeindex                clean   R        S      RS         R      RS       R       R
closed .timeindex                killed  R        S      RS         R      RS       R       R
.txnindex                        clean   S        S      RS         R      RS       R       R
.txnindex                        killed  S        S      RS         R      RS       R       R
.snapshot                        clean   S        S      RS         S      RS       R       R
.snapshot                        killed  S        S      RS         S      RS       R       R
leader-epoch-checkpoint          clean   S        S      RS         R      RS       R       R
leader-epoch-checkpoint          killed  S        S      RS         R      RS       R       R
.log.swap                        clean   R        R      LR         R      RS       R       R
.log.swap                        killed  R        R      LR         R      RS       R       R
.log.cleaned                     clean   S        S      S          S      S        R       R
.log.cleaned                     killed  S        S      S          S      S        R       R
recovery-point-offset-checkpoint clean   S        S      RS         R      RS       R       X
recovery-point-offset-checkpoint killed  S        S      RS         R      RS       R       X
replication-offset-checkpoint    clean   S        S      RS         R      RS       R       X
replication-offset-checkpoint    killed  S        S      RS         R      RS       R       X
log-start-offset-checkpoint      clean   U        U      RSU        R      LRU      R       X
log-start-offset-checkpoint      killed  U        U      RSU        R      LRU      R       X
cleaner-offset-checkpoint        clean   S        S      RS         S      RS       R       X
cleaner-offset-checkpoint        killed  S        S      RS         S      RS       R       X
meta.properties                  clean   S        R      RSX        R      RSX      R       X
meta.properties                  killed  S        R      RSX        R      RSX      R       X
.kafka_cleanshutdown             clean   S        -      -          -      -        R       X
.kafka_cleanshutdown             killed  -        -      -          -      -        -       -
.lock                            clean   S        -      -          -      -        R       X
.lock                            killed  S        -      -          -      -        R       X
kafkapy-metadata.sqlite          clean   R        R      RS         R      RS       R       X
kafkapy-metadata.sqlite          killed  R        R      RS         S      RS       R       X
kafkapy-metadata.sqlite-wal      clean   -        -      -          -      -        -       -
kafkapy-metadata.sqlite-wal      killed  R        R      RS         R      RS       R       X
kafkapy-metadata.sqlite-shm      clean   S        S      RS         S      RS       R       X
kafkapy-metadata.sqlite-shm      killed  S        S      RS         S      RS       R       X
kafkapy-metadata.journal         clean   S        R      RS         R      RS       R       X
kafkapy-metadata.journal         killed  S        R      RS         R      RS       R       X
"""
"""S: everything is served. R: so it is, and the log tells of the damage. L: records are lost, and the log says so. F: a
Fetch of some records fails. M: a record is served at another offset (no checksum of Kafka's covers a batch's base
offset). U: deleted records are back. X: the broker refuses to start and says why. Several letters: it depends on the
byte. A dash: there is no such case."""


def _expected(kind: str, *, clean: bool) -> dict[str, set[str]]:
    header, *lines = OUTCOMES.splitlines()
    stop = "clean" if clean else "killed"
    (cells,) = [line[len(kind) :].split() for line in lines if line.startswith(kind + " ") and f" {stop} " in line]
    names = [name.replace("_", " ") for name in header.split()]
    return {
        damage: {LETTERS[letter] for letter in cell}
        for damage, cell in zip(names[1:], cells, strict=True)
        if damage != "stop" and cell != "-"
    }


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_one_file(
    templates: dict[bool, Template], scratch: Path, caplog: pytest.LogCaptureFixture, kind: str, clean: bool
) -> None:
    template = templates[clean]
    expected = _expected(kind, clean=clean)
    seen = set()
    for seed, (damage, apply) in product(range(SEEDS), DAMAGES.items()):
        if seed and damage not in BY_CHANCE:
            continue
        data = scratch / "data"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(template.path, data)
        path = KINDS[kind](data)
        if not path.exists() or (damage in NEEDS_CONTENT and not path.stat().st_size):
            continue
        apply(path, random.Random(f"{seed} {kind} {damage} {clean}"))
        caplog.clear()
        outcome = _judge(template, data, path, caplog.records)
        assert outcome.problem is None, (damage, seed, outcome)
        assert outcome.kind in expected[damage], (damage, seed, outcome)
        seen.add(damage)
    assert seen == expected.keys()


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("damage", [shutil.rmtree, _file_instead], ids=["missing", "a file"])
def test_damage_to_a_partitions_folder(
    templates: dict[bool, Template],
    scratch: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    clean: bool,
) -> None:
    data = scratch / "data"
    shutil.copytree(templates[clean].path, data)
    damage(data / f"{TOPIC}-0")
    caplog.clear()
    assert _judge(templates[clean], data, data / f"{TOPIC}-0", caplog.records) == Outcome("lost", None)
