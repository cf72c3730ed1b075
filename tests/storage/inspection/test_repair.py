import asyncio
import errno
import re
import shutil
from pathlib import Path

import pytest

from harness.storage.batches import START_MS
from harness.storage.partition import change, written
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import LogDirectoryError, LogDirectoryLockedError
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import CLEANER
from kafkapy.storage.inspection.overlay import CUT, RENAMED, RecordingFiles, ShadowFiles
from kafkapy.storage.inspection.repair import Repaired, _NoTimers, repair
from kafkapy.testing.clock import ManualClock
from tests.storage.inspection.support import check, logs


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("sample")).parent


@pytest.fixture
def data(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "data"))


def _repair(data: Path, *, whole: bool = False, dry_run: bool = False) -> Repaired:
    config = LogConfig(segment_bytes=6000, index_interval_bytes=500)
    return repair([str(data)], ManualClock(START_MS), lambda _: config, whole=whole, dry_run=dry_run)


def _contents(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_a_repair_after_a_clean_stop_changes_nothing(data: Path) -> None:
    before = _contents(data)
    assert _repair(data, dry_run=True) == Repaired([], [])
    assert _repair(data) == Repaired([], [])
    assert _contents(data) == before


def test_a_torn_tail_is_cut_and_reported(data: Path) -> None:
    folder = data / "orders-0"
    last = logs(folder)[-1]
    size = last.stat().st_size
    with last.open("ab") as log:
        log.write(b"torn")
    before = _contents(data)
    planned = _repair(data, dry_run=True)
    assert _contents(data) == before
    done = _repair(data)
    assert planned.actions == done.actions
    assert (CUT, str(last), f"from {size + 4} to {size} bytes") in done.actions
    assert any("Cutting" in reason and str(last) in reason for reason in planned.reasons)
    assert [each for each in check(folder) if each.severity == "error"] == []
    assert _repair(data) == Repaired([], [])


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("0\nodd\n", None),
        ("0\n4\norders 0 3\norders 1 1\ngone 0 5\norders 2 999999\n", "0\n2\norders 0 3\norders 1 1\n"),
        ("0\n0\n", "0\n0\n"),
    ],
)
def test_wrong_offsets_are_removed_from_the_cleaners_checkpoint(data: Path, content: str, left: str | None) -> None:
    """Without a cleaner no other code would write the checkpoint again."""
    for number in (1, 2):
        shutil.copytree(data / "orders-0", data / f"orders-{number}")
    path = data / CLEANER
    path.write_text(content)
    planned = _repair(data, dry_run=True)
    done = _repair(data)
    assert planned.actions == done.actions
    assert (path.read_text() if path.exists() else None) == left
    assert any(str(path) in reason for reason in done.reasons) is (left != content)
    assert any(each.path == str(path) for each in done.actions) is (left != content)


def test_damage_in_an_old_segment_is_repaired_with_the_option_whole(data: Path) -> None:
    folder = data / "orders-0"
    first, later = logs(folder)[0], logs(folder)[1:]
    change(first, 1000, b"\xff\xff")
    assert _repair(data, dry_run=True) == Repaired([], [])
    before = _contents(data)
    planned = _repair(data, whole=True, dry_run=True)
    assert _contents(data) == before
    done = _repair(data, whole=True)
    assert [each[:2] for each in done.actions if each.kind == CUT] == [(CUT, str(first))]
    renamed = {each.path for each in done.actions if each.kind == RENAMED}
    assert {str(path) for path in later} <= renamed
    assert planned.actions == done.actions
    assert [each for each in check(folder) if each.severity == "error"] == []


def test_a_directory_in_use_is_refused(data: Path) -> None:
    held = Files().lock(str(data / ".lock"))
    before = _contents(data)
    for dry_run in (True, False):
        with pytest.raises(LogDirectoryLockedError):
            _repair(data, dry_run=dry_run)
    assert _contents(data) == before
    del held
    _repair(data)


def test_an_error_of_the_disk_is_reported(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, path: str) -> None:
        raise OSError(errno.EIO, "broken", path)

    monkeypatch.setattr(RecordingFiles, "create", refuse)
    monkeypatch.setattr(RecordingFiles, "remove", refuse)
    with pytest.raises(LogDirectoryError, match="broken"):
        _repair(data, whole=False)


def test_an_error_of_one_of_two_disks_is_reported(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    list_directory = RecordingFiles.list_directory

    def refuse(self: RecordingFiles, path: str) -> list[tuple[str, int]]:
        if path == str(other):
            raise OSError(errno.EIO, "broken", path)
        return list_directory(self, path)

    monkeypatch.setattr(RecordingFiles, "list_directory", refuse)
    with pytest.raises(LogDirectoryError, match=f"{other}: .*broken"):
        repair([str(data), str(other)], ManualClock(START_MS), lambda _: LogConfig(), whole=False, dry_run=False)


def test_a_dry_run_names_the_real_files(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "lost+found").mkdir()
    for dry_run in (True, False):
        with pytest.raises(LogDirectoryError, match=f"^{re.escape(str(data))}/lost.found is not a partition's folder"):
            _repair(data, dry_run=dry_run)
    (data / "lost+found").rmdir()

    def refuse(self: ShadowFiles, path: str) -> None:
        raise OSError(errno.EIO, "broken", path)

    monkeypatch.setattr(ShadowFiles, "lock", refuse)
    with pytest.raises(LogDirectoryError, match=f"^{re.escape(str(data))} can't be used as a data directory"):
        _repair(data, dry_run=True)


def test_timers_never_fire() -> None:
    clock = ManualClock(START_MS)
    still = _NoTimers(clock)
    fired: list[int] = []
    still.call_later(1, fired.append, 1).cancel()
    assert (still.now_ms(), still.monotonic_s()) == (clock.now_ms(), clock.monotonic_s())

    async def wait() -> None:
        waiting = asyncio.ensure_future(still.sleep(5))
        await asyncio.sleep(0)
        clock.advance(5)
        await waiting

    asyncio.run(wait())
    assert fired == []
