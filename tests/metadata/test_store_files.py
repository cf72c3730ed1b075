"""Damage to either copy of the metadata, at every place."""

import errno
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkapy.metadata.journal import SPARE_BYTES, Content, MetadataJournal, Row
from kafkapy.metadata.sqlite_file import SqliteFile
from kafkapy.metadata.store import StoreFileError
from kafkapy.metadata.store_files import RESERVE_SIZE, RESERVE_SLICE, StoreFiles, is_stored, journal_path
from kafkapy.platform.files import Files
from tests.metadata.test_sqlite_file import first_format

NAME = "kafkapy-metadata.sqlite"
JOURNAL = "kafkapy-metadata.journal"
RESERVE = "kafkapy-metadata.reserve"
ID: Row = ("/cluster/id", b'{"version":"1","id":"one"}', 1, 1, 0, 10, 0)
OTHER_ID: Row = ("/cluster/id", b'{"version":"1","id":"other"}', 1, 1, 0, 10, 0)
TOPIC: Row = ("/brokers/topics/t", b'{"version":2,"partitions":{"0":[0]}}', 2, 9, 3, 11, 0)
ALL = Content(12, {ID[0]: ID, TOPIC[0]: TOPIC})


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Two copies after a clean stop."""
    return _written(tmp_path / "stopped", close=True)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Two copies as a killed process leaves them: the database is in its WAL."""
    return _written(tmp_path / "killed", close=False)


def _written(directory: Path, *, close: bool) -> Path:
    running = directory.with_suffix(".running")
    running.mkdir()
    files = StoreFiles(str(running / NAME))
    assert files.load() == (0, {})
    files.write(5, [ID, ("/gone", b"", 3, 3, 0, 10, 0)], [])
    files.write(9, [TOPIC], [])
    files.write(12, [], ["/gone"])
    if close:
        files.close()
    shutil.copytree(running, directory)
    files.close()
    return directory


def _load(directory: Path) -> Content:
    files = StoreFiles(str(directory / NAME))
    try:
        return files.load()
    finally:
        files.close()


def _copies(directory: Path) -> list[Content | None]:
    database = SqliteFile(str(directory / NAME))
    found = [database.load(), MetadataJournal(files=StoreFiles("")._files, path=str(directory / JOURNAL)).load()]
    database.close()
    return found


def test_both_files_have_all_nodes_and_no_other_file_exists(stopped: Path, killed: Path) -> None:
    assert sorted(each.name for each in stopped.iterdir()) == [JOURNAL, RESERVE, NAME]
    assert sorted(each.name for each in killed.iterdir()) == [JOURNAL, RESERVE, NAME, NAME + "-wal"]
    for directory in (stopped, killed):
        assert _load(directory) == ALL
        assert _copies(directory) == [ALL, ALL]


def test_a_damaged_byte_in_one_file_loses_nothing(stopped: Path, killed: Path, tmp_path: Path) -> None:
    trial = tmp_path / "trial"
    for directory in (stopped, killed):
        (directory / RESERVE).unlink()  # it would be copied each time
    for directory, name, step in (
        (stopped, NAME, 61),
        (stopped, JOURNAL, 7),
        (killed, NAME, 61),
        (killed, NAME + "-wal", 211),
        (killed, JOURNAL, 7),
    ):
        content = (directory / name).read_bytes()
        for at in (*range(0, 100, 3), *range(100, len(content), step)):
            shutil.rmtree(trial, ignore_errors=True)
            shutil.copytree(directory, trial)
            (trial / name).write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
            assert _load(trial) == ALL, (name, at)
            assert _load(trial) == ALL, (name, at)


