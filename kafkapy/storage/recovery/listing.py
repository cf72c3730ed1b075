"""Lists the files of a partition's folder, after completing or removing the files that a crash has left."""

import logging
from typing import Final, NamedTuple

from kafkapy.platform.files import TEMPORARY_SUFFIX, Files
from kafkapy.storage.log.leader_epochs import LEADER_EPOCHS_NAME
from kafkapy.storage.log.producer_state import EMPTY_SIZE
from kafkapy.storage.log.producer_state import SUFFIX as SNAPSHOT_SUFFIX
from kafkapy.storage.log.segment import (
    BASE_DIGITS,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from kafkapy.storage.partition_metadata import PARTITION_METADATA_NAME
from kafkapy.storage.recovery.replace import CLEANED_SUFFIX, SWAP_SUFFIX, finish_interrupted

logger: Final = logging.getLogger(__name__)

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, TEMPORARY_SUFFIX)
FOLDER_SUFFIX: Final = ".folder"
"""Suffix of the new name of a folder that was in the place of a file."""
FILE_SUFFIX: Final = ".file"
"""Suffix of the new name of a file that was in the place of a partition's folder."""


class Listing(NamedTuple):
    """Sizes in bytes: of the segments' files by base offset and suffix, of the snapshots by offset, of the epochs."""

    segments: dict[int, dict[str, int]]
    snapshots: dict[int, int]
    leader_epochs: int

    def says_nothing_of_producers(self, offset: int) -> bool:
        """Whether no snapshot needs to be read: there is none, or the one at ``offset`` has no producers."""
        return not self.snapshots or self.snapshots.get(offset) == EMPTY_SIZE


def list_partition(files: Files, directory: str, *, keep_deleted: bool = False) -> Listing:
    """Finish an interrupted compaction, remove deleted files, and list the rest; create a missing folder.

    With ``keep_deleted`` the ``.deleted`` files stay, because this start has renamed them.
    Indexes without their segment are removed; files with other names, and folders, stay. Raises ``OSError``.
    """
    listing = _names_and_sizes(files, directory)
    renamed = {name[:BASE_DIGITS] for name, _ in listing if LOG_SUFFIX in name and name.endswith(DELETED_SUFFIX)}
    found = Listing({}, {}, dict(listing).get(LEADER_EPOCHS_NAME, 0))
    for name, size in listing:
        base, suffix = name[:BASE_DIGITS], name[BASE_DIGITS:]
        if size < 0:
            continue
        if name.endswith(LEFTOVER_SUFFIXES):
            if keep_deleted:
                continue
            files.remove(f"{directory}/{name}")
        elif base.isdecimal() and suffix in SEGMENT_SUFFIXES:
            found.segments.setdefault(int(base), {})[suffix] = size
        elif base.isdecimal() and suffix == SNAPSHOT_SUFFIX:
            found.snapshots[int(base)] = size
    for base_offset in [base for base, sizes in found.segments.items() if LOG_SUFFIX not in sizes]:
        path = f"{directory}/{base_offset:020d}"
        suffixes = found.segments.pop(base_offset)
        if f"{base_offset:020d}" not in renamed:  # otherwise a crash interrupted the deletion of the segment
            logger.error(
                "%s.log is missing, and %s is there: the segment's records, from offset %d on, are lost",
                path,
                " ".join(suffixes),
                base_offset,
            )
        for suffix in suffixes:
            files.remove(path + suffix)
    return found


def _names_and_sizes(files: Files, directory: str) -> list[tuple[str, int]]:
    try:
        listing = files.list_directory(directory)
    except FileNotFoundError:
        files.make_directory(directory)
        return []
    except NotADirectoryError:
        files.rename(directory, directory + FILE_SUFFIX)
        logger.error("%s is a file and not a folder; it is now %s%s", directory, directory, FILE_SUFFIX)
        files.make_directory(directory)
        return []
    folders = [name for name, size in listing if size < 0 and _is_file_name(name)]
    if folders:
        for name in folders:
            _put_folder_aside(files, f"{directory}/{name}")
        listing = files.list_directory(directory)
    if not any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name, _ in listing):
        return listing
    for base_offset in finish_interrupted(files, directory):
        logger.info("Put the compacted segment %d of %s in its place", base_offset, directory)
    return files.list_directory(directory)


def _is_file_name(name: str) -> bool:
    """Whether a log has a file of this name, or may create one."""
    others = (LEADER_EPOCHS_NAME, PARTITION_METADATA_NAME)
    return (name[:BASE_DIGITS].isdecimal() or name.startswith(others)) and FOLDER_SUFFIX not in name


def _put_folder_aside(files: Files, path: str) -> None:
    """Rename a folder at ``path``, where a file has to be; an empty folder is removed."""
    level = logging.ERROR if path.endswith(LOG_SUFFIX) else logging.WARNING
    lost = "its records are lost" if path.endswith(LOG_SUFFIX) else "it counts as missing"
    if not files.list_directory(path):
        files.remove_directory(path)
        logger.log(level, "%s was an empty folder and not a file: %s", path, lost)
        return
    target = path + FOLDER_SUFFIX
    while files.exists(target):
        target += FOLDER_SUFFIX
    files.rename(path, target)
    logger.log(level, "%s is a folder and not a file: %s; the folder is now %s", path, lost, target)
