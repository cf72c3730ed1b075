"""``kafkapy log repair``: confirmations and output; ``tests/storage/inspection`` tests the repair itself."""

import json
import shutil
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.cli import log_repair
from kafkapy.metadata.exchange.metadata_changes import NEW, NodeChange
from kafkapy.metadata.exchange.metadata_file import metadata_path, write_file_tree
from kafkapy.metadata.exchange.metadata_tree import MetadataTree
from kafkapy.metadata.znodes import ConfigZNode
from kafkapy.platform.files import Files
from kafkapy.testing.clock import ManualClock
from tests.cli.conftest import Run
from tests.metadata.metadata_samples import NODES

CAPTURED_MS = 1_795_251_600_000
"""When the directory was captured, in milliseconds: a week later its producers expire, and a repair drops them."""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a broker that was killed while it wrote to ``rf3``."""
    monkeypatch.setattr(log_repair, "SystemClock", lambda: ManualClock(CAPTURED_MS))
    path = Path(shutil.copytree(GOLDEN, tmp_path / "data"))
    (path / ".kafka_cleanshutdown").unlink()
    with (path / "rf3-0" / "00000000000000000000.log").open("ab") as log:
        log.write(b"torn")
    return path


def _size(data: Path) -> int:
    return (data / "rf3-0" / "00000000000000000000.log").stat().st_size


def test_a_dry_run_shows_the_repair_and_changes_no_file(run: Run, data: Path) -> None:
    size = _size(data)
    shown = run("log", "repair", f"{data}", "--dry-run")
    assert shown.code == 0
    assert f"from {size} to {size - 4} bytes" in shown.out
    assert "would change 18 files; logs to cut: 1" in shown.out
    assert _size(data) == size
    listed = json.loads(run("log", "repair", f"{data}", "--dry-run", "--json").out)
    assert [each["path"] for each in listed["actions"] if each["kind"] == "cut"] == [
        f"{data}/rf3-0/00000000000000000000.log"
    ]
    assert any("Cutting" in reason for reason in listed["reasons"])


def test_a_cut_needs_a_confirmation(run: Run, data: Path) -> None:
    size = _size(data)
    refused = run("log", "repair", f"{data}", stdin=b"n\n")
    assert refused.code == 1
    assert _size(data) == size
    done = run("log", "repair", f"{data}", stdin=b"y\n")
    assert done.code == 0
    assert "changed 18 files; logs cut: 1" in done.out
    assert _size(data) == size - 4
    again = run("log", "repair", f"{data}", "--whole", "--json")
    assert [each for each in json.loads(again.out)["actions"] if each["kind"] == "cut"] == []
    assert run("log", "verify", f"{data}").code == 0


def test_the_question_is_not_part_of_the_json_output(run: Run, data: Path) -> None:
    done = run("log", "repair", f"{data}", "--json", stdin=b"y\n")
    assert json.loads(done.out)["dry_run"] is False
    assert "would be" in done.err
    assert "Do that?" in done.err


def test_the_removal_of_a_segment_needs_a_confirmation(run: Run, data: Path) -> None:
    """The log start offset is beyond the log end offset, so that no segment stays."""
    (data / "rf3-0" / "00000000000000000000.log").write_bytes(b"")
    (data / "log-start-offset-checkpoint").write_text("0\n1\nseg 0 1000\n")
    before = {path: path.read_bytes() for path in (data / "seg-0").iterdir()}
    refused = run("log", "repair", f"{data}", stdin=b"n\n")
    assert refused.code == 1
    assert "Do that?" in refused.err
    assert {path: path.read_bytes() for path in (data / "seg-0").iterdir()} == before


def test_yes_confirms_the_repair(run: Run, data: Path) -> None:
    assert run("log", "repair", f"{data}", "--yes").code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("data/rf3-0", "a partition's folder; give the data directory around it"),
        ("data/meta.properties", "not a directory"),
        ("home", "no data directory: it has neither a broker's files nor partitions"),
    ],
)
def test_other_directories_are_refused_and_not_changed(
    run: Run, data: Path, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "home" / "dbus-1").mkdir(parents=True)  # its name looks like a partition's
    before = sorted(tmp_path.rglob("*"))
    for options in ([], ["--dry-run"]):
        refused = run("log", "repair", f"{tmp_path}/{name}", *options)
        assert refused.code == 1
        assert said in refused.err
        assert refused.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_invalid_settings_of_a_topic_are_reported(run: Run, data: Path) -> None:
    config = ConfigZNode.encode({"retention.ms": "soon"})
    nodes = {**NODES, "/config/topics/rf3": config}
    write_file_tree(metadata_path(str(data)), MetadataTree(nodes), [NodeChange(NEW, path) for path in nodes], 1)
    refused = run("log", "repair", f"{data}", "--yes")
    assert (refused.code, refused.err) == (
        1,
        "kafkapy: Invalid value soon for configuration retention.ms: Not a number of type LONG\n",
    )


def test_a_directory_with_partitions_alone_is_a_data_directory(run: Run, data: Path) -> None:
    for path in data.iterdir():
        if path.is_file():
            path.unlink()
    assert run("log", "repair", f"{data}", "--yes").code == 0
    assert (data / "recovery-point-offset-checkpoint").exists()


def test_invalid_arguments_are_reported_in_one_line(run: Run, data: Path, tmp_path: Path) -> None:
    nowhere = run("log", "repair", f"{tmp_path}/nowhere")
    assert nowhere.err == f"kafkapy: data directory {tmp_path}/nowhere does not exist\n"
    held = Files().lock(f"{data}/.lock")
    locked = run("log", "repair", f"{data}")
    assert (locked.code, "is in use" in locked.err) == (1, True)
    del held
    (data / "kafkapy-metadata.sqlite").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    broken = run("log", "repair", f"{data}")
    assert "No copy of the cluster's metadata can be used" in broken.err
    (data / "kafkapy-metadata.sqlite").unlink()
    (data / "rf3-0").chmod(0)
    (data / "stranger").mkdir()
    assert run("log", "repair", f"{data}").code == 1
    (data / "rf3-0").chmod(0o755)
