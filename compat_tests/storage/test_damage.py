"""Damaged data directories: the same records are served again, by Apache Kafka 2.7.2 and by kafkapy, of each damage.

One topic for each kind of damage, all with the same sixty batches in four segments (0, 15, 30 and 45), damaged while
the broker is stopped, after a clean stop and after one that was not. `BETTER` holds what kafkapy survives and 2.7.2
doesn't: there it stops, or drops records that are whole.
"""

import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.kafkapy_process import KafkapyProcess
from harness.real_kafka import RealKafka
from kafkapy.storage.partition_metadata import PARTITION_METADATA_NAME

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

QUIET = {"log_level": 0}
KEEP_ALL = {"log.retention.ms": "-1"}
TOPIC = {"segment.bytes": "2500", "index.interval.bytes": "400", "file.delete.delay.ms": "600000"}
RECORDS, BASES = 60, (0, 15, 30, 45)
READ_TIMEOUT_S = 20.0
FAR = 2**31


def _log(folder: Path, segment: int) -> Path:
    return folder / f"{BASES[segment]:020d}.log"


def _batch(folder: Path, segment: int, number: int) -> tuple[Path, int, int]:
    """A segment's file, and the position and size of one of its batches."""
    path = _log(folder, segment)
    content, position = path.read_bytes(), 0
    for _ in range(number):
        position += struct.unpack_from(">i", content, position + 8)[0] + 12
    return path, position, struct.unpack_from(">i", content, position + 8)[0] + 12


