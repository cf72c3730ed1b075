"""The time-outs of members: of their sessions, and of the revocation of partitions.

A heartbeat only moves the deadline of the session; its timer starts again when it fires too early. Neither time-out is
in the log: a coordinator that loads a group starts all of them from the beginning.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkapy.clock import Clock
from kafkapy.coordinator.group.consumer.members import ConsumerMember, MemberState
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.coordinator.group.consumer.group import ConsumerGroup

Fence = Callable[["ConsumerGroup", ConsumerMember, Callable[[], bool]], None]
"""Removes a member from its group, as soon as no records are being appended, if the function returns true then."""


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
        timeout_ms = self._session_timeout_ms(group.group_id)
        member.session_deadline_ms = self._clock.monotonic_s() * 1000 + timeout_ms
        if member.session_timer is None:
            member.session_timer = self._clock.call_later(timeout_ms, self._session_timer_fired, group, member)

    def follow(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        """Start the rebalance time-out if the member has partitions to revoke, and it does not run yet."""
        current = member.current
        if current.state is MemberState.UNREVOKED_PARTITIONS and member.revocation_timer is None:
            timeout_ms = max(member.metadata.rebalance_timeout_ms, 0)
            member.revocation_timer = self._clock.call_later(timeout_ms, self._revocation_timer_fired, group, member)

    def _session_timer_fired(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        member.session_timer = None
        remaining_ms = member.session_deadline_ms - self._clock.monotonic_s() * 1000
        if remaining_ms >= 1:
            member.session_timer = self._clock.call_later(remaining_ms, self._session_timer_fired, group, member)
        else:
            self._fence(group, member, lambda: member.session_timer is None)

    def _revocation_timer_fired(self, group: "ConsumerGroup", member: ConsumerMember) -> None:
        member.revocation_timer = None
        began = member.current
        self._fence(group, member, lambda: member.current == began)
