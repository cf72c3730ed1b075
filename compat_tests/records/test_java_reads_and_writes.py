"""Kafka's own classes read what kafkapy writes, and the reverse."""

import random

import pytest

from compat_tests.records.oracle import RecordsOracle
from kafkapy.records.batch import BatchHeader, crc_is_valid, iterate_headers, read_header
from kafkapy.records.control import ControlType, Marker, encode_leader_change, encode_marker, read_control
from kafkapy.records.record import Record, encode_batch, encode_empty_batch, read_records

pytestmark = pytest.mark.java

CODECS = range(5)


def some_records(seed: int) -> list[Record]:
    chance = random.Random(seed)

    def maybe_bytes(largest: int) -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.randrange(largest))

    return [
        Record(
            maybe_bytes(30),
            maybe_bytes(4000) if seed % 2 else b"abcd" * chance.randrange(9000),
            1_700_000_000_000 + chance.randrange(-100_000, 100_000),
            tuple((f"h{number}é", maybe_bytes(40)) for number in range(chance.randrange(4))),
        )
        for _ in range(chance.randrange(1, 12))
    ]


def hexed(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def spelled(records: list[Record]) -> list[str]:
    return [
        ":".join(
            [str(record.timestamp), hexed(record.key), hexed(record.value)]
            + [f"{key.encode().hex()}={hexed(value)}" for key, value in record.headers]
        )
        for record in records
    ]


def expected_reading(data: bytes) -> list[str]:
    """The expected answer of the oracle for ``data``."""
    lines = []
    for position, header in iterate_headers(data):
        lines.append(",".join(["batch", *map(_java, _fields(header))]))
        for record in read_records(data, header, position):
            parts = ["record", str(record.offset), str(record.timestamp), hexed(record.key), hexed(record.value)]
            parts += [f"{key.encode().hex()}={hexed(value)}" for key, value in record.headers]
            lines.append(",".join(parts))
    return lines


def _fields(header: BatchHeader) -> list[object]:
    return [
        header.base_offset, header.last_offset, header.size, header.partition_leader_epoch, header.magic, True,
        header.compression, header.timestamp_type, header.is_transactional, header.is_control, header.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence, header.record_count,
    ]  # fmt: skip


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_java_reads_kafkapys_batches(oracle: RecordsOracle, codec: int, seed: int, timestamp_type: int) -> None:
    data = encode_batch(
        some_records(seed), compression=codec, timestamp_type=timestamp_type, base_offset=2**40 + seed,
        partition_leader_epoch=seed, producer_id=5, producer_epoch=1, base_sequence=2**31 - 2,
        is_transactional=seed > 1,
    )  # fmt: skip
    assert oracle.ask("read", data + data) == expected_reading(data + data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_kafkapy_reads_javas_batches(oracle: RecordsOracle, codec: int, seed: int, timestamp_type: int) -> None:
    listed = some_records(seed)
    (answer,) = oracle.ask(
        "write", codec, timestamp_type, 77, 12, 3, 40, _java(seed > 1), 6, 1_800_000_000_000, *spelled(listed)
    )
    data = bytes.fromhex(answer)
    header = read_header(data)
    assert crc_is_valid(data, 0, header)
    assert oracle.ask("read", data) == expected_reading(data)
    stamped = [
        record._replace(offset=77 + place, timestamp=1_800_000_000_000 if timestamp_type else record.timestamp)
        for place, record in enumerate(listed)
    ]
    assert read_records(data) == stamped
    again = encode_batch(
        listed, compression=codec, timestamp_type=timestamp_type, base_offset=77, partition_leader_epoch=6,
        producer_id=12, producer_epoch=3, base_sequence=40, is_transactional=seed > 1,
        max_timestamp=header.max_timestamp,
    )  # fmt: skip
    if codec == 0:
        assert again == data
    assert read_records(again) == stamped


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_markers_are_those_of_java(oracle: RecordsOracle, control_type: ControlType) -> None:
    data = encode_marker(control_type, Marker(4000, 2, 9), 1_700_000_000_123, base_offset=55, leader_epoch=3)
    assert oracle.ask("marker", control_type.name, 4000, 2, 9, 1_700_000_000_123, 55, 3) == [data.hex()]
    assert oracle.ask("read", data)[1].endswith(f"{control_type.name},9")
    assert read_control(data).coordinator_epoch == 9


def test_java_reads_a_leader_change(oracle: RecordsOracle) -> None:
    """Type 2, which 2.7 still calls by another name; from 2.8 on it is LEADER_CHANGE."""
    assert oracle.ask("read", encode_leader_change(b"\0\0", 5))[1] == "record,0,5,00000002,0000,QUORUM_REASSIGNMENT"


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_empty_batches_are_those_of_java(oracle: RecordsOracle, transactional: bool, timestamp_type: int) -> None:
    full = encode_batch(
        some_records(1), compression=2, base_offset=7, partition_leader_epoch=2, producer_id=1, producer_epoch=0,
        base_sequence=30, is_transactional=transactional, timestamp_type=timestamp_type,
    )  # fmt: skip
    header = read_header(full)
    data = encode_empty_batch(header)
    fields = (1, 0, 30, 7, header.last_offset, 2, timestamp_type, header.max_timestamp, _java(transactional))
    assert oracle.ask("empty", *fields) == [data.hex()]
