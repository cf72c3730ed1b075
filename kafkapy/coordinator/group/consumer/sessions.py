"""The time-outs of members: of their sessions, and of the revocation of partitions.

A heartbeat only moves the deadline of the session; its timer starts again when it fires too early. No time-out is
in the log: a coordinator that loads a group starts all of them from the beginning.

A member of the classic protocol has its own session time-out. It revokes partitions before it joins again, so the
coordinator waits for its JoinGroup and then for its SyncGroup, each for the member's rebalance time-out.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.group.consumer.members import ConsumerMember, MemberState
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.coordinator.group.consumer.group import ConsumerGroup

Fence = Callable[["ConsumerGroup", ConsumerMember, Callable[[], bool]], None]
"""Removes a member from its group, as soon as no records are being appended, if the function returns true then."""
TimerOf: TypeAlias = Callable[[ConsumerMember], TimerHandle | None]
"""Returns one of the timers of a member."""
REVOCATION: Final[TimerOf] = attrgetter("revocation_timer")
JOIN: Final[TimerOf] = attrgetter("join_timer")
SYNC: Final[TimerOf] = attrgetter("sync_timer")


class Sessions:
    """The timers of all members."""

    def __init__(self, clock: Clock, session_timeout_ms: Callable[[str], int], fence: Fence) -> None:
        """``session_timeout_ms`` returns the session time-out of a group's members."""
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._fence = fence

    def start_all(self, group: "ConsumerGroup") -> Steps[None]:
        """The group was loaded: start the time-outs of its members."""
        for piece in pieces(list(group.members.values())):
            for member in piece:
                self.touch(group, member)
                self.follow(group, member)
            yield

    def touch(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """The member has sent a heartbeat: its session starts again."""
        classic = member.metadata.classic
        timeout_ms = self._session_timeout_ms(group.group_id) if classic is None else classic.session_timeout_ms
        member.session_deadline_ms = self._clock.monotonic_s() * 1000 + timeout_ms
        if member.session_timer is None:
            member.session_timer = self._clock.call_later(timeout_ms, self._session_timer_fired, group, member)

    def follow(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """Start the rebalance time-out if the member has partitions to revoke, and it does not run yet."""
        is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic
        if is_revoking and member.revocation_timer is None:
            member.revocation_timer = self._rebalance_timer(group, member, REVOCATION)

    def expect_join(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """The member was told to join again: it has its rebalance time-out for it."""
        if member.join_timer is None:
            member.join_timer = self._rebalance_timer(group, member, JOIN)

    def joined(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """The member has joined: its session starts again, and its SyncGroup is expected."""
        member.stop_join()
        member.stop_sync()
        self.touch(group, member)
        member.sync_timer = self._rebalance_timer(group, member, SYNC)

    def synced(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """The member has its assignment: its session starts again."""
        member.stop_sync()
        self.touch(group, member)

    def _rebalance_timer(self, group: "ConsumerGroup", member: ConsumerMember, timer_of: TimerOf) -> TimerHandle:
        timeout_ms = max(member.metadata.rebalance_timeout_ms, 0)
        return self._clock.call_later(timeout_ms, self._rebalance_timer_fired, group, member, timer_of)

    def _session_timer_fired(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        member.session_timer = None
        remaining_ms = member.session_deadline_ms - self._clock.monotonic_s() * 1000
        if remaining_ms >= 1:
            member.session_timer = self._clock.call_later(remaining_ms, self._session_timer_fired, group, member)
        else:
            self._fence(group, member, lambda: member.session_timer is None)

    def _rebalance_timer_fired(self, group: "ConsumerGroup", member: ConsumerMember, timer_of: TimerOf) -> None:
        """Fence the member, unless what was awaited comes before: the timer is stopped then."""
        timer = timer_of(member)
        self._fence(group, member, lambda: timer_of(member) is timer)

    def remove_later(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """The log has refused the removal of a member: wait for another session, or another rebalance time-out."""
        member.stop_revocation()
        member.stop_join()
        member.stop_sync()
        self.touch(group, member)
