"""The steps of a member from its current assignment to its target assignment (KIP-848); pure.

A partition has one owner at most: a member gets it only after the former owner has revoked it. Each heartbeat of the
member takes one step:

    STABLE                  the target assignment is of a later epoch: begin with it
    UNREVOKED_PARTITIONS    the member has lost partitions, and its epoch stays until it does not own them any more
    UNRELEASED_PARTITIONS   other members own partitions of the target assignment: take those that are free by now

The member's epoch becomes that of the target assignment when nothing is left to revoke. A member that has changed its
subscription gives up the partitions of other topics at once, also before a target assignment is computed for it.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from kafkapy.coordinator.group.consumer.calls import Partitions
from kafkapy.coordinator.group.consumer.members import NOTHING, Assigned, CurrentAssignment, MemberState
from kafkapy.turns import Steps

IsFree = Callable[[UUID, int], bool]
"""Whether no other member owns a partition of a topic."""


class MemberTarget(NamedTuple):
    """The target assignment of a member, and its epoch."""

    epoch: int
    partitions: Partitions


class MemberRequest(NamedTuple):
    """What the member says in its heartbeat."""

    owned: Partitions | None
    """The partitions that it owns, None if it does not say."""
    subscribes: Callable[[UUID], bool]
    """Whether it subscribes to a topic, which exists."""
    is_subscription_changed: bool


def reconcile(
    current: CurrentAssignment, target: MemberTarget, request: MemberRequest, is_free: IsFree
) -> Steps[CurrentAssignment]:
    """One step of the member towards its target assignment."""
    state, owned = current.state, request.owned
    is_stable = state is MemberState.STABLE and current.member_epoch == target.epoch
    if is_stable or (state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, current.revoking)):
        return _without_other_topics(current, request) if request.is_subscription_changed else current
    subscribed = {topic_id: each for topic_id, each in target.partitions.items() if request.subscribes(topic_id)}
    subscribed_target = MemberTarget(target.epoch, subscribed)
    return (yield from _next(current, subscribed_target, owned, is_free))


def _without_other_topics(current: CurrentAssignment, request: MemberRequest) -> CurrentAssignment:
    """Take the partitions of topics to which the member does not subscribe any more."""
    kept: Assigned = {each: epochs for each, epochs in current.assigned.items() if request.subscribes(each)}
    if len(kept) == len(current.assigned):
        return current
    lost = {topic_id: dict(epochs) for topic_id, epochs in current.revoking.items()}
    for topic_id in current.assigned.keys() - kept.keys():
        lost.setdefault(topic_id, {}).update(current.assigned[topic_id])
    if _owns(request.owned, lost):
        return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=lost)
    return current._replace(assigned=kept)


def _next(
    current: CurrentAssignment, target: MemberTarget, owned: Partitions | None, is_free: IsFree
) -> Steps[CurrentAssignment]:
    kept, lost = yield from _split(current.assigned, target.partitions)
    if lost and _owns(owned, lost):
        return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=lost)
    is_complete = True
    taken: dict[UUID, dict[int, int]] = {topic_id: dict(partitions) for topic_id, partitions in kept.items()}
    for topic_id, partitions in target.partitions.items():
        yield
        for partition in sorted(partitions - kept.get(topic_id, NO_PARTITIONS).keys()):
            if is_free(topic_id, partition):
                taken.setdefault(topic_id, {})[partition] = target.epoch
            else:
                is_complete = False
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return current.at(target.epoch)._replace(state=state, assigned=taken, revoking=NOTHING)


NO_PARTITIONS: dict[int, int] = {}


def _split(assigned: Assigned, target: Partitions) -> Steps[tuple[Assigned, Assigned]]:
    """The partitions that remain assigned, and those that the target assignment does not have."""
    kept: dict[UUID, dict[int, int]] = {}
    lost: dict[UUID, dict[int, int]] = {}
    for topic_id, partitions in assigned.items():
        yield
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
