from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch
from kafkapy.platform.files import Files
from kafkapy.records.record import Record, encode_legacy
from kafkapy.storage.inspection import log_scan
from kafkapy.storage.inspection.log_scan import LogScan

LEGACY = encode_legacy([Record(b"k", b"v", START_MS, offset=9)], 1)


def _scan(path: Path, content: bytes) -> LogScan:
    file = path / "f.log"
    file.write_bytes(content)
    return LogScan(Files(), str(file))


def test_every_batch_is_found_with_any_size_of_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [bytes(batch(1, base_offset=number, value=b"v" * (number * 7 % 50))) for number in range(200)]
    content = b"".join(batches)
    for chunk in (100, 777, 1 << 20):
        monkeypatch.setattr(log_scan, "CHUNK_BYTES", chunk)
        scan = _scan(tmp_path, content)
        seen = list(scan)
        assert [bytes(each.content or b"") for each in seen] == batches
        assert [each.header.base_offset for each in seen] == list(range(200))
        assert all(each.crc_is_valid for each in seen)
        assert (scan.position, scan.problem, scan.is_torn) == (len(content), None, False)


def test_batches_too_large_for_memory_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "MAX_IN_MEMORY", 64)
    monkeypatch.setattr(log_scan, "CHUNK_BYTES", 50)
    for content in (bytes(batch(1, value=b"v" * 500)), encode_legacy([Record(None, b"v" * 500, offset=3)], 0)):
        (whole,) = _scan(tmp_path, content)
        assert (whole.crc_is_valid, whole.content, whole.header.size) == (True, None, len(content))
        (damaged,) = _scan(tmp_path, content[:-1] + b"x")
        assert damaged.crc_is_valid is False


def test_message_sets_are_batches(tmp_path: Path) -> None:
    scan = _scan(tmp_path, LEGACY + bytes(batch(1, base_offset=10)))
    assert [each.header.magic for each in scan] == [1, 2]
    assert scan.problem is None


@pytest.mark.parametrize(
    ("tail", "torn", "said"),
    [
        (b"\0" * 5, True, "5 bytes are left, which are no whole batch"),
        (b"\0" * 14, False, "can't have a length"),
        (bytes(batch(1))[:-1], True, "no whole batch"),
        (bytes(batch(1))[:15], True, "15 bytes are left"),
        (b"\0" * 8 + b"\0\0\0\2" + b"x" * 9, False, "can't have a length"),
        (b"\0" * 11 + b"\x0f" + b"\0" * 4 + b"\x09" + b"\0" * 90, False, "magic 9"),
    ],
)
def test_bytes_that_are_no_batch_end_the_scan(tmp_path: Path, tail: bytes, torn: bool, said: str) -> None:
    first = bytes(batch(1))
    scan = _scan(tmp_path, first + tail)
    assert len(list(scan)) == 1
    assert (scan.position, scan.is_torn) == (len(first), torn)
    assert scan.problem is not None
    assert said in scan.problem


def test_a_wrong_crc_does_not_end_the_scan(tmp_path: Path) -> None:
    content = bytes(batch(1)) + bytes(batch(1, base_offset=1))
    damaged = bytearray(content)
    damaged[60] ^= 1
    assert [each.crc_is_valid for each in _scan(tmp_path, bytes(damaged))] == [False, True]
