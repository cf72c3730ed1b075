"""The in-sync replicas of a partition, as its leader sees them: pure functions and values.

Laws (Kafka's ``Partition`` and ``Replica``; KIP-497 for changes in flight):

- the high watermark is the smallest log end offset of the local log and of every remote replica that is in the
  *maximal* in-sync set or was caught up within ``replica.lag.time.max.ms``; on a leader it never goes back;
- the maximal set is the committed one joined with the one that was proposed to the controller and is not answered;
- a replica is lagging when its end is not the leader's and it was last caught up too long ago;
- a replica may join when it reached the high watermark and the start of the leader's epoch, and no change is in flight.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

UNKNOWN_OFFSET = -1


class RemoteReplica:
    """What a leader knows about one follower: from its fetches only."""

    __slots__ = (
        "broker_id",
        "log_end_offset",
        "log_start_offset",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_offset_at_last_fetch",
    )

    def __init__(self, broker_id: int, last_caught_up_ms: int = 0) -> None:
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = 0
        self.leader_end_offset_at_last_fetch = UNKNOWN_OFFSET

    def fetched(self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Take in a fetch: the follower holds everything below ``fetch_offset``.

        It counts as caught up now if it asks for the leader's end, and as caught up at its previous fetch if it asks
        for what was the end then: a follower of a busy leader would otherwise never be.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Tell whether the replica has everything, or had so within ``lag_max_ms``."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


@dataclass(frozen=True, slots=True)
class InSyncReplicas:
    """The committed in-sync set, in the order of the controller, and a change that the controller has not answered."""

    committed: tuple[int, ...]
    proposed: tuple[int, ...] | None = None

    @property
    def maximal(self) -> Collection[int]:
        """Every replica that may count as in sync, whatever the controller answers; each once."""
        return self.committed if self.proposed is None else {*self.committed, *self.proposed}

    @property
    def in_flight(self) -> bool:
        """Whether a change waits for the controller's answer."""
        return self.proposed is not None


def high_watermark(
    local_end_offset: int, remotes: Iterable[RemoteReplica], maximal: Collection[int], *, now_ms: int, lag_max_ms: int
) -> int:
    """Return the offset below which every replica that counts holds all records."""
    lowest = local_end_offset
    for replica in remotes:
        counts = replica.broker_id in maximal or now_ms - replica.last_caught_up_ms <= lag_max_ms
        if counts and replica.log_end_offset < lowest:
            lowest = replica.log_end_offset
    return lowest


def lagging(
    isr: InSyncReplicas, remotes: Iterable[RemoteReplica], leader_end_offset: int, *, now_ms: int, lag_max_ms: int
) -> tuple[int, ...]:
    """Return the members that should leave the in-sync set; none while a change is in flight."""
    if isr.in_flight:
        return ()
    return tuple(
        replica.broker_id
        for replica in remotes
        if replica.broker_id in isr.committed and not replica.is_caught_up(leader_end_offset, now_ms, lag_max_ms)
    )


def may_join(
    isr: InSyncReplicas, replica: RemoteReplica, *, leader_high_watermark: int, epoch_start_offset: int
) -> bool:
    """Tell whether the replica has caught up far enough to be added to the in-sync set."""
    return (
        not isr.in_flight
        and replica.broker_id not in isr.committed
        and replica.log_end_offset >= max(leader_high_watermark, epoch_start_offset)
    )
