"""Faults of an index, found entry by entry; ``test_partition_check`` checks whole partitions."""

from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch
from harness.storage.partition import OFFSET_ENTRY, TIME_ENTRY
from kafkapy.platform.files import Files
from kafkapy.storage.inspection.findings import ERROR, Findings
from kafkapy.storage.inspection.index_checks import REBUILT, OffsetIndexCheck, TimeIndexCheck
from kafkapy.storage.inspection.log_scan import LogScan
from tests.storage.inspection.support import check, said

SIZE = len(batch(2))


def _log(path: Path) -> LogScan:
    """Five batches of two records, ten ms apart, at offsets 100 to 109."""
    content = b"".join(bytes(batch(2, base_offset=100 + 2 * n, timestamp=START_MS + 10 * n)) for n in range(5))
    file = path / "00000000000000000100.log"
    file.write_bytes(content)
    return LogScan(Files(), str(file))


def _offsets(path: Path, *entries: tuple[int, int], tail: bytes = b"", is_settled: bool = True) -> Findings:
    file = path / "00000000000000000100.index"
    file.write_bytes(b"".join(OFFSET_ENTRY.pack(*each) for each in entries) + tail)
    found = Findings()
    checked = OffsetIndexCheck(Files(), str(file), 100, found, is_settled=is_settled)
    scan = _log(path)
    for scanned in scan:
        checked.batch(scanned)
    checked.finish(scan.position)
    return found


def test_right_offsets(tmp_path: Path) -> None:
    assert _offsets(tmp_path, (3, SIZE), (9, 4 * SIZE)) == []
    assert _offsets(tmp_path, (5, SIZE)) == []  # an append of two batches: its last offset, its first position
    (note,) = _offsets(tmp_path, (3, SIZE), tail=bytes(80))
    assert note.message == "80 bytes of zeros follow the entries, as after a crash of Apache Kafka"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(4, SIZE)], f"entry (104, {SIZE}): no batch ends with this offset"),
        ([(3, SIZE + 1)], f"entry (103, {SIZE + 1}) points between batches"),
        ([(3, SIZE), (3, 2 * SIZE)], f"entry (103, {2 * SIZE}) does not follow (103, {SIZE})"),
        ([(5, 2 * SIZE), (7, SIZE)], f"entry (107, {SIZE}) does not follow (105, {2 * SIZE})"),
        ([(9, 9 * SIZE)], f"entry (109, {9 * SIZE}) points beyond the {5 * SIZE} bytes of batches"),
        ([(1, 4 * SIZE)], f"entry (101, {4 * SIZE}): no batch ends with this offset"),
    ],
)
def test_wrong_offsets(tmp_path: Path, entries: list[tuple[int, int]], message: str) -> None:
    (found,) = _offsets(tmp_path, *entries)
    assert (found.severity, found.message) == (ERROR, message)
    (warned,) = _offsets(tmp_path, *entries, is_settled=False)
    assert (warned.severity, warned.message) == ("warning", message + REBUILT)


def test_an_index_of_broken_size(tmp_path: Path) -> None:
    (found,) = _offsets(tmp_path, (3, SIZE), tail=b"abc")
    assert (found.severity, found.message) == (ERROR, "11 bytes are not whole entries of 8")


def _times(path: Path, *entries: tuple[int, int], is_settled: bool = True) -> Findings:
    file = path / "00000000000000000100.timeindex"
    file.write_bytes(b"".join(TIME_ENTRY.pack(START_MS + ms, offset) for ms, offset in entries))
    found = Findings()
    checked = TimeIndexCheck(Files(), str(file), 100, found, is_settled=is_settled)
    for scanned in _log(path):
        checked.batch(scanned)
    checked.finish()
    return found


def test_right_times(tmp_path: Path) -> None:
    assert _times(tmp_path, (11, 3), (41, 9)) == []
    assert _times(tmp_path, (11, 3), is_settled=False) == []
    assert _times(tmp_path, is_settled=False) == []


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(12, 3), (41, 9)], f"offset 103 has timestamp {START_MS + 11}, the index says {START_MS + 12}"),
        ([(11, 3), (11, 4), (41, 9)], f"entry ({START_MS + 11}, 104) does not follow ({START_MS + 11}, 103)"),
        ([(41, 9), (51, 10)], f"entry ({START_MS + 51}, 110) names an offset that is not there"),
    ],
)
def test_wrong_times(tmp_path: Path, entries: list[tuple[int, int]], message: str) -> None:
    (found,) = _times(tmp_path, *entries)
    assert (found.severity, found.message) == (ERROR, message)
    (warned,) = _times(tmp_path, *entries, is_settled=False)
    assert (warned.severity, warned.message) == ("warning", message + REBUILT)


def test_a_closed_segments_index_must_have_its_largest_timestamp(tmp_path: Path) -> None:
    (found,) = _times(tmp_path, (11, 3))
    assert found.message == f"the last entry lacks the segment's largest timestamp, {START_MS + 41}"


def test_a_timestamp_that_is_not_the_largest(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(
        batch(1, timestamp=START_MS + 50) + batch(1, base_offset=1, timestamp=START_MS)
    )
    (folder / "00000000000000000000.index").write_bytes(b"")
    (folder / "00000000000000000000.timeindex").write_bytes(TIME_ENTRY.pack(START_MS, 1))
    assert (
        ERROR,
        "00000000000000000000.timeindex",
        f"entry ({START_MS}, 1): timestamp {START_MS + 50} came before",
    ) in (said(check(folder)))
