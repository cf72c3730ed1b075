"""The leader epochs of batches that a start reads again, and of those that compaction has taken from between them.

Batches count: the file may tell of records that are gone, or lack some that a crash has brought back. But where
offsets are missing before the first batch of a term, it may have begun among them. There the file is believed as far
as it agrees with the batches around; Apache Kafka 2.7 believes it altogether.
"""

from collections.abc import Iterable
from typing import Final

from kafkapy.records.batch import BatchHeader
from kafkapy.storage.leader_epochs import UNDEFINED_EPOCH, EpochEntry, LeaderEpochs, following

_ABOVE_ALL: Final = EpochEntry(2**31, 2**63)


class RecoveredEpochs:
    """Hears of each batch in order; until ``take`` the file stays as it was, so that a crash loses nothing."""

    __slots__ = ("_epochs", "_entries", "_in_file", "_end_offset")

    def __init__(self, epochs: LeaderEpochs, offset: int, below: Iterable[EpochEntry]) -> None:
        """``below`` is what began before ``offset``, where the first segment begins that is read."""
        self._epochs = epochs
        self._entries = list(below)
        self._in_file = [entry for entry in epochs.entries if entry.start_offset >= offset]
        self._end_offset = offset

    @property
    def _latest(self) -> int:
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def meet(self, header: BatchHeader) -> None:
        """The next batch; those of formats 0 and 1 say nothing."""
        epoch = header.partition_leader_epoch
        if epoch > self._latest:
            self._believe(EpochEntry(epoch, header.base_offset))
            if epoch > self._latest:
                self._entries = following(self._entries, EpochEntry(epoch, header.base_offset))
        if epoch > UNDEFINED_EPOCH:
            self._end_offset = header.next_offset

    def _believe(self, met: EpochEntry) -> None:
        """Take what the file has between the last batch and ``met``."""
        for entry in self._in_file:
            if self._end_offset <= entry.start_offset < met.start_offset and self._latest < entry.epoch <= met.epoch:
                self._entries.append(entry)

    def take(self, *, may_wait: bool = False) -> None:
        """There are no more. Raises ``OSError``; with ``may_wait`` not of a disk without room."""
        self._believe(_ABOVE_ALL)
        if self._entries or self._epochs.entries:
            self._epochs.rebuild(self._entries, may_wait=may_wait)
