"""Where a follower's log leaves its leader's, by leader epochs (KIP-101, KIP-279): pure functions.

A follower asks its leader where the latest leader epoch of its log ended (OffsetForLeaderEpoch), or a Fetch response
names a diverging epoch (KIP-595). The leader answers with its largest epoch up to the requested one, and with that
epoch's end offset. The follower drops the records that it has beyond, before it appends more.
"""

from typing import NamedTuple, Protocol

from kafkapy.types import NO_EPOCH, NO_OFFSET


class EpochEnds(Protocol):
    """The part of ``storage.log.leader_epochs.LeaderEpochs`` that is needed here."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return (largest epoch not above ``epoch``, where the next one begins) or (-1, -1)."""
        ...


class TruncatedLog(Protocol):
    """The part of ``storage.log.log.Log`` that is needed here."""

    @property
    def leader_epochs(self) -> EpochEnds:
        """The leader epochs of its batches."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """The offset below which all in-sync replicas have the records."""


class Truncation(NamedTuple):
    """``offset`` is the new end of the log; unless it ``is_final``, another request to the leader must follow."""

    offset: int
    is_final: bool = True


def truncation_of(log: TruncatedLog, leader_epoch: int, end_offset: int) -> Truncation:
    """Return what the leader's answer, ``leader_epoch`` and where it ended, means for the follower's ``log``.

    - The leader knows nothing of the epoch that was asked for: only the high watermark is known to be common.
    - The leader is too old to name an epoch, or this log knows none up to the one named: it ends where the leader says.
    - This log has the epoch: both have its records up to the lower of the two ends.
    - This log has only an earlier epoch: both have at most that one's records, and the leader is asked about it next.
    """
    own_end_offset = log.log_end_offset
    if end_offset == NO_OFFSET:
        return Truncation(min(log.high_watermark, own_end_offset))
    if leader_epoch == NO_EPOCH:
        return Truncation(min(end_offset, own_end_offset))
    own_epoch, own_epoch_end = log.leader_epochs.end_offset_for(leader_epoch)
    if own_epoch_end == NO_OFFSET:
        return Truncation(min(end_offset, own_end_offset))
    if own_epoch == leader_epoch:
        return Truncation(min(own_epoch_end, end_offset, own_end_offset))
    return Truncation(min(own_epoch_end, own_end_offset), is_final=False)
