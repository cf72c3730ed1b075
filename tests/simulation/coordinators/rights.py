"""Which member of a consumer group has a right to which partition, by the requests and responses alone.

``Rights`` is the model beside the coordinator. A member has a right to a partition from the response that assigns it
until the member says that it does not own it any more, leaves, or may have been fenced because it was silent for the
session time-out or did not revoke within the rebalance time-out. A response may not assign a partition to which another
member has a right.
"""

from typing import Final
from uuid import UUID

from kafkapy.coordinator.group.consumer.calls import HeartbeatCall, HeartbeatResult, Partitions
from kafkapy.protocol.errors import ErrorCode
from tests.simulation.coordinators.history import require

Owned = frozenset[tuple[UUID, int]]

NOTHING: Final[Owned] = frozenset()
FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


def flat(partitions: Partitions) -> Owned:
    """The partitions as pairs of topic id and number."""
    return frozenset((topic_id, each) for topic_id, numbers in partitions.items() for each in numbers)


class Standing:
    """What the coordinator has told a member id, and when."""

    def __init__(self, instance_id: str | None, rebalance_ms: int) -> None:
        self.instance_id = instance_id
        self.rebalance_ms = rebalance_ms
        self.epoch = 0
        self.previous_epoch = 0
        """The epoch before, which is valid too while the response with the present one may be lost."""
        self.assigned: Owned = NOTHING
        self.granted: Owned = NOTHING
        """The partitions to which it has a right."""
        self.since: dict[tuple[UUID, int], int] = {}
        """The epoch at which each partition was assigned that it has, or that it has to revoke."""
        self.heard_ms = 0
        """When it sent the last request that was answered."""
        self.asked_ms: int | None = None
        """The earliest time at which the coordinator may have asked it to revoke partitions."""
        self.is_uncertain = False
        """The outcome of its last request is not known: the coordinator may have a later epoch."""
        self.has_left = False
        self.joins_again = False
        """It may have kept partitions from before it joined: as a static member, or without knowing that it was one."""

    def has_epoch(self, call: HeartbeatCall) -> bool:
        """Whether the epoch of a request is the member's, or the one before if the last response was lost."""
        if call.member_epoch == self.epoch:
            return True
        is_subset = call.owned is not None and flat(call.owned) <= self.assigned
        return call.member_epoch == self.previous_epoch > 0 and is_subset


class Rights:
    """The standings of all member ids."""

    def __init__(self, session_ms: int) -> None:
        self._session_ms = session_ms
        self.standings: dict[str, Standing] = {}

    def may_be_fenced(self, standing: Standing, now_ms: int) -> bool:
        """Whether one of the member's time-outs may have ended."""
        is_late = standing.asked_ms is not None and now_ms - standing.asked_ms >= standing.rebalance_ms
        return standing.has_left or is_late or now_ms - standing.heard_ms >= self._session_ms

    def sent(self, call: HeartbeatCall, now_ms: int) -> None:
        """A member sends a heartbeat: it gives up what it does not say to own."""
        known = self.standings.get(call.member_id)
        if known is None:
            known = self.standings[call.member_id] = Standing(call.instance_id, call.rebalance_timeout_ms)
            known.heard_ms = now_ms
        if call.member_epoch < 0:
            known.has_left, known.granted = True, NOTHING
        elif call.owned is not None:
            known.granted &= flat(call.owned)

    def outcome_unknown(self, member_id: str, now_ms: int) -> None:
        """The member's request may have been executed, or may be executed later."""
        known = self.standings[member_id]
        known.is_uncertain = True
        known.asked_ms = now_ms if known.asked_ms is None else known.asked_ms

    def answered(self, call: HeartbeatCall, result: HeartbeatResult, sent_ms: int, now_ms: int) -> None:
        """The coordinator has answered a request; the member may get the response or not."""
        known = self.standings[call.member_id]
        if result.error_code in FENCED:
            is_due = known.is_uncertain or self.may_be_fenced(known, now_ms)
            require(is_due or not known.has_epoch(call), f"{call.member_id} was fenced without a reason: {result}")
            known.granted, known.assigned, known.epoch, known.previous_epoch = NOTHING, NOTHING, 0, 0
            known.is_uncertain = result.error_code == ErrorCode.FENCED_MEMBER_EPOCH  # it may still be a member
        elif result.error_code in RETRIED:
            self.outcome_unknown(call.member_id, now_ms)
        elif not result.error_code and call.member_epoch >= 0:
            self._granted(call, result, now_ms)
            known.heard_ms, known.is_uncertain = sent_ms, False

    def _granted(self, call: HeartbeatCall, result: HeartbeatResult, now_ms: int) -> None:
        known = self.standings[call.member_id]
        if call.member_epoch == 0:
            known.joins_again = known.epoch != 0 or known.is_uncertain or call.instance_id is not None
            known.since = {}
            known.epoch, known.rebalance_ms = 0, call.rebalance_timeout_ms
        if call.owned is not None:
            known.granted &= flat(call.owned)
        require(result.member_epoch >= known.epoch, f"the epoch of {call.member_id} fell: {result}")
        if result.member_epoch != known.epoch:
            known.epoch, known.previous_epoch = result.member_epoch, known.epoch
        since = {each: epoch for each, epoch in known.since.items() if each in known.assigned | known.granted}
        if result.assignment is not None:
            known.assigned = flat(result.assignment)
        held = known.assigned | (known.granted & since.keys())
        known.since = {each: since.get(each, known.epoch) for each in held}
        for other_id, other in self.standings.items():
            shared = other.granted & known.assigned
            if shared and other is not known and not self.may_be_fenced(other, now_ms):
                require(False, f"{call.member_id} was given {shared}, which {other_id} has not given up")
            other.granted = other.granted if other is known else other.granted - shared
        known.granted |= known.assigned
        if known.granted == known.assigned:
            known.asked_ms = None
        elif known.asked_ms is None:
            known.asked_ms = now_ms

    def may_commit(self, member_id: str, epoch: int, partition: tuple[UUID, int], now_ms: int) -> bool | None:
        """Whether the coordinator must accept (True) or refuse as stale (False) a commit; None if it may do either."""
        known = self.standings[member_id]
        if known.is_uncertain or not known.epoch or self.may_be_fenced(known, now_ms) or epoch > known.epoch:
            return None
        if epoch < known.epoch and known.joins_again:
            return None
        return epoch == known.epoch or known.since.get(partition, epoch + 1) <= epoch
