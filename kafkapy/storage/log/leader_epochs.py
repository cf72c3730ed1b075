"""``leader-epoch-checkpoint``: the offset at which each leader epoch began (KIP-101).

The file is text as in ``checkpoints``, with entries ``epoch startoffset``, both increasing. It is replaced at every
change. Message sets of formats 0 and 1 have no epoch: a log whose ``message.format.version`` is one of these keeps no
epochs (``keep``), as in Kafka 2.7.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kafkapy.platform.disk_errors import is_passing
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import decode, encode, number
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.types import NO_EPOCH, NO_OFFSET

LEADER_EPOCHS_NAME: Final = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """Batches of leader epoch ``epoch`` begin at ``start_offset``."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of a log, oldest first; a new entry removes the earlier entries that contradict it."""

    __slots__ = (
        "path", "entries", "wait_for_flush", "is_stale", "_in_file", "_files", "_log_end_offset", "_is_kept",
    )  # fmt: skip

    def __init__(self, files: Files, path: str, log_end_offset: Callable[[], int]) -> None:
        self.path = path
        self.entries: list[EpochEntry] = []
        self.wait_for_flush = False
        """The file's content may not be on the disk: the next flush of the log must fsync it."""
        self.is_stale = False
        """The file was not written when the entries changed: ``write_again`` must be called."""
        self._in_file: list[EpochEntry] | None = None
        self._files = files
        self._log_end_offset = log_end_offset
        self._is_kept = True

    def keep(self, kept: bool) -> None:
        """Set whether epochs are kept; if not, the present ones are dropped. Raises as ``load`` does."""
        if kept != self._is_kept:
            self._is_kept = kept
            self.load()

    def move_to(self, path: str) -> None:
        """Note the file's new path, after its folder was renamed."""
        self.path = path

    def detach(self) -> None:
        """See ``log.Log.detach``."""
        del self._log_end_offset

    def load(self) -> None:
        """Read the file; a missing one holds no epochs. Raises ``MalformedCheckpointError``, with no epochs then."""
        self.entries = []
        self._in_file = None
        if not self._is_kept:
            self._files.remove(self.path)
            self.wait_for_flush = False
            return
        try:
            entries = [EpochEntry(number(e), number(s)) for e, s in decode(self._files.read(self.path), 2)]
        except FileNotFoundError:
            return
        except (ValueError, MalformedCheckpointError) as error:
            raise MalformedCheckpointError(f"{self.path} is not a leader epoch checkpoint: {error}") from error
        if any(not _follows(*pair) for pair in pairwise(entries)):
            raise MalformedCheckpointError(f"{self.path} has epochs or offsets that go back")
        self.entries = self._in_file = entries

    def write_again(self, *, may_wait: bool = False) -> None:
        """Write the file if it is stale; called before the file may be trusted.

        Raises ``OSError``, but with ``may_wait`` not for a full disk.
        """
        if self.is_stale:
            self._take(self.entries, may_wait=may_wait)

    def _take(self, entries: list[EpochEntry], *, may_wait: bool = False) -> None:
        if not self._is_kept:
            return
        if entries == self._in_file:
            self.wait_for_flush = True  # the file may have been written without an fsync
            self.is_stale = False
            self.entries = entries
            return
        # A partition without records can lose none, and ten thousand of them may be created at once.
        sync = self._log_end_offset() > 0
        self._in_file = None
        try:
            self._files.replace(self.path, encode(f"{e} {s}" for e, s in entries), sync=sync)
        except OSError as error:
            if not (may_wait and is_passing(error)):
                raise
            self.is_stale = True
        else:
            self.is_stale = False
            self.wait_for_flush = not sync
            self._in_file = entries
        self.entries = entries

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    @property
    def latest_start_offset(self) -> int:
        """The start offset of the newest epoch, or -1."""
        return self.entries[-1].start_offset if self.entries else NO_OFFSET

    def is_latest(self, epoch: int, offset: int) -> bool:
        """Whether a batch at ``offset`` with ``epoch`` is in the newest epoch; without epochs, whether it has none."""
        if not self.entries:
            return epoch == NO_EPOCH
        latest, start_offset = self.entries[-1]
        return latest == epoch and start_offset <= offset

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add the epoch if it is new: it began at ``start_offset``, or its first batch is there."""
        if not self.is_latest(epoch, start_offset):
            self._take(following(self.entries, EpochEntry(epoch, start_offset)))

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the batch at ``offset``, or -1."""
        at = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[at - 1].epoch if at else NO_EPOCH

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Answer OffsetForLeaderEpoch: (largest epoch not above ``epoch``, where the next one begins) or (-1, -1)."""
        if epoch == NO_EPOCH or epoch > self.latest or not self.entries:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, self._log_end_offset()
        at = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        return (self.entries[at - 1].epoch if at else epoch), self.entries[at].start_offset

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that began at ``end_offset``, the log's new end, or later."""
        if self.latest_start_offset >= end_offset:
            self._take(self._below(end_offset), may_wait=True)

    def forget_from_end(self, end_offset: int) -> None:
        """As ``truncate_from_end``, but only in memory: the next leader epoch changes the file.

        Otherwise the files of ten thousand partitions without records would be written twice at each start.
        """
        self.entries = self._below(end_offset)

    def _below(self, end_offset: int) -> list[EpochEntry]:
        return [entry for entry in self.entries if entry.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs below ``start_offset``, the log's new start; the epoch of that offset begins there now.

        A full disk raises no error here, since trimming a log frees space. Raises ``OSError`` for other errors.
        """
        kept = self._from(start_offset)
        if kept != self.entries:
            self._take(kept, may_wait=True)

    def forget_from_start(self, start_offset: int) -> None:
        """As ``truncate_from_start``, but only in memory until ``write_again``: the file is then written once.

        After a crash the file still has the epochs of the deleted records, which a start drops.
        """
        kept = self._from(start_offset)
        if kept != self.entries:
            self.entries, self.is_stale = kept, True

    def _from(self, start_offset: int) -> list[EpochEntry]:
        at = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        return [EpochEntry(self.entries[at - 1].epoch, start_offset), *self.entries[at:]] if at else self.entries

    def rebuild(self, batches: Iterable[EpochEntry], *, may_wait: bool = False) -> None:
        """Replace the epochs by those of the log's batches, given as (leader epoch, base offset) in order.

        With ``may_wait`` the file is written later if the disk is full.
        """
        entries: list[EpochEntry] = []
        for entry in batches:
            if entry.epoch > (entries[-1].epoch if entries else NO_EPOCH):
                entries.append(entry)
        self._take(entries, may_wait=may_wait)

    def clear(self) -> None:
        """Drop all epochs."""
        self._take([])


def following(entries: Sequence[EpochEntry], entry: EpochEntry) -> list[EpochEntry]:
    """Return ``entries`` without those that ``entry`` contradicts, and ``entry`` after them."""
    kept = list(entries)
    while kept and (kept[-1].epoch >= entry.epoch or kept[-1].start_offset >= entry.start_offset):
        kept.pop()
    return [*kept, entry]


def _follows(entry: EpochEntry, later: EpochEntry) -> bool:
    return later.epoch > entry.epoch and later.start_offset >= entry.start_offset