def _missing(path: Path) -> None:
    path.unlink()


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [_missing, _emptied, _cut, _zeros, _folder]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [NAME, NAME + "-wal", JOURNAL])
def test_one_lost_file_loses_nothing(killed: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(killed / name)
    assert _load(killed) == ALL
    assert _copies(killed) == [ALL, ALL]


@pytest.mark.parametrize("damage", [_emptied, _zeros])
def test_without_a_good_copy_the_files_are_named_and_left(stopped: Path, damage: Callable[[Path], None]) -> None:
    damage(stopped / JOURNAL)
    (stopped / NAME).write_bytes(b"no database at all, but long enough to be looked at" * 40)
    before = {each.name: each.read_bytes() for each in stopped.iterdir()}
    with pytest.raises(StoreFileError) as refused:
        _load(stopped)
    for part in (f"{stopped / NAME} is damaged", str(stopped / JOURNAL), "Restore both from a backup"):
        assert part in str(refused.value)
    assert {each.name: each.read_bytes() for each in stopped.iterdir()} == before


@pytest.mark.parametrize("missing", [NAME, JOURNAL])
def test_a_missing_file_beside_a_damaged_one_is_refused(stopped: Path, missing: str) -> None:
    (stopped / missing).unlink()
    other = JOURNAL if missing == NAME else NAME
    (stopped / other).write_bytes(b"x" * 2000)
    with pytest.raises(StoreFileError, match=f"{missing} is missing"):
        _load(stopped)


def test_a_folder_in_the_place_of_a_file_is_not_changed(stopped: Path) -> None:
    (stopped / JOURNAL).unlink()
    (stopped / JOURNAL).mkdir()
    (stopped / JOURNAL / "mine").touch()
    with pytest.raises(StoreFileError, match=f"{JOURNAL} is a folder in the place of a file, and not empty"):
        _load(stopped)
    assert (stopped / JOURNAL / "mine").exists()


def test_a_damaged_database_is_kept_under_another_name(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    (killed / (NAME + "-wal")).unlink()
    (killed / NAME).write_bytes(b"x" * 5000)
    assert _load(killed) == ALL
    assert (killed / (NAME + ".damaged")).read_bytes() == b"x" * 5000
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert said.startswith(f"{killed / NAME} is damaged")
    assert said.endswith(f"It is written again from {killed / JOURNAL}")


def test_damage_in_both_files_is_logged(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    (killed / (NAME + "-wal")).unlink()
    journal = (killed / JOURNAL).read_bytes()
    (killed / JOURNAL).write_bytes(journal[:-3] + b"xyz")
    assert _load(killed) == (9, {ID[0]: ID, TOPIC[0]: TOPIC, "/gone": ("/gone", b"", 3, 3, 0, 10, 0)})
    assert "metadata changes after number 9 are lost" in caplog.text
    caplog.clear()
    assert _load(killed).zxid == 9
    assert caplog.records == []


def test_a_commit_that_only_the_database_has_counts(stopped: Path) -> None:
    database = SqliteFile(str(stopped / NAME))
    database.load()
    database.write(13, [], [TOPIC[0]])
    database.close()
    after = Content(13, {ID[0]: ID})
    assert _load(stopped) == after
    assert _copies(stopped) == [after, after]


def test_two_clusters_are_not_mixed(stopped: Path) -> None:
    database = SqliteFile(str(stopped / NAME))
    database.load()
    database.write(99, [OTHER_ID], [])
    database.close()
    with pytest.raises(StoreFileError, match="different clusters, other and one"):
        _load(stopped)


def test_files_of_the_first_format_get_a_journal_and_checksums(tmp_path: Path) -> None:
    first_format(tmp_path / NAME, 12, [ID, TOPIC])
    assert _load(tmp_path) == ALL
    assert _copies(tmp_path) == [ALL, ALL]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def refused(*_: object, **__: object) -> None:
        raise StoreFileError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(MetadataJournal, "replace", no_room)
        patched.setattr(SqliteFile, "_commit", refused)
        yield patched


@pytest.mark.parametrize("damage", [*DAMAGES, "format"])
@pytest.mark.parametrize("name", [NAME, JOURNAL])
def test_a_repair_that_the_disk_refuses_is_made_with_the_next_change(
    stopped: Path, refusing: pytest.MonkeyPatch, name: str, damage: Callable[[Path], None] | str
) -> None:
    if callable(damage):
        damage(stopped / name)
    else:
        for each in stopped.iterdir():
            each.unlink()
        first_format(stopped / NAME, 12, [ID, TOPIC])
    files = StoreFiles(str(stopped / NAME))
    assert files.load() == ALL
    with pytest.raises(StoreFileError):
        files.write(13, [("/new", None, 13, 13, 0, 1, 0)], [])
    refusing.undo()
    files.write(13, [("/new", None, 13, 13, 0, 1, 0)], [TOPIC[0], "/unknown"])
    files.write(14, [ID], [])
    files.close()
    after = Content(14, {ID[0]: ID, "/new": ("/new", None, 13, 13, 0, 1, 0)})
    assert _copies(stopped) == [after, after]
    assert _load(stopped) == after


def test_a_journal_that_lacks_a_commit_is_not_continued(stopped: Path, refusing: pytest.MonkeyPatch) -> None:
    """The process ended between the two writes of a commit, and the disk refuses the repair at the next start."""
    refusing.undo()
    database = SqliteFile(str(stopped / NAME))
    database.load()
    new = ("/new", None, 13, 13, 0, 1, 0)
    database.write(13, [new], [])
    database.close()
    with refusing.context() as patched:

        def no_room(*_: object) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(MetadataJournal, "replace", no_room)
        files = StoreFiles(str(stopped / NAME))
        assert files.load().zxid == 13
    files.write(14, [("/newer", None, 14, 14, 0, 1, 0)], [])
    files.close()
    assert {"/new", "/newer"} < _load(stopped).rows.keys()
    assert _copies(stopped)[0] == _copies(stopped)[1]


def test_a_large_journal_is_written_again_when_there_is_room(
    stopped: Path, refusing: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusing.undo()
    files = StoreFiles(str(stopped / NAME))
    files.load()
    big: Row = ("/big", b"x" * 100_000, 13, 13, 0, 1, 0)
    with pytest.MonkeyPatch.context() as full:

        def no_room(*_: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr("kafkapy.platform.files.Files.replace", no_room)
        while not caplog.records:
            files.write(13, [big], [])
        size = (stopped / JOURNAL).stat().st_size
        files.write(14, [big], [])
        assert len(caplog.records) == 1
    assert size > SPARE_BYTES
    while (stopped / JOURNAL).stat().st_size > size:
        files.write(15, [big], [])
    files.close()
    assert _copies(stopped)[0] == _copies(stopped)[1]


def test_a_full_disk_has_the_reserve_for_further_commits(
    stopped: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each commit needs two slices of the reserve, until it is used up; at last there is space again."""
    files = StoreFiles(str(stopped / NAME))
    files.load()
    assert files.has_space
    assert (stopped / RESERVE).stat().st_size == RESERVE_SIZE
    commit = SqliteFile._commit
    used = 0

    def reserved() -> int:
        return (stopped / RESERVE).stat().st_size

    def full_unless_released(database: SqliteFile, *arguments: Any, **options: Any) -> None:
        if used - reserved() < 2 * RESERVE_SLICE:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise StoreFileError("full") from error
        commit(database, *arguments, **options)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteFile, "_commit", full_unless_released)
        patched.setattr(Files, "allocate", full)
        for zxid in range(13, 13 + RESERVE_SIZE // RESERVE_SLICE // 2):
            used = reserved()
            files.write(zxid, [("/new", None, zxid, zxid, 0, 1, 0)], [])
            assert reserved() == used - 2 * RESERVE_SLICE
            assert not files.has_space
        used = reserved()
        assert used == 0
        with pytest.raises(StoreFileError):
            files.write(100, [ID], [])
    files.write(100, [ID], [])
    assert files.has_space
    assert reserved() == RESERVE_SIZE
    files.close()
    assert _copies(stopped)[0] == _copies(stopped)[1]
    assert caplog.text.count("The reserve is used") == 1


def test_an_error_that_is_no_lack_of_space_leaves_the_reserve(stopped: Path, refusing: pytest.MonkeyPatch) -> None:
    files = StoreFiles(str(stopped / NAME))
    files.load()
    with pytest.raises(StoreFileError):
        files.write(13, [ID], [])
    assert files.has_space
    assert (stopped / RESERVE).exists()


def test_a_start_on_a_full_disk_has_no_reserve(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (stopped / RESERVE).unlink()
    monkeypatch.setattr(Files, "allocate", full)
    files = StoreFiles(str(stopped / NAME))
    assert files.load() == ALL
    assert not files.has_space
    files.close()


def test_a_commit_needs_no_further_descriptor(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    files = StoreFiles(str(stopped / NAME))
    files.load()
    monkeypatch.setattr(Files, "open", none_left)
    files.write(13, [("/new", None, 13, 13, 0, 1, 0)], [])
    files.close()
    monkeypatch.undo()
    assert "/new" in _load(stopped).rows


def test_the_path_of_the_journal() -> None:
    assert journal_path("/d/kafkapy-metadata.sqlite") == "/d/kafkapy-metadata.journal"


def test_either_file_is_a_store(tmp_path: Path) -> None:
    assert not is_stored(str(tmp_path / NAME))
    (tmp_path / JOURNAL).touch()
    assert is_stored(str(tmp_path / NAME))
    (tmp_path / JOURNAL).rename(tmp_path / NAME)
    assert is_stored(str(tmp_path / NAME))