def _write(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def _flip(segment: int, number: int = 5) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path, position, size = _batch(folder, segment, number)
        at = position + size - 3
        _write(path, at, bytes([path.read_bytes()[at] ^ 0x55]))

    return damage


def _length(value: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path, position, _ = _batch(folder, 1, 5)
        _write(path, position + 8, struct.pack(">i", value))

    return damage


def _each(pattern: str, change: Callable[[bytes], bytes] | None) -> Callable[[Path], None]:
    """Change the content of every such file, or remove it."""

    def damage(folder: Path) -> None:
        for path in sorted(folder.glob(pattern)):
            content = path.read_bytes()
            path.unlink()
            if change is not None:
                path.write_bytes(change(content))

    return damage


def _active(change: Callable[[bytes], bytes] | None) -> Callable[[Path], None]:
    return _each(f"{BASES[-1]:020d}.log", change)


def _both(*damages: Callable[[Path], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for each in damages:
            each(folder)

    return damage


def _leftovers(folder: Path) -> None:
    for name in ("0.log.deleted", "0.log.cleaned", "0.index.cleaned"):
        (folder / f"{'0' * 19}{name}").write_bytes(b"x")
    (folder / "README").write_bytes(b"mine")


def _swap(folder: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        path = _log(folder, 1).with_suffix(suffix)
        shutil.copy(path, f"{path}.swap")


def _duplicate(folder: Path) -> None:
    path, position, size = _batch(folder, 3, 0)
    content = path.read_bytes()
    path.write_bytes(content + content[position : position + size])


def _far(folder: Path) -> None:
    """The last ten offsets don't fit 31 bits above their segment's: releases before 1.1 compacted so."""
    path, position, _ = _batch(folder, 3, 5)
    while position < path.stat().st_size:
        offset, length = struct.unpack_from(">qi", path.read_bytes(), position)
        _write(path, position, struct.pack(">q", offset + FAR))
        position += length + 12


class Case(NamedTuple):
    """A damage; the end offset after it, and the offsets that a consumer gets."""

    damage: Callable[[Path], None]
    end: int = RECORDS
    read: tuple[range, ...] = (range(RECORDS),)
    clean: bool = False
    recovery_point: int = 0
    fails: bool = False
    """Whether the consumer meets a corrupt batch where the offsets end."""


def _up_to(end: int, damage: Callable[[Path], None], **more: Any) -> Case:
    return Case(damage, end, (range(end),), **more)


def _without(gone: range, damage: Callable[[Path], None], **more: Any) -> Case:
    return Case(damage, RECORDS, (range(gone.start), range(gone.stop, RECORDS)), **more)


def _readable(end: int, damage: Callable[[Path], None], **more: Any) -> Case:
    return Case(damage, RECORDS, (range(end),), fails=True, **more)


INDEX_AND_BATCH = _both(_flip(1), _each(f"{BASES[1]:020d}.index", None))
CASES: dict[str, Case] = {
    "nothing": Case(lambda _: None),
    "torn-tail": _up_to(59, _active(lambda content: content[:-7])),
    "zeros": Case(_active(lambda content: content + bytes(5000))),
    "active-damaged": _up_to(50, _flip(3)),
    "inactive-damaged": _up_to(20, _flip(1)),
    "first-damaged": _up_to(0, _flip(0, 0)),
    "damaged-below-recovery-point": _readable(20, _flip(1), recovery_point=30),
    "length-huge": _up_to(20, _length(2**31 - 1)),
    "length-negative": _up_to(20, _length(-1)),
    "length-small": _up_to(20, _length(3)),
    "no-index": Case(_each("*.index", None)),
    "no-time-index": Case(_each("*.timeindex", None)),
    "index-garbage": Case(_each("*.index", lambda _: b"\x45" * 80)),
    "no-index-below-recovery-point": _without(range(20, 30), INDEX_AND_BATCH, recovery_point=45),
    "snapshots-garbage": Case(_each("*.snapshot", lambda _: b"\x45" * 50)),
    "no-snapshots": Case(_each("*.snapshot", None)),
    "no-epochs": Case(_each("leader-epoch-checkpoint", None)),
    "active-emptied": _up_to(45, _active(lambda _: b"")),
    "no-inactive": _without(range(15, 30), _each(f"{BASES[1]:020d}.log", None)),
    "leftovers": Case(_leftovers),
    "swap": Case(_swap),
    "offsets-too-far": Case(_far, RECORDS + FAR, (range(50), range(50 + FAR, RECORDS + FAR))),
    "recovery-point-beyond": _up_to(59, _active(lambda content: content[:-7]), recovery_point=10**15),
    "clean-nothing": Case(lambda _: None, clean=True),
    "clean-torn-tail": _up_to(59, _active(lambda content: content[:-7]), clean=True),
    "clean-damaged": _readable(20, _flip(1), clean=True),
    "clean-no-index": Case(_each("*.index", None), clean=True),
    "clean-no-index-and-damaged": _without(range(20, 30), INDEX_AND_BATCH, clean=True),
    "clean-index-odd": Case(_each("*.index", lambda content: content + b"x"), clean=True),
    "clean-index-zeros": Case(_each("*.index", lambda _: bytes(80)), clean=True),
    "clean-no-time-index": Case(_each("*.timeindex", None), clean=True),
    "clean-snapshots-garbage": Case(_each("*.snapshot", lambda _: b"\x45" * 50), clean=True),
    "clean-active-emptied": _up_to(45, _active(lambda _: b""), clean=True),
    "clean-no-active": _up_to(45, _active(None), clean=True),
    "clean-swap": Case(_swap, clean=True),
}
BETTER: dict[str, Case] = {
    "duplicate-tail": Case(_duplicate),
    "clean-zeros": Case(_active(lambda content: content + bytes(5000)), clean=True),
    "clean-index-garbage": Case(
        _each("*.index", lambda _: b"".join(struct.pack(">ii", 5000 + n, 100_000 + 7 * n) for n in range(10))),
        clean=True,
    ),
    "clean-time-index-garbage": Case(_each("*.timeindex", lambda _: b"\xff" * 24), clean=True),
}

Served = dict[str, tuple[int, list[int], bool]]


def _fill(bootstrap: str, names: list[str]) -> None:
    admin = kafka_admin.AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for created in admin.create_topics([kafka_admin.NewTopic(name, 1, 1, config=TOPIC) for name in names]).values():
        created.result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True, **QUIET})
    for number in range(RECORDS):
        producer.produce(names[0], (b"%03d" % number) * 30, b"k%d" % (number % 7), timestamp=1_700_000_000_000 + number)
        producer.flush()


def _damage(data: Path, cases: dict[str, Case], source: Path, *, clean: bool) -> None:
    """Every topic gets the same files, damaged if its stop was such a one."""
    lines = []
    for name, case in cases.items():
        folder = data / f"{name}-0"
        shutil.rmtree(folder)
        shutil.copytree(source, folder)
        if case.clean is clean:
            case.damage(folder)
        lines.append(f"{name} 0 {case.recovery_point if case.clean is clean else RECORDS}\n")
    (data / "recovery-point-offset-checkpoint").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    if not clean:
        (data / ".kafka_cleanshutdown").unlink()


def _end_offset(consumer: Consumer, topic: str, deadline: float) -> int:
    """Asked for until the broker, just started, knows who leads."""
    while True:
        try:
            end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return end


def _read(bootstrap: str, topic: str) -> tuple[int, list[int], bool]:
    settings = {"group.id": "g", "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "fetch.wait.max.ms": 50, **settings, **QUIET})
    deadline = time.monotonic() + READ_TIMEOUT_S
    end = _end_offset(consumer, topic, deadline)
    consumer.assign([TopicPartition(topic, 0, 0)])
    offsets: list[int] = []
    failed = False
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            failed = error.code() != KafkaError._PARTITION_EOF
            break
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)
    consumer.close()
    return end, offsets, failed


@pytest.fixture(scope="module", params=["kafkapy", pytest.param("kafka-2.7.2", marks=pytest.mark.java)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The records that each topic's consumer got from a broker that was started twice on damaged files."""
    directory = tmp_path_factory.mktemp("damaged")
    cases = {**CASES, **(BETTER if request.param == "kafkapy" else {})}
    broker: KafkapyProcess | RealKafka
    broker = (
        KafkapyProcess(directory=directory, config=KEEP_ALL)
        if request.param == "kafkapy"
        else RealKafka("2.7.2", heap="256M", directory=directory, config=KEEP_ALL)
    )
    found: Served = {}
    with broker:
        names = list(cases)
        _fill(broker.bootstrap, names)
        broker.stop()
        source = directory / "source"
        shutil.copytree(broker.data / f"{names[0]}-0", source)
        (source / PARTITION_METADATA_NAME).unlink(missing_ok=True)  # the copies are of other topics
        for clean in (False, True):
            _damage(broker.data, cases, source, clean=clean)
            broker.start()
            found |= {name: _read(broker.bootstrap, name) for name, case in cases.items() if case.clean is clean}
            broker.stop()
        yield found


def test_the_records_served_after_each_damage(served: Served) -> None:
    cases = {name: {**CASES, **BETTER}[name] for name in served}
    expected = {
        name: (case.end, [offset for part in case.read for offset in part], case.fails) for name, case in cases.items()
    }
    assert {name: got for name, got in served.items() if got != expected[name]} == {}
    assert len(served) >= len(CASES)
