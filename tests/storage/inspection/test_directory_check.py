import shutil
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.files import Files
from kafkapy.storage.inspection.directory_check import check_directory, is_data_directory, list_logs
from kafkapy.storage.inspection.findings import ERROR, NOTE, WARNING, Findings
from kafkapy.storage.inspection.partition_check import Options
from kafkapy.types import TopicPartition
from tests.platform.lock_holder import held_by_another
from tests.storage.inspection.support import said


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def _check(data: Path) -> list[tuple[str, str, str]]:
    findings = Findings()
    check_directory(Files(), str(data), findings, Options())
    return [each for each in said(findings) if "compacted, or a file is missing" not in each[2]]


def test_a_directory_of_kafka(data: Path) -> None:
    assert _check(data) == []
    findings = Findings()
    extents = check_directory(Files(), str(data), findings, Options())
    assert extents[TopicPartition("seg", 0)].end_offset == 204
    assert list_logs(Files(), str(data)) == sorted(extents)
    assert is_data_directory(Files(), str(data))
    assert not is_data_directory(Files(), str(data / "seg-0"))


def test_an_unclean_stop_is_noted(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    assert _check(data) == [(NOTE, "data", "the last stop was not clean: the next start reads the ends of the logs")]


def test_a_directory_in_use_is_noted(data: Path) -> None:
    with held_by_another(data / ".lock"):
        (data / "recovery-point-offset-checkpoint").write_text("0\n1\nseg 0 999\n")
        found = _check(data)
    assert found == [(NOTE, "data", "a broker is using it: files that it is writing now may look unfinished")]


def test_a_copy_that_is_being_moved_here_is_noted_and_checked(data: Path) -> None:
    future = data / f"copied-0.{'0' * 32}-future"
    shutil.copytree(data / "seg-0", future)
    checkpoint = data / "recovery-point-offset-checkpoint"
    lines = [*checkpoint.read_text().splitlines()[2:], "copied 0 90"]
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    assert _check(data) == [
        (NOTE, future.name, "a copy of copied-0, which is being moved here; it goes on after the next start")
    ]


def test_foreign_folders_and_deleted_partitions(data: Path) -> None:
    (data / f"gone-0.{'0' * 32}-delete").mkdir()
    assert _check(data) == [
        (NOTE, f"gone-0.{'0' * 32}-delete", "a deleted partition; it is removed some time after the next start")
    ]
    (data / "stranger").mkdir()
    assert any(kind == ERROR and "no broker starts with it" in message for kind, _, message in _check(data))


@pytest.mark.parametrize(
    ("text", "severity", "message"),
    [
        (None, NOTE, "is missing: the next start writes it"),
        ("version=0\nbroker.id=1\n", WARNING, "lacks the broker's or the cluster's id"),
        ("version=9\nbroker.id=1\ncluster.id=x\n", ERROR, "version"),
    ],
)
def test_identities(data: Path, text: str | None, severity: str, message: str) -> None:
    path = data / "meta.properties"
    path.unlink() if text is None else path.write_text(text)
    ((kind, name, said_of_it),) = _check(data)
    assert (kind, name) == (severity, "meta.properties")
    assert message in said_of_it


def test_checkpoints(data: Path) -> None:
    (data / "replication-offset-checkpoint").write_text("0\n3\nseg 0 205\nnone 3 1\nrf1 0 -4\n")
    (data / "cleaner-offset-checkpoint").write_text("damaged")
    found = _check(data)
    assert (WARNING, "replication-offset-checkpoint", "seg-0 205: the log ends at 204") in found
    assert (NOTE, "replication-offset-checkpoint", "none-3 1: there is no such folder") in found
    assert any(name == "cleaner-offset-checkpoint" and kind == WARNING for kind, name, _ in found)


def test_records_missing_since_a_clean_stop_are_an_error(data: Path) -> None:
    (data / "recovery-point-offset-checkpoint").write_text("0\n2\nseg 0 205\nnone 3 1\n")
    found = _check(data)
    assert (ERROR, "recovery-point-offset-checkpoint", "seg-0 205: the log ends at 204") in found
    assert (ERROR, "recovery-point-offset-checkpoint", "none-3 1: there is no such folder") in found


def test_folders_in_the_place_of_files(data: Path) -> None:
    for name in ("meta.properties", "replication-offset-checkpoint"):
        (data / name).unlink()
        (data / name).mkdir()
    found = _check(data)
    assert any(kind == ERROR and "meta.properties" in message for kind, _, message in found)
    assert any(kind == WARNING and "not an offset checkpoint" in message for kind, _, message in found)
