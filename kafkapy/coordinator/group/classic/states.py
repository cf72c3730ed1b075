"""The states of a group, its transitions, and the error of each request in each state.

Laws
    1. A group changes its state only along ``TRANSITIONS``; ``check_transition`` refuses every other.
    2. The generation grows by one each time a join phase ends (PreparingRebalance changes to
       CompletingRebalance or Empty), and never otherwise.
    3. Empty means: no members. Members wait for JoinGroup only in PreparingRebalance, for SyncGroup only in
       CompletingRebalance.
    4. A group with members has exactly one leader, which is one of them.
    5. Dead is final: the group was deleted or unloaded; requests that still hold the object must find the group again.

The tables below have the error, by state, of a request that passed the checks of group, member and generation
(0: none, the request is served).

The classic group protocol is described in Kafka's protocol guide and in KIP-62, KIP-345, KIP-394, KIP-429.
"""

from enum import Enum

from kafkapy.protocol.errors import ErrorCode


class GroupState(Enum):
    """The state of a group; the values are the names in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # the tables below are read with each request: Enum's own is a Python function


EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    # no members: the first one starts a join phase
    EMPTY: frozenset({PREPARING, DEAD}),
    # the join phase: ends with members (they wait for the leader's assignment) or without
    PREPARING: frozenset({COMPLETING, EMPTY, DEAD}),
    # the leader computes the assignment; a member that joins or leaves meanwhile starts another join phase
    COMPLETING: frozenset({STABLE, PREPARING, DEAD}),
    # every member has its assignment
    STABLE: frozenset({PREPARING, DEAD}),
    DEAD: frozenset(),
}


class IllegalGroupTransitionError(AssertionError):
    """A transition that law 1 forbids: a bug, which no request can cause."""


def check_transition(source: GroupState, target: GroupState) -> None:
    """Raise ``IllegalGroupTransitionError`` unless a group may go from ``source`` to ``target``."""
    if target not in TRANSITIONS[source]:
        raise IllegalGroupTransitionError(f"a group can't go from {source.value} to {target.value}")


HEARTBEAT: dict[GroupState, int] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING: 0,
    STABLE: 0,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# 0 in CompletingRebalance: the member waits for the leader's assignment
SYNC: dict[GroupState, int] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING: 0,
    STABLE: 0,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# of a member with the group's generation; members still commit while others join, so that no record is read twice
COMMIT_BY_MEMBER: dict[GroupState, int] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING: 0,
    COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: 0,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

DELETE: dict[GroupState, int] = {
    EMPTY: 0,
    PREPARING: ErrorCode.NON_EMPTY_GROUP,
    COMPLETING: ErrorCode.NON_EMPTY_GROUP,
    STABLE: ErrorCode.NON_EMPTY_GROUP,
    DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}
