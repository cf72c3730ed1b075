from pathlib import Path
from struct import pack

import pytest
from crc32c import crc32c

from harness.storage.batches import GOLDEN
from kafkapy.storage.errors import CorruptSnapshotError
from kafkapy.storage.log.producer_state import ProducerEntry, decode_snapshot, encode_snapshot


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.snapshot")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_real_kafkas_snapshots_parse_and_encode_the_same(path: Path) -> None:
    assert encode_snapshot(decode_snapshot(path.read_bytes())) == path.read_bytes()


def test_the_known_entry_is_read() -> None:
    (entry,) = decode_snapshot((GOLDEN / "seg-0" / "00000000000000000183.snapshot").read_bytes())
    assert (entry.producer_id, entry.producer_epoch, entry.last_sequence) == (4001, 0, 0x4F)
    assert (entry.batches[0].last_offset, entry.last_timestamp, entry.coordinator_epoch) == (0x52, 0x01A1FD3336AE, 0)
    assert entry.current_txn_first_offset == -1


def test_without_producers_it_is_ten_bytes() -> None:
    assert encode_snapshot([]).hex() == "000148674bc700000000"


def test_a_producer_without_batches_keeps_its_epoch() -> None:
    entry = ProducerEntry(9)
    entry.producer_epoch = 4
    (again,) = decode_snapshot(encode_snapshot([entry]))
    assert (again.producer_epoch, again.batches) == (4, [])


def _with_crc(body: bytes, version: int = 1) -> bytes:
    return pack(">hI", version, crc32c(body)) + body


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no producer snapshot"),
        (b"\0\1\0\0\0\0\0\0", "no producer snapshot"),
        (_with_crc(bytes(4), version=2), "unknown version 2"),
        (b"\0\1\0\0\0\0\0\0\0\0", "CRC is wrong"),
        (_with_crc(pack(">i", 2) + bytes(46)), "announces 2 entries"),
    ],
)
def test_damage_is_found(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        decode_snapshot(content)
