"""The embedded store's two files: an SQLite database and a journal, each a whole copy of the cluster's metadata.

A commit is written to the database first, without an fsync, then to the journal, with one; then it is answered. So one
commit costs one wait for the disk.

A start uses the copy with the highest commit number whose checksums are right, and writes the other copy from it:

    both have the same number               the usual case
    the database has the higher number      the process ended between the two, or the end of the journal is damaged
    the journal has the higher number       a power cut, or damage, has removed the end of the database's WAL
    one of them is missing or damaged       a damaged database is renamed to ``….damaged``

Any damage to one of the files therefore loses nothing. If no copy is usable ``load`` raises StoreFileError, and changes
nothing.

A third file, the reserve, only takes up space. When a full disk refuses a commit, the reserve shrinks only by the size
that the commit needs, because the logs take all free space. So changes that free space can be written
(``DeleteTopics``, a shorter retention). It is filled up when there is space again. Until then ``has_space`` is False,
and changes that make the metadata larger are to be refused.
"""

import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafkapy.metadata.journal import Content, MetadataJournal, Row
from kafkapy.metadata.sqlite_file import SqliteFile
from kafkapy.metadata.store import StoreDamagedError, StoreFileError
from kafkapy.metadata.znodes import ClusterIdZNode
from kafkapy.platform.disk_errors import is_full
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import remove_empty_folder

logger: Final = logging.getLogger(__name__)

DATABASE_SUFFIX: Final = ".sqlite"
JOURNAL_SUFFIX: Final = ".journal"
RESERVE_SUFFIX: Final = ".reserve"
DAMAGED_SUFFIX: Final = ".damaged"
EXPORTED_SUFFIX: Final = ".exported"
_SIDE_FILES: Final = ("-wal", "-shm")
_EMPTY: Final = Content(0, {})
RESERVE_SIZE: Final = 2 * 1024 * 1024
RESERVE_SLICE: Final = 32 * 1024
"""Bytes by which the reserve shrinks at a time: a small commit, which writes whole pages to the database's log."""

RESTORE: Final = (
    "Restore both from a backup of the directory, or make the topics again from their partitions' folders with "
    "kafkapy metadata rebuild"
)
"""The advice if no copy is usable."""


def journal_path(database_path: str) -> str:
    """The path of the journal of a database at ``database_path``."""
    return database_path.removesuffix(DATABASE_SUFFIX) + JOURNAL_SUFFIX


def reserve_path(database_path: str) -> str:
    """The path of the reserve of a database at ``database_path``."""
    return database_path.removesuffix(DATABASE_SUFFIX) + RESERVE_SUFFIX


def is_stored(database_path: str) -> bool:
    """Whether one of the two files exists."""
    files = Files()
    return files.exists(database_path) or files.exists(journal_path(database_path))


def move_aside(database_path: str, suffix: str = DAMAGED_SUFFIX) -> None:
    """Rename the existing ones of the two files to names that end in ``suffix``."""
    files = Files()
    _rename_database(files, database_path, suffix)
    journal = journal_path(database_path)
    if files.exists(journal):
        files.rename(journal, journal + suffix)
    files.remove(reserve_path(database_path))


def _is_for_lack_of_space(error: StoreFileError) -> bool:
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
    return isinstance(cause, OSError) and is_full(cause)


def _rename_database(files: Files, path: str, suffix: str) -> None:
    for side in ("", *_SIDE_FILES):
        if files.exists(path + side):
            files.rename(path + side, path + suffix + side)


