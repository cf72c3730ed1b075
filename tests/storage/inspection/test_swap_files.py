from pathlib import Path

import pytest

from harness.storage.batches import batch
from harness.storage.partition import change
from kafkapy.platform.files import Files
from kafkapy.storage.inspection.findings import ERROR, NOTE, Findings
from kafkapy.storage.inspection.partition_check import check_swap
from tests.storage.inspection.support import check


def _swap(folder: Path, *batches: bytes | bytearray) -> Path:
    path = folder / f"{0:020d}.log.swap"
    path.write_bytes(b"".join(batches))
    return path


def _found(path: Path) -> Findings:
    findings = Findings()
    check_swap(Files(), str(path), findings)
    return findings


def test_a_whole_swap_file_may_have_gaps(tmp_path: Path) -> None:
    assert _found(_swap(tmp_path, batch(2), batch(1, base_offset=9))) == []


def test_a_flipped_bit(tmp_path: Path) -> None:
    path = _swap(tmp_path, batch(2), batch(1, base_offset=9))
    change(path, -1, b"\xff")
    (found,) = _found(path)
    assert (found.severity, found.offset) == (ERROR, 9)
    assert "CRC is wrong; the next start replaces undamaged files" in found.message


def test_offsets_that_go_back(tmp_path: Path) -> None:
    (found,) = _found(_swap(tmp_path, batch(2, base_offset=5), batch(1)))
    assert found.message.startswith("offset 0, at least 7 was expected")


def test_an_end_that_is_no_batch(tmp_path: Path) -> None:
    (found,) = _found(_swap(tmp_path, batch(2), b"torn"))
    assert (found.severity, found.position) == (ERROR, len(batch(2)))
    assert found.message.startswith("4 bytes are left")


@pytest.mark.parametrize(("content", "worst"), [(bytes(batch(2)), NOTE), (b"torn", ERROR)])
def test_a_partitions_check_includes_swap_files(tmp_path: Path, content: bytes, worst: str) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    _swap(folder, content)
    assert check(folder)[-1].severity == worst
