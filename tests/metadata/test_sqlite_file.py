import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.metadata.journal import Row
from kafkapy.metadata.sqlite_file import SqliteFile
from kafkapy.metadata.store import StoreDamagedError, StoreFileError

NULL: Row = ("/null", None, 1, 1, 0, 10, 4)
TEXT: Row = ("/text", b"{}", 2, 9, 3, 11, 0)


def _stored(path: Path) -> SqliteFile:
    file = SqliteFile(str(path))
    assert file.load() == (0, {})
    file.write(9, [NULL, TEXT, ("/gone", b"{}", 2, 2, 0, 11, 0)], [])
    file.write(12, [], ["/gone"])
    return file


def test_nodes_come_back_as_they_were(tmp_path: Path) -> None:
    file = _stored(tmp_path / "store.sqlite")
    assert sorted(file.rows()) == [NULL, TEXT]
    file.close()
    file.close()
    again = SqliteFile(file.path)
    assert again.load() == (12, {"/null": NULL, "/text": TEXT})
    again.close()


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "store.sqlite")
    with pytest.raises(StoreFileError, match=path):
        SqliteFile(path).load()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE node SET data = X'7B7C' WHERE path = '/text'",
        "UPDATE node SET path = '/test' WHERE path = '/text'",
        "UPDATE node SET version = 4 WHERE path = '/text'",
        "UPDATE node SET version = 'x' WHERE path = '/text'",
        "UPDATE node SET path = X'2F' WHERE path = '/text'",
        "UPDATE node SET path = CAST(X'FFFE' AS TEXT) WHERE path = '/text'",
        "UPDATE node SET version = 4294967296 WHERE path = '/text'",
        "UPDATE node SET checksum = 1 WHERE path = '/null'",
        "UPDATE state SET value = 13 WHERE name = 'zxid'",
        "UPDATE state SET value = NULL WHERE name = 'zxid'",
        "UPDATE state SET value = 3 WHERE name = 'format'",
        "DELETE FROM state WHERE name = 'checksum'",
        "DELETE FROM state WHERE name = 'format'",
        "DROP TABLE state; CREATE TABLE state (name TEXT PRIMARY KEY)",
    ],
)
def test_a_change_that_no_commit_made_is_noticed(tmp_path: Path, change: str) -> None:
    file = _stored(tmp_path / "store.sqlite")
    file.close()
    database = sqlite3.connect(file.path)
    database.executescript(change)
    database.close()
    with pytest.raises(StoreDamagedError, match="is damaged"):
        file.load()


def _flipped_page(content: bytearray) -> None:
    content[4096 + 3] ^= 1  # the number of cells of the first table's page


def _no_header(content: bytearray) -> None:
    content[0] ^= 1


def _cut(content: bytearray) -> None:
    del content[5000:]


@pytest.mark.parametrize("damage", [_flipped_page, _no_header, _cut])
def test_a_damaged_page_is_noticed(tmp_path: Path, damage: Callable[[bytearray], None]) -> None:
    path = tmp_path / "store.sqlite"
    file = _stored(path)
    file.close()
    content = bytearray(path.read_bytes())
    damage(content)
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match="is damaged"):
        file.load()


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    with monkeypatch.context() as newer:
        newer.setattr("kafkapy.metadata.sqlite_file.FORMAT", 3)
        _stored(path).close()
    with pytest.raises(StoreFileError, match="format 3, of a newer release") as refused:
        SqliteFile(str(path)).load()
    assert not isinstance(refused.value, StoreDamagedError)


def test_a_file_of_the_first_format_is_read_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    first_format(path, 9, [NULL, TEXT])
    file = SqliteFile(str(path))
    content = file.load()
    assert content == (9, {"/null": NULL, "/text": TEXT})
    assert not file.is_current
    assert sorted(file.rows()) == [NULL, TEXT]
    file.replace(content)
    file.write(10, [], ["/text"])
    file.close()
    again = SqliteFile(str(path))
    assert again.load() == (10, {"/null": NULL})
    assert again.is_current
    again.close()


def first_format(path: Path, zxid: int, rows: list[Row]) -> None:
    """Write a file in the format of earlier releases."""
    database = sqlite3.connect(path)
    database.executescript(
        """
        CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB, czxid INTEGER, mzxid INTEGER, version INTEGER,
                           created_ms INTEGER, sequence INTEGER) WITHOUT ROWID;
        CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
        INSERT INTO state VALUES ('format', 1);
        """
    )
    database.execute("INSERT INTO state VALUES ('zxid', ?)", (zxid,))
    database.executemany("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
