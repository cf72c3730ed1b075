"""Replaces segments by the compacted ones made from them; after a crash at any step the log can be opened.

    1  the new files are written and fsynced with the suffix ``.cleaned``; a start removes such files
    2  new files: ``.cleaned`` → ``.swap``; fsync of the folder        a start completes the replacement from here on
    3  old files: get a number and the suffix ``.deleted``; fsync of the folder
    4  new files: ``.swap`` → no suffix, the ``.log`` last; the list of segments is replaced
    5  old files are removed after ``file.delete.delay.ms``

Names and order are Apache Kafka's, which does no fsync between 2, 3 and 4; each of the two brokers finishes a
replacement that the other began. The number distinguishes the old files of two compactions in a row.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkapy.platform.files import Files
from kafkapy.records.batch import (
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    SMALLEST_LENGTH,
    crc_is_valid,
    read_header,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import read_legacy_header
from kafkapy.storage.log.segment import (
    BASE_DIGITS,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)

if TYPE_CHECKING:
    from kafkapy.storage.log.log import Log

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

logger: Final = logging.getLogger(__name__)

_numbers: Final = count(1)


class Replacement:
    """Replaces ``old``, which are neighbours, by ``new``, whose files have the suffix ``.cleaned``.

    It waits for the disk twice, in the log's flusher. ``done`` is called at the end with None, or with an error after
    which the log is as it was before.
    """

    def __init__(
        self, log: "Log", new: Sequence[Segment], old: Sequence[Segment], done: Callable[[OSError | None], object]
    ) -> None:
        self._log = log
        self._new = new
        self._old = old
        self._done = done
        self._is_over = False

    def begin(self) -> None:
        """Begin with step 2."""
        self._step(lambda: self._rename(self._new, SWAP_SUFFIX), self._put_old_aside)

    def _put_old_aside(self) -> None:
        suffix = f".{next(_numbers)}{DELETED_SUFFIX}"
        self._step(lambda: self._rename(self._old, suffix), self._finish)

    @staticmethod
    def _rename(segments: Sequence[Segment], suffix: str) -> None:
        for segment in reversed(segments):
            segment.rename(suffix)

    def _step(self, renaming: Callable[[], None], following: Callable[[], None]) -> None:
        """Rename files, wait until the new names are on the disk, and continue with ``following``."""
        files, directory = self._log.storage.files, self._log.directory
        failures: list[OSError] = []

        def wait() -> None:
            try:
                files.sync_path(directory)
            except OSError as error:
                failures.append(error)

        def go_on() -> None:
            if failures:
                self._fail(failures[0])
            elif not self._is_over:
                following()

        try:
            renaming()
        except OSError as error:
            self._fail(error)
        else:
            self._log.storage.flusher.run(wait, go_on)

    def _finish(self) -> None:
        try:
            for segment in self._new:
                segment.rename("", log_last=True)
        except OSError as error:
            self._fail(error)
            return
        self._is_over = True
        self._log.segments.replace(self._old, self._new)
        self._log.delete_segment_files(self._old)
        self._done(None)

    def _fail(self, error: OSError) -> None:
        if self._is_over:
            return
        try:
            self.abort()
        except OSError as worse:
            error = worse
        self._done(error)

    def abort(self) -> None:
        """Undo the replacement: the old segments get their names back, the new ones are removed; ``done`` isn't called.

        Raises ``OSError``. Then a start may still complete the replacement, so none may follow before it, and the data
        directory goes offline.
        """
        if self._is_over:
            return
        self._is_over = True
        try:
            self._take_back()
        except OSError as error:
            self._log.storage.disk_failed(self._log.directory, error)
            raise

    def _take_back(self) -> None:
        # A running flush may not have found the old files.
        self._log.invalidate_flush()
        for segment in self._new:
            if segment.suffix != CLEANED_SUFFIX:
                segment.rename(SWAP_SUFFIX)  # frees the old segments' names, which step 4 may have given to these
        for segment in self._old:
            segment.rename("")
        # The old names must be on the disk before the new files are removed.
        self._log.storage.files.sync_path(self._log.directory)
        for segment in self._new:
            segment.remove()


def finish_interrupted(files: Files, directory: str) -> list[int]:
    """Complete or undo each replacement in a partition's folder that a crash interrupted.

    Returns the base offsets of segments that were put in place; their indexes were removed and must be rebuilt from the
    log. The rules are Apache Kafka 2.7's: a ``.swap`` at or above the lowest ``.cleaned`` belongs to an incomplete set
    and is removed; any other is complete, and replaces the segments that begin within it. Unlike in Kafka, a damaged
    ``.swap`` is removed too, if none of the old segments has been renamed yet. Raises ``OSError``.
    """
    folder = _Folder(files, directory)
    lowest_cleaned = min((base for base, _ in folder.cleaned), default=2**63)
    swapped = {base for base, kind in folder.swapped if kind == LOG_SUFFIX}
    for base, kind in folder.swapped:
        if kind == LOG_SUFFIX and base < lowest_cleaned:
            continue
        folder.remove(base, kind + SWAP_SUFFIX)
        if base not in swapped:
            # The new log has its final name already, and these indexes may belong to the old log.
            folder.remove_indexes(base)
    for base, kind in folder.cleaned:
        folder.remove(base, kind + CLEANED_SUFFIX)
    return [base for base in sorted(swapped) if base < lowest_cleaned and folder.complete(base)]


class _Folder:
    """The files of segments in a partition's folder."""

    def __init__(self, files: Files, directory: str) -> None:
        self.files = files
        self.directory = directory
        self.logs: list[int] = []
        self.cleaned: list[tuple[int, str]] = []
        self.swapped: list[tuple[int, str]] = []
        self.is_put_aside = False
        """Whether there is a ``.deleted`` file."""
        for name, _ in files.list_directory(directory):
            base, kind = name[:BASE_DIGITS], name[BASE_DIGITS:]
            if not base.isdecimal():
                continue
            if kind == LOG_SUFFIX:
                self.logs.append(int(base))
            elif kind.endswith(CLEANED_SUFFIX):
                self.cleaned.append((int(base), kind.removesuffix(CLEANED_SUFFIX)))
            elif kind.endswith(SWAP_SUFFIX):
                self.swapped.append((int(base), kind.removesuffix(SWAP_SUFFIX)))
            elif kind.startswith(LOG_SUFFIX) and kind.endswith(DELETED_SUFFIX):
                self.is_put_aside = True

    def path(self, base: int, kind: str) -> str:
        return f"{self.directory}/{base:020d}{kind}"

    def remove(self, base: int, kind: str) -> None:
        self.files.remove(self.path(base, kind))

    def remove_indexes(self, base: int) -> None:
        for kind in INDEX_SUFFIXES:
            self.remove(base, kind)

    def complete(self, base: int) -> bool:
        """Replace the segments that begin within the new log at ``base`` by it; return false if it is damaged."""
        path = self.path(base, LOG_SUFFIX + SWAP_SUFFIX)
        end_offset, is_whole = _end_offset(self.files, path)
        if not is_whole and base in self.logs and not self.is_put_aside:
            logger.warning("%s is damaged: it is removed, and the segments that it was made from stay", path)
            self.files.remove(path)
            return False
        end_offset = max(end_offset, base + 1)
        for old in [old for old in self.logs if base <= old < end_offset]:
            self.logs.remove(old)
            self.remove(old, LOG_SUFFIX)
            self.remove_indexes(old)
        self.remove_indexes(base)
        self.files.sync_path(self.directory)  # after a power failure no old log may be beside the new one
        self.files.rename(path, self.path(base, LOG_SUFFIX))
        self.files.sync_path(self.directory)
        self.logs.append(base)
        return True


def _end_offset(files: Files, path: str) -> tuple[int, bool]:
    """Return the offset after the last batch of a log, or the last one before damage (0: none), and if it is whole.

    A log without a batch is not whole.
    """
    descriptor = files.open(path)
    size = files.size(path)
    offset = position = 0
    while position + LOG_OVERHEAD + SMALLEST_LENGTH <= size:
        overhead = files.read_at(descriptor, LOG_OVERHEAD, position)
        length = int.from_bytes(overhead[LENGTH_OFFSET:], "big")
        if not SMALLEST_LENGTH <= length <= size - position - LOG_OVERHEAD:
            break
        batch = files.read_at(descriptor, length + LOG_OVERHEAD, position)
        try:
            header = read_header(batch) if batch[MAGIC_OFFSET] == MAGIC else read_legacy_header(batch)
        except CorruptRecordError:
            break
        if not crc_is_valid(batch, 0, header) or header.base_offset < offset:
            break
        offset = header.next_offset
        position += len(batch)
    return offset, 0 < position == size
