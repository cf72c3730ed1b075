"""Who shall lead a partition. Pure: replicas, in-sync replicas and live brokers in, a leader and ISR out.

The laws, which every election keeps: a leader is live; unless the election is unclean it comes from the ISR; the
ISR is never empty and holds the leader. Each election that changes anything takes the next leader epoch.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

NO_LEADER: Final = -1
"""No replica can lead; readers and writers have to wait."""
LEADER_DURING_DELETE: Final = -2
"""In UpdateMetadata: the partition is going away, forget it."""
EPOCH_DURING_DELETE: Final = -2
"""In StopReplica and UpdateMetadata: higher than any leader epoch."""
NO_EPOCH: Final = -1
INITIAL_LEADER_EPOCH: Final = 0


class Elected(NamedTuple):
    """The new leader and the in-sync replicas that come with it."""

    leader: int
    isr: tuple[int, ...]


def elect_offline(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean: bool
) -> Elected | None:
    """After the leader died: the first live replica that is in sync; if ``unclean`` allows it, any live one."""
    in_sync = tuple(broker for broker in isr if broker in live)
    clean = next((broker for broker in replicas if broker in in_sync), None)
    if clean is not None:
        return Elected(clean, in_sync)
    if unclean:
        alive = next((broker for broker in replicas if broker in live), None)
        if alive is not None:
            return Elected(alive, (alive,))
    return None


def elect_preferred(replicas: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The first replica, if it is live and in sync; the ISR stays as it is."""
    first = next(iter(replicas), NO_LEADER)
    return Elected(first, tuple(isr)) if first in live and first in isr else None


def elect_reassigned(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The first of the replicas that shall remain that is live and in sync; the ISR stays as it is."""
    leader = next((broker for broker in target if broker in live and broker in isr), None)
    return None if leader is None else Elected(leader, tuple(isr))


def elect_controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], stopping: Collection[int]
) -> Elected | None:
    """A leader that is not about to stop; those that are leave the ISR. ``live`` may still hold the stopping ones."""
    leader = next((broker for broker in replicas if broker in live and broker in isr and broker not in stopping), None)
    return None if leader is None else Elected(leader, tuple(broker for broker in isr if broker not in stopping))


def without_replica(leader: int, isr: Sequence[int], replica: int) -> Elected:
    """What is left when ``replica`` goes offline: the last member stays in the ISR, so that it is known who has all."""
    remaining = tuple(isr) if len(isr) == 1 else tuple(broker for broker in isr if broker != replica)
    return Elected(NO_LEADER if leader == replica else leader, remaining)
