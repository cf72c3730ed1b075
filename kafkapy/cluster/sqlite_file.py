"""The embedded store's file: one table of nodes, written ahead (WAL) by one thread, forced to disk with each commit.

    node   path, data, czxid, mzxid, version, created_ms, sequence    every node that is not ephemeral
    state  name, value                                                format (1), zxid (the last number given)

``<file>-wal`` and ``<file>-shm`` beside it are SQLite's; after a clean stop they are gone. A file that another
process holds, or that is no store of ours, raises StoreFileError with a sentence that says what to do.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from kafkapy.cluster.store import NodeStat, StoreFileError
from kafkapy.cluster.tree import TreeNode

FORMAT: Final = 1
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS node (path TEXT PRIMARY KEY, data BLOB, czxid INTEGER, mzxid INTEGER, version INTEGER,
                                     created_ms INTEGER, sequence INTEGER) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
"""

Row = tuple[str, bytes | None, int, int, int, int, int]


def row_of(path: str, node: TreeNode) -> Row:
    """The stored form of a node."""
    return (path, node.data, node.czxid, node.mzxid, node.version, node.created_ms, node.sequence)


class SqliteFile:
    """Opened by ``load``; every call that touches the disk belongs on ``thread``."""

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self.thread: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafkapy-metadata")
        self._database: sqlite3.Connection | None = None

    def load(self) -> tuple[int, list[tuple[str, TreeNode]]]:
        """Open the file, making it when it is missing; the last zxid and the nodes. Raises StoreFileError."""
        try:
            self._database = self._open()
            zxid = int(self._state("zxid", 0))
            return zxid, list(self._read_nodes())
        except sqlite3.Error as error:
            self.close()
            raise StoreFileError(self._advice(error)) from error

    def write(self, zxid: int, rows: Iterable[Row], deleted: Iterable[str]) -> None:
        """Make one commit durable: nodes as they are now, paths that are gone.

        Raises StoreFileError when the disk refuses; the file is as it was before, and the same can be tried again.
        """
        try:
            database = self._database = self._database or self._open()
            with database:
                database.execute("BEGIN")
                database.executemany("REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                database.executemany("DELETE FROM node WHERE path = ?", ((path,) for path in deleted))
                database.execute("REPLACE INTO state VALUES ('zxid', ?)", (zxid,))
        except sqlite3.Error as error:
            # What the connection still holds of the failed commit is worth nothing: the next one opens the file anew.
            with suppress(sqlite3.Error):
                self.close()
            raise StoreFileError(f"{self.path}: the cluster's metadata could not be written: {error}") from error

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
            database.execute("PRAGMA synchronous = FULL")
            database.executescript(_SCHEMA)
            found = database.execute("SELECT value FROM state WHERE name = 'format'").fetchone()
            if found is None:
                database.execute("INSERT INTO state VALUES ('format', ?)", (FORMAT,))
            elif found[0] != FORMAT:
                raise sqlite3.DatabaseError(f"format {found[0]} of a newer release")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _opened(self) -> sqlite3.Connection:
        assert self._database is not None, "load comes first"
        return self._database

    def _state(self, name: str, default: int) -> int:
        found = self._opened().execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return default if found is None else int(found[0])

    def _read_nodes(self) -> Iterator[tuple[str, TreeNode]]:
        for path, data, czxid, mzxid, version, created_ms, sequence in self._opened().execute("SELECT * FROM node"):
            yield path, TreeNode(data, NodeStat(czxid, mzxid, version, created_ms, 0), sequence)

    def _advice(self, error: sqlite3.Error) -> str:
        if "locked" in str(error):
            return f"{self.path}: another broker uses this data directory; stop it, or choose another one with --data"
        return f"{self.path}: can't be used as the cluster's metadata ({error}); move it away to start an empty cluster"
