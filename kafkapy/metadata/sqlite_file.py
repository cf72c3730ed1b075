"""The first copy of the cluster's metadata: one table of nodes in an SQLite database (WAL mode).

    node   path, data, czxid, mzxid, version, created_ms, sequence, checksum    every node that is not ephemeral
    state  name, value                        format (2), zxid (the last number given), checksum (of these two)

A checksum is the CRC-32C of the node's bytes in ``journal``. Format 1, of earlier releases, has none; ``load``
reads it, and the next ``replace`` writes format 2. ``<file>-wal`` and ``<file>-shm`` beside it are SQLite's; after a
clean stop they are gone. A commit is not forced to disk here: ``store_files`` forces the second copy.
"""

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from kafkapy.metadata.journal import Content, Row, encode_row
from kafkapy.metadata.store import StoreDamagedError, StoreFileError
from kafkapy.records.crc import crc32c

FORMAT: Final = 2
_FIRST_FORMAT: Final = 1
_TABLES: Final = {
    "node": "path TEXT PRIMARY KEY, data BLOB, czxid INTEGER, mzxid INTEGER, version INTEGER, created_ms INTEGER, "
    "sequence INTEGER, checksum INTEGER",
    "state": "name TEXT PRIMARY KEY, value INTEGER",
}
_LOCKED: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_REFUSED: Final = frozenset(
    (
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    )
)
"""SQLite's codes for refusals of the system; every other failure of a read means that the file is damaged."""


class SqliteFile:
    """Opened by ``load``; every method blocks on the disk."""

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self.is_current = True
        """Whether the file that was loaded is of this release's format."""
        self._database: sqlite3.Connection | None = None

    def load(self) -> Content:
        """Open the file, made when it is missing; return its content.

        Raises ``StoreDamagedError`` when the content is damaged, ``StoreFileError`` when the file is locked, can't be
        opened, or is of a newer release.
        """
        with self._failures():
            database = self._database = self._open()
            problem = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise StoreDamagedError(f"{self.path} is damaged: {problem}")
            state = dict(database.execute("SELECT name, value FROM state").fetchall())
            zxid = self._zxid(state)
            self.is_current = not state or state["format"] == FORMAT
            return Content(zxid, {row[0]: row for row in self._rows()})

    def write(self, zxid: int, rows: Iterable[Row], deleted: Iterable[str]) -> None:
        """Make one commit: nodes as they are now, paths that are gone.

        Raises ``StoreFileError`` when the disk refuses; the file is as it was before, and the same can be tried again.
        """
        self._commit(zxid, rows, deleted)

    def replace(self, content: Content) -> None:
        """Replace all of it, whatever its format, in one commit; raises as ``write`` does."""
        self._commit(content.zxid, content.rows.values(), (), remade=True)

    def _commit(self, zxid: int, rows: Iterable[Row], deleted: Iterable[str], *, remade: bool = False) -> None:
        try:
            database = self._database = self._database or self._open()
            with database:
                database.execute("BEGIN")
                if remade:
                    for table in _TABLES:
                        database.execute(f"DROP TABLE {table}")
                    _create_tables(database)
                    self.is_current = True
                database.executemany("REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(_with_checksum, rows))
                database.executemany("DELETE FROM node WHERE path = ?", ((path,) for path in deleted))
                database.executemany("REPLACE INTO state VALUES (?, ?)", _state(zxid).items())
        except sqlite3.Error as error:
            # The connection may still hold a part of the failed commit: the next one opens the file again.
            with suppress(sqlite3.Error):
                self.close()
            raise StoreFileError(f"{self.path}: the cluster's metadata could not be written: {error}") from error

    def rows(self) -> Iterator[Row]:
        """Every node; raises ``StoreDamagedError`` at a damaged one."""
        with self._failures():
            yield from self._rows()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            # Taking the exclusive lock before WAL keeps the index of the log in memory, and other processes out.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            _create_tables(database)
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _zxid(self, state: dict[str, int]) -> int:
        """The last zxid that the state names, 0 of a new file."""
        if not state:
            return 0
        if state.get("format") == _FIRST_FORMAT and "checksum" not in state:
            return state.get("zxid", 0)
        try:
            checksum = _checksum(state["format"], state["zxid"])
        except (KeyError, TypeError, struct.error):
            checksum = None
        if state.get("checksum") != checksum:
            raise StoreDamagedError(f"{self.path} is damaged: its format and last number do not fit their checksum")
        if state["format"] != FORMAT:
            raise StoreFileError(
                f"{self.path} is of format {state['format']}, of a newer release: start that one, or move the file and "
                "its journal away to start an empty cluster"
            )
        return state["zxid"]

    def _rows(self) -> Iterator[Row]:
        assert self._database is not None, "load comes first"
        if not self.is_current:
            yield from self._database.execute("SELECT * FROM node")
            return
        for *fields, checksum in self._database.execute("SELECT * FROM node"):
            row: Row = tuple(fields)
            try:
                is_good = crc32c(encode_row(row)) == checksum
            except (AttributeError, TypeError, struct.error):
                is_good = False
            if not is_good:
                raise StoreDamagedError(f"{self.path} is damaged: the node {row[0]!r} does not fit its checksum")
            yield row

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Close the file after an error of SQLite, and raise the error that ``load`` documents instead."""
        try:
            yield
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self.close()
            # An error of the module itself (text that is not UTF-8) has no code.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _LOCKED:
                sentence = "another broker uses this data directory; stop it, or choose another one with --data"
                raise StoreFileError(f"{self.path}: {sentence}") from error
            if code == sqlite3.SQLITE_FULL:
                sentence = "the disk has no space for the cluster's metadata; free some and start again"
                raise StoreFileError(f"{self.path}: {sentence}") from error
            if code in _REFUSED:
                raise StoreFileError(f"{self.path} can't be opened: {error}") from error
            raise StoreDamagedError(f"{self.path} is damaged: {error}") from error
        except StoreFileError:
            with suppress(sqlite3.Error):
                self.close()
            raise


def _create_tables(database: sqlite3.Connection) -> None:
    for name, columns in _TABLES.items():
        database.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) WITHOUT ROWID")


def _checksum(format_: int, zxid: int) -> int:
    return crc32c(struct.pack(">qq", format_, zxid))


def _state(zxid: int) -> dict[str, int]:
    return {"format": FORMAT, "zxid": zxid, "checksum": _checksum(FORMAT, zxid)}


def _with_checksum(row: Row) -> tuple[object, ...]:
    return (*row, crc32c(encode_row(row)))
