"""What lies in a partition's folder, after what a crash has left there is put right or removed."""

import logging
from typing import Final, NamedTuple

from kafkapy.storage.files import TEMPORARY_SUFFIX, Files
from kafkapy.storage.leader_epochs import LEADER_EPOCHS_NAME
from kafkapy.storage.producer_state import SUFFIX as SNAPSHOT_SUFFIX
from kafkapy.storage.replace import CLEANED_SUFFIX, SWAP_SUFFIX, finish_interrupted
from kafkapy.storage.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from kafkapy.storage.snapshot import EMPTY_SIZE

logger: Final = logging.getLogger(__name__)

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, TEMPORARY_SUFFIX)
BASE_DIGITS: Final = 20


class Listing(NamedTuple):
    """Sizes in bytes: of the segments' files by base offset and suffix, of the snapshots by offset, of the epochs."""

    segments: dict[int, dict[str, int]]
    snapshots: dict[int, int]
    leader_epochs: int

    def says_nothing_of_producers(self, offset: int) -> bool:
        """Whether no snapshot needs to be read: there is none, or the one at ``offset`` is of no producers."""
        return not self.snapshots or self.snapshots.get(offset) == EMPTY_SIZE


def list_partition(files: Files, directory: str, *, keep_deleted: bool = False) -> Listing:
    """Finish an interrupted compaction, remove what was to be removed, and list the rest; make a missing folder.

    ``keep_deleted`` leaves what this very start has put aside to the next one.
    Indexes without their segment are removed; files of other names are left alone. Raises ``OSError``.
    """
    listing = _names_and_sizes(files, directory)
    found = Listing({}, {}, dict(listing).get(LEADER_EPOCHS_NAME, 0))
    for name, size in listing:
        base, suffix = name[:BASE_DIGITS], name[BASE_DIGITS:]
        if name.endswith(LEFTOVER_SUFFIXES):
            if keep_deleted:
                continue
            files.remove(f"{directory}/{name}")
        elif base.isdecimal() and suffix in SEGMENT_SUFFIXES:
            found.segments.setdefault(int(base), {})[suffix] = size
        elif base.isdecimal() and suffix == SNAPSHOT_SUFFIX:
            found.snapshots[int(base)] = size
    for base_offset in [base for base, sizes in found.segments.items() if LOG_SUFFIX not in sizes]:
        for suffix in found.segments.pop(base_offset):
            files.remove(f"{directory}/{base_offset:020d}{suffix}")
    return found


def _names_and_sizes(files: Files, directory: str) -> list[tuple[str, int]]:
    try:
        listing = files.list_directory(directory)
    except FileNotFoundError:
        files.make_directory(directory)
        return []
    if not any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name, _ in listing):
        return listing
    for base_offset in finish_interrupted(files, directory):
        logger.info("Put the compacted segment %d of %s in its place", base_offset, directory)
    return files.list_directory(directory)
