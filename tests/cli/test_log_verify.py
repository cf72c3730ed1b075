"""``kafkapy log verify``: exit codes, table and JSON; ``tests/storage/inspection`` tests the findings."""

import json
import os
import shutil
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from tests.cli.conftest import Run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def test_undamaged_files_have_no_findings(run: Run, data: Path) -> None:
    shown = run("log", "verify", f"{data}")
    assert (shown.code, shown.err) == (0, "")
    assert "39,972 bytes of batches checked: 0 errors, 0 warnings" in shown.out
    assert run("log", "verify", f"{data}/rf3-0", f"{data}/seg-0/").code == 0
    found = json.loads(run("log", "verify", f"{data}/seg-0/00000000000000000183.log", "--json").out)
    assert found == {"bytes": 3020, "findings": [], "errors": 0, "warnings": 0} or found["bytes"] > 0
    assert found["findings"] == []


def test_errors(run: Run, data: Path) -> None:
    with (data / "rf3-0" / "00000000000000000000.log").open("r+b") as log:
        log.seek(800)
        log.write(b"damage")
    for words in (["--json"], ["--json", "--headers-only"]):
        shown = run("log", "verify", f"{data}", *words)
        assert shown.code == 1
        (error,) = [each for each in json.loads(shown.out)["findings"] if each["severity"] == "error"]
        assert (error["position"], error["offset"], error["message"]) == (691, 30, "the batch's CRC is wrong")
    table = run("log", "verify", f"{data}/rf3-0").out
    assert table.startswith("problems")
    assert "the batch's CRC is wrong" in table
    assert "checked: 1 error, 0 warnings" in table


def test_problems_that_a_start_repairs_are_warnings(run: Run, data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    with (data / "rf3-0" / "00000000000000000000.log").open("ab") as log:
        log.write(b"torn")
    for path in (data, data / "rf3-0"):
        assert run("log", "verify", f"{path}").code == 3


def test_the_bytes_read_for_one_file_are_counted(run: Run, data: Path) -> None:
    log = (data / "rf3-0" / "00000000000000000000.log").stat().st_size
    for name in ("00000000000000000000.index", "00000000000000000000.log", "leader-epoch-checkpoint"):
        assert json.loads(run("log", "verify", f"{data}/rf3-0/{name}", "--json").out)["bytes"] == log


@pytest.mark.parametrize("name", ["meta.properties", "recovery-point-offset-checkpoint"])
def test_other_files_than_a_partitions_are_refused(run: Run, data: Path, name: str) -> None:
    refused = run("log", "verify", f"{data}/{name}")
    assert refused.code == 1
    assert refused.err.endswith("is not a file of a partition's log: to check a checkpoint, give the data directory\n")


def test_a_file_by_its_bare_name_and_one_that_is_missing(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data / "rf3-0")
    assert run("log", "verify", "00000000000000000000.index").code == 0
    assert run("log", "verify", os.curdir).code == 0
    missing = run("log", "verify", "00000000000000000009.log")
    assert missing.code == 1
    assert missing.err == "kafkapy: 00000000000000000009.log: No such file or directory\n"
