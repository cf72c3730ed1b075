"""The steps of a member from its current assignment to its target assignment (KIP-848); pure.

A partition has one owner at most: a member gets it only after the former owner has revoked it. Each heartbeat of the
member takes one step:

    STABLE                  the target assignment is of a later epoch: begin with it
    UNREVOKED_PARTITIONS    the member has lost partitions, and its epoch stays until it does not own them any more
    UNRELEASED_PARTITIONS   other members own partitions of the target assignment: take those that are free by now

The member's epoch becomes that of the target assignment when nothing is left to revoke.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from kafkapy.coordinator.group.consumer.calls import Partitions
from kafkapy.coordinator.group.consumer.members import NOTHING, Assigned, CurrentAssignment, MemberState

IsFree = Callable[[UUID, int], bool]
"""Whether no other member owns a partition of a topic."""


class MemberTarget(NamedTuple):
    """The target assignment of a member, and its epoch."""

    epoch: int
    partitions: Partitions


def reconcile(
    current: CurrentAssignment, target: MemberTarget, owned: Partitions | None, is_free: IsFree
) -> CurrentAssignment:
    """One step of the member; ``owned`` is what it said to own, None if it did not say."""
    state = current.state
    if state is MemberState.STABLE and current.member_epoch == target.epoch:
        return current
    if state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, current.revoking):
        return current
    return _next(current, target, owned, is_free)


def _next(
    current: CurrentAssignment, target: MemberTarget, owned: Partitions | None, is_free: IsFree
) -> CurrentAssignment:
    kept, lost = _split(current.assigned, target.partitions)
    if lost and _owns(owned, lost):
        return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=lost)
    is_complete = True
    taken: dict[UUID, dict[int, int]] = {topic_id: dict(partitions) for topic_id, partitions in kept.items()}
    for topic_id, partitions in target.partitions.items():
        for partition in sorted(partitions - kept.get(topic_id, NO_PARTITIONS).keys()):
            if is_free(topic_id, partition):
                taken.setdefault(topic_id, {})[partition] = target.epoch
            else:
                is_complete = False
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return current.at(target.epoch)._replace(state=state, assigned=taken, revoking=NOTHING)


NO_PARTITIONS: dict[int, int] = {}


def _split(assigned: Assigned, target: Partitions) -> tuple[Assigned, Assigned]:
    """The partitions that remain assigned, and those that the target assignment does not have."""
    kept: dict[UUID, dict[int, int]] = {}
    lost: dict[UUID, dict[int, int]] = {}
    for topic_id, partitions in assigned.items():
        wanted = target.get(topic_id, frozenset())
        for partition, epoch in partitions.items():
            part = kept if partition in wanted else lost
            part.setdefault(topic_id, {})[partition] = epoch
    return kept, lost


def _owns(owned: Partitions | None, revoking: Assigned) -> bool:
    """Whether the member may own one of the partitions: it may if it did not say what it owns."""
    if owned is None:
        return True
    return any(not partitions.isdisjoint(revoking.get(topic_id, ())) for topic_id, partitions in owned.items())


def is_subset(owned: Partitions | None, assigned: Assigned) -> bool:
    """Whether the member owns nothing but what it was assigned; False if it did not say what it owns."""
    if owned is None:
        return False
    return all(partitions <= assigned.get(topic_id, NO_PARTITIONS).keys() for topic_id, partitions in owned.items())
