"""Damage of many kinds: ``kafka-dump-log`` and ``kafkapy log verify`` find something wrong in the same files."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.clients.java_tools.tools import Tools
from harness.storage.batches import batch
from harness.storage.partition import OFFSET_ENTRY, TIME_ENTRY, change, written
from kafkapy.platform.files import Files
from kafkapy.storage.inspection.findings import ERROR, WARNING, Findings
from kafkapy.storage.inspection.partition_check import Options, check_file

pytestmark = pytest.mark.java

COMPLAINTS = re.compile(
    r"Mismatches in|isvalid: false|invalid bytes|not found|Exception|corrupt|non-consecutive|out of order|not sorted",
    re.IGNORECASE,
)
NO_TAIL = 60


def _segment(folder: Path, suffix: str) -> Path:
    """A closed segment's file with entries, if it can be not the first one's."""
    found = [path for path in sorted(folder.glob(f"*{suffix}"))[:-1] if path.stat().st_size]
    return found[min(1, len(found) - 1)]


def _flip(path: Path) -> None:
    change(path, path.stat().st_size // 2, bytes([path.read_bytes()[path.stat().st_size // 2] ^ 0xFF]))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _length(path: Path) -> None:
    change(path, 8, b"\0\0\0\3")


def _grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(batch(1))[:NO_TAIL])


def _nothing(path: Path) -> None:
    assert path.stat().st_size


def _offset(path: Path) -> None:
    relative, position = OFFSET_ENTRY.unpack_from(path.read_bytes())
    change(path, 0, OFFSET_ENTRY.pack(relative - 1, position))


def _position(path: Path) -> None:
    relative, position = OFFSET_ENTRY.unpack_from(path.read_bytes())
    change(path, 0, OFFSET_ENTRY.pack(relative, position + 1))


def _timestamp(path: Path) -> None:
    timestamp, relative = TIME_ENTRY.unpack_from(path.read_bytes())
    change(path, 0, TIME_ENTRY.pack(timestamp + 1, relative))


def _beyond(path: Path) -> None:
    timestamp, _ = TIME_ENTRY.unpack_from(path.read_bytes(), path.stat().st_size - TIME_ENTRY.size)
    change(path, -TIME_ENTRY.size, TIME_ENTRY.pack(timestamp, 1_000_000))


def _version(path: Path) -> None:
    change(path, 0, b"\0\7")


def _unordered(path: Path) -> None:
    """The transaction begins after it has ended, and no marker is where the entry says."""
    change(path, 2 + 8, (10**6).to_bytes(8, "big"))


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    (".log", _nothing), (".log", _flip), (".log", _cut), (".log", _length), (".log", _grow),
    (".index", _nothing), (".index", _offset), (".index", _position), (".index", _cut),
    (".timeindex", _nothing), (".timeindex", _timestamp), (".timeindex", _beyond), (".timeindex", _cut),
    (".txnindex", _nothing),
    (".snapshot", _nothing), (".snapshot", _flip), (".snapshot", _cut),
]  # fmt: skip


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("sample"))


def _dump_complains(tools: Tools, path: Path) -> str:
    runs: list[tuple[str, ...]] = [("--deep-iteration",)] if path.suffix == ".log" else [(), ("--index-sanity-check",)]
    if path.suffix == ".snapshot":
        runs = [()]
    for options in runs:
        said = tools.attempt("DumpLogSegments", "--files", str(path), *options)
        found = COMPLAINTS.search(said.all)
        if said.code or found:
            return found[0] if found else f"exit code {said.code}"
    return ""


@pytest.mark.parametrize(("suffix", "damage"), DAMAGE, ids=[f"{suffix}{each.__name__}" for suffix, each in DAMAGE])
def test_dump_log_and_verify_agree(
    kafka_tools: Tools, sample: Path, tmp_path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(sample, tmp_path / sample.name))
    path = _segment(folder, suffix)
    damage(path)
    findings = Findings()
    check_file(Files(), str(path), findings, Options())
    ours = [each.message for each in findings if each.severity in (ERROR, WARNING)]
    theirs = _dump_complains(kafka_tools, path)
    assert bool(ours) == bool(theirs), (ours, theirs)
    assert bool(ours) == (damage is not _nothing)


@pytest.mark.parametrize("damage", [_version, _cut, _unordered])
def test_only_verify_finds_damage_to_aborted_transactions(
    kafka_tools: Tools, sample: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The tool prints what entries there are, the version always as 0, and compares them with nothing."""
    folder = Path(shutil.copytree(sample, tmp_path / sample.name))
    path = _segment(folder, ".txnindex")
    damage(path)
    findings = Findings()
    check_file(Files(), str(path), findings, Options())
    assert {each.severity for each in findings} == {ERROR}
    assert _dump_complains(kafka_tools, path) == ""