class StoreFiles:
    """The open SQLite database and journal of a store. Call the methods on ``thread``: they use the disk."""

    def __init__(self, path: str) -> None:
        self.path: Final = path
        """The path of the database."""
        self.thread: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafkapy-metadata")
        self._files = Files()
        self._database = SqliteFile(path)
        self._journal = MetadataJournal(self._files, journal_path(path))
        self._reserve: Final = reserve_path(path)
        self._has_space = True
        self._reserve_lock = threading.Lock()
        """Held by who writes, so that what a commit frees of the reserve is not taken back meanwhile."""
        self._unwritten: dict[str, Row] | None = None
        """The content for writing the database again, if the disk refused the repair at the start."""

    def load(self, cluster_id: str | None = None, *, repairs: bool = True) -> Content:
        """Open or create the files, and return their content; with ``repairs`` one is repaired from the other.

        ``cluster_id`` is the cluster id in ``meta.properties``: with one, the metadata must exist. Raises
        StoreFileError.
        """
        if cluster_id is not None and not is_stored(self.path):
            raise self._missing(cluster_id)
        try:
            if repairs:
                for path in (self.path, *(self.path + suffix for suffix in _SIDE_FILES), self._journal.path):
                    remove_empty_folder(self._files, path)
            content = self._load(repairs=repairs)
            if cluster_id is not None and ClusterIdZNode.PATH not in content.rows:
                raise self._missing(cluster_id)
        except (OSError, LogDirectoryError) as error:
            self.close()
            raise StoreFileError(f"{self.path}: the cluster's metadata can't be read: {error}") from error
        except StoreFileError:
            self.close()
            raise
        if repairs:
            self._fill_reserve()
        return content

    def write(self, zxid: int, rows: list[Row], deleted: list[str]) -> None:
        """Make one commit durable: the rows of changed nodes, and the paths of deleted ones.

        Raises StoreFileError when the disk refuses; the same call can be repeated.
        """
        with self._reserve_lock:
            while True:
                try:
                    self._write(zxid, rows, deleted)
                except StoreFileError as error:
                    if not (_is_for_lack_of_space(error) and self._use_reserve(error)):
                        raise
                else:
                    break
            if not self._has_space:
                self._fill_reserve()

    @property
    def has_space(self) -> bool:
        """Whether the reserve is whole; fills it up if there is space again."""
        if not self._has_space and self._reserve_lock.acquire(blocking=False):
            try:
                self._fill_reserve()
            finally:
                self._reserve_lock.release()
        return self._has_space

    def _fill_reserve(self) -> None:
        try:
            self._files.allocate(self._reserve, RESERVE_SIZE)
        except OSError as error:
            self._has_space = not is_full(error)
        else:
            self._has_space = True

    def _use_reserve(self, refusal: StoreFileError) -> bool:
        """Give up a part of the reserve; False if there is none."""
        if self._has_space:
            logger.error("%s. The reserve is used: topics can be deleted, none can be created", refusal)
        self._has_space = False
        try:
            size = self._files.size(self._reserve)
            self._files.truncate(self._reserve, max(size - RESERVE_SLICE, 0))
        except OSError:
            return False
        return size > 0

    def _write(self, zxid: int, rows: list[Row], deleted: list[str]) -> None:
        if self._unwritten is None:
            self._database.write(zxid, rows, deleted)
        else:
            self._unwritten |= {row[0]: row for row in rows}
            for path in deleted:
                self._unwritten.pop(path, None)
            self._database.replace(Content(zxid, self._unwritten))
            self._unwritten = None
        try:
            self._write_journal(zxid, rows, deleted)
        except OSError as error:
            raise StoreFileError(f"{self._journal.path} could not be written: {error}") from error

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        self._database.close()
        self._journal.close()

    def _write_journal(self, zxid: int, rows: list[Row], deleted: list[str]) -> None:
        if self._journal.is_stale:
            self._journal.replace(zxid, self._database.rows())
            return
        self._journal.append(zxid, rows, deleted)
        if self._journal.is_large:
            try:
                self._journal.replace(zxid, self._database.rows())
            except (OSError, StoreDamagedError) as error:  # the commit is on the disk nevertheless
                logger.warning("%s could not be written again and grows on: %s", self._journal.path, error)

    def _load(self, *, repairs: bool) -> Content:
        try:
            journal, journal_problem = self._journal.load(), self._journal.problem
        except StoreDamagedError as error:
            journal, journal_problem = None, str(error)
        try:
            is_read = repairs or self._files.exists(self.path)
            database, database_problem = self._database.load() if is_read else _EMPTY, None
        except StoreDamagedError as error:
            database, database_problem = _EMPTY, str(error)
        if journal is None and not database.zxid:
            self._refuse_damage(journal_problem, database_problem)
        elif journal is not None:
            self._refuse_two_clusters(journal, database)
        if repairs:
            self._repair(journal, journal_problem, database, database_problem)
        return max(journal or _EMPTY, database, key=lambda each: each.zxid)

    def _repair(
        self, journal: Content | None, journal_problem: str | None, database: Content, database_problem: str | None
    ) -> None:
        try:
            if journal is not None and journal.zxid >= database.zxid:
                self._repair_database(journal, database, database_problem)
            else:
                self._repair_journal(database, journal_problem)
        except (OSError, StoreFileError) as error:
            logger.error("%s. The repair is repeated at the next metadata change", error)

    def _missing(self, cluster_id: str) -> StoreFileError:
        return StoreFileError(
            f"{self.path} and {self._journal.path} are missing or empty: they hold the topics and configurations of "
            f"cluster {cluster_id}, to which meta.properties says that the data belongs. If a ZooKeeper holds them "
            "now, since the broker was in a cluster or Apache Kafka wrote the data: start with zookeeper.connect, or "
            f"run kafkapy metadata import first. Otherwise: {RESTORE[0].lower()}{RESTORE[1:]}"
        )

    def _refuse_damage(self, journal_problem: str | None, database_problem: str | None) -> None:
        """Without a good copy: raise StoreDamagedError, unless nothing was ever stored."""
        if journal_problem is None and database_problem is None:
            return
        problems = (
            database_problem or f"{self.path} is missing or empty",
            journal_problem or f"{self._journal.path} is missing",
        )
        raise StoreDamagedError(f"No copy of the cluster's metadata can be used: {'; '.join(problems)}. {RESTORE}")

    def _refuse_two_clusters(self, journal: Content, database: Content) -> None:
        ids = [each.rows[ClusterIdZNode.PATH][1] for each in (journal, database) if ClusterIdZNode.PATH in each.rows]
        if len(set(ids)) > 1:
            raise StoreFileError(
                f"{self.path} and {self._journal.path} belong to different clusters, "
                f"{ClusterIdZNode.decode(ids[1])} and {ClusterIdZNode.decode(ids[0])}: move the wrong one away"
            )

    def _repair_database(self, journal: Content, database: Content, problem: str | None) -> None:
        """Write the database from the journal, if they differ."""
        if journal == database:
            return
        self._unwritten = dict(journal.rows)
        if problem is not None:
            logger.error("%s. It is written again from %s", problem, self._journal.path)
            _rename_database(self._files, self.path, DAMAGED_SUFFIX)
        else:
            logger.warning(
                "%s is missing or lacks the last changes: it ends with number %d. It is written again from %s, which "
                "ends with number %d",
                self.path,
                database.zxid,
                self._journal.path,
                journal.zxid,
            )
        if self._journal.problem is not None:
            logger.error(
                "%s, and the database has no later changes: metadata changes after number %d are lost",
                self._journal.problem,
                journal.zxid,
            )
            self._journal.replace(journal.zxid, journal.rows.values())
        self._database.replace(journal)
        self._unwritten = None

    def _repair_journal(self, database: Content, problem: str | None) -> None:
        """Write the journal from the database. Rewrite the database too if it has an earlier format."""
        if problem is not None:
            logger.warning("%s. It is written again from %s", problem, self.path)
        self._journal.is_stale = True  # if it can't be replaced now, the next change replaces it
        if not self._database.is_current:
            self._unwritten = dict(database.rows)
        if database.zxid:
            self._journal.replace(database.zxid, database.rows.values())
        if self._unwritten is not None:
            self._database.replace(database)
            self._unwritten = None
