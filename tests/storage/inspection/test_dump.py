from pathlib import Path
from typing import Any

import pytest

from harness.storage.batches import GOLDEN, START_MS, batch
from kafkapy.platform.files import Files
from kafkapy.records.record import Record, encode_batch, encode_legacy
from kafkapy.storage.inspection.dump import UnknownFileError, base_of, batches, entries, kind_of, records
from kafkapy.storage.inspection.log_scan import LogScan

FILES = Files()
RF3 = GOLDEN / "rf3-0"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000000000000000007.log", ".log"),
        ("00000000000000000007.log.deleted", ".log"),
        ("00000000000000000007.log.3.deleted", ".log"),
        ("00000000000000000007.timeindex.swap", ".timeindex"),
        ("00000000000000000007.index.cleaned", ".index"),
        ("leader-epoch-checkpoint", "leader-epoch-checkpoint"),
        ("00000000000000000007", "00000000000000000007"),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    assert kind_of(f"/d/t-0/{name}") == kind


def _entries(path: Path) -> list[dict[str, Any]]:
    return list(entries(FILES, str(path)))


def test_every_file_of_kafka() -> None:
    assert base_of("/d/00000000000000000075.log") == 75
    assert list(entries(FILES, str(GOLDEN / "seg-0" / "00000000000000000075.timeindex")))
    assert list(entries(FILES, str(GOLDEN / "seg-0" / "00000000000000000075.index")))
    assert _entries(GOLDEN / "seg-0" / "00000000000000000183.timeindex")[0] == {
        "timestamp": 1795249354652,
        "offset": 188,
    }
    assert _entries(GOLDEN / "seg-0" / "00000000000000000183.index")[0]["position"] == 1073
    assert _entries(RF3 / "00000000000000000000.txnindex")[0] == {
        "version": 0, "producer_id": 4000, "first_offset": 54, "last_offset": 57, "last_stable_offset": 58,
    }  # fmt: skip
    producers = list(entries(FILES, str(RF3 / "00000000000000000062.snapshot")))
    assert [each["producer_id"] for each in producers] == [4000, 3000]
    assert [each["last_offset"] for each in producers] == [-1, -1]
    assert list(entries(FILES, str(GOLDEN / "log-start-offset-checkpoint"))) == [
        {"topic": "seg", "partition": 0, "offset": 80}
    ]
    assert _entries(RF3 / "leader-epoch-checkpoint")[0] == {"epoch": 0, "start_offset": 0}
    assert {"key": "broker.id", "value": "1"} in list(entries(FILES, str(GOLDEN / "meta.properties")))


def test_a_producer_with_a_last_batch(tmp_path: Path) -> None:
    found = [row for path in sorted(GOLDEN.glob("*/*.snapshot")) for row in entries(FILES, str(path))]
    assert any(row["last_offset"] >= 0 and row["last_sequence"] >= 0 for row in found)


def test_an_unknown_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownFileError, match=r"odd is no file.*\.log, \.index, "):
        entries(FILES, str(tmp_path / "odd"))


def test_batches_of_kafka() -> None:
    scan = LogScan(FILES, str(RF3 / "00000000000000000000.log"))
    rows = [row for row, _ in batches(scan, 51)]
    assert [row["base_offset"] for row in rows][:3] == [50, 53, 54]
    assert [row["kind"] for row in rows] == [
        "transactional", "commit", "transactional", "abort", "transactional", "abort", "transactional", "abort"
    ]  # fmt: skip
    assert {row["crc"] for row in rows} == {"ok"}
    assert scan.problem is None


def _rows(path: Path, content: bytes | bytearray) -> list[dict[str, object]]:
    file = path / f"{0:020d}.log"
    file.write_bytes(content)
    return [row for row, _ in batches(LogScan(FILES, str(file)))]


def test_message_sets_have_no_producers(tmp_path: Path) -> None:
    (row,) = _rows(tmp_path, encode_legacy([Record(b"k", b"v", START_MS, offset=3)], 1))
    assert (row["base_offset"], row["magic"], "producer_id" in row) == (3, 1, False)


def test_kinds_of_batches(tmp_path: Path) -> None:
    (plain,) = _rows(tmp_path, batch(2, compression=1))
    assert (plain["kind"], plain["compression"], plain["timestamp_type"]) == ("data", "gzip", "CreateTime")
    unknown = encode_batch([Record(b"\0\0\0\x09", b"", START_MS)], is_control=True)
    (control,) = _rows(tmp_path, unknown)
    assert control["kind"] == "control 9"
    damaged = bytearray(unknown)
    damaged[-1] ^= 1
    (broken,) = _rows(tmp_path, damaged)
    assert (broken["kind"], broken["crc"]) == ("control", "WRONG")
    odd = bytearray(batch(1))
    odd[22] |= 7
    assert _rows(tmp_path, odd)[0]["compression"] == "codec 7"


def test_records_of_a_batch(tmp_path: Path) -> None:
    file = tmp_path / f"{0:020d}.log"
    file.write_bytes(batch(2))
    (scanned,) = LogScan(FILES, str(file))
    assert [record.offset for record in records(scanned)] == [0, 1]
    with pytest.raises(UnknownFileError, match="too large to be shown"):
        records(scanned._replace(content=None))
