"""The join phase and the members' sessions: everything about a group that happens by itself, in time.

Timers: one for each member's session, one for each member id that was given out, one for a group's join phase. A
heartbeat only moves its member's deadline; the session timer, when it fires early, sets itself anew for what is left.
"""

from collections.abc import Callable, Mapping

from kafkapy.clock import Clock
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.members import Member
from kafkapy.coordinator.group.results import JoinResult, SyncResult
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.steps import Background
from kafkapy.protocol.errors import ErrorCode

# How long a member that is new to the group may wait in its first JoinGroup. It has no id yet, so it can't send
# heartbeats, and a client that gave up must not hold the others for ever.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

# Writes a group's metadata with these assignments; the callback gets the error code once the log has it.
StoreGroup = Callable[[Group, Mapping[str, bytes], Callable[[int], None]], None]


def _ignore(_error_code: int) -> None:
    """An empty generation that the log refused: the one before it would come back and time out; nothing is lost."""


class Rebalancer:
    """Moves groups through the join phase, and watches over the sessions of their members."""

    def __init__(self, settings: GroupSettings, clock: Clock, store_group: StoreGroup, background: Background) -> None:
        self.settings = settings
        self.store_group = store_group
        self.counters = background.counters
        self.run = background.run
        self._clock = clock

    # Sessions

    def touch(self, member: Member) -> None:
        """The member lives: its session counts from now. This is all that a heartbeat costs."""
        member.session_deadline_ms = self._clock.monotonic_s() * 1000 + member.session_timeout_ms

    def start_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Count the member's session from now, and make sure that a timer watches it."""
        duration_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_deadline_ms = self._clock.monotonic_s() * 1000 + duration_ms
        if member.session_timer is not None:
            member.session_timer.cancel()
        member.session_timer = self._clock.call_later(duration_ms, self._session_timer_fired, group, member)

    def _session_timer_fired(self, group: Group, member: Member) -> None:
        member.session_timer = None
        if group.is_dead:
            return
        left_ms = member.session_deadline_ms - self._clock.monotonic_s() * 1000
        if left_ms >= 1:
            member.session_timer = self._clock.call_later(left_ms, self._session_timer_fired, group, member)
        elif member.is_new or not member.is_waiting:
            self.remove_member(group, member)
        # else it waits for us: its session starts again with the answer

    def add_pending(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Remember an id that was given out, for as long as its client may take to come back with it."""
        group.add_pending(member_id, self._clock.call_later(timeout_ms, self.remove_pending, group, member_id))

    def remove_pending(self, group: Group, member_id: str) -> None:
        """The id's client left or never came back: the others need not wait for it."""
        if group.remove_pending(member_id):
            self.try_complete_join(group)

    def remove_member(self, group: Group, member: Member) -> None:
        """The member left or its session ended: the others share its partitions anew."""
        group.members.remove(member.member_id)
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        if group.state in (states.STABLE, states.COMPLETING):
            self.prepare(group)
        else:
            self.try_complete_join(group)

    # The join phase

    def maybe_prepare(self, group: Group) -> None:
        """Start a join phase unless one is running."""
        if states.PREPARING in states.MOVES[group.state]:
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Start a join phase: everybody has to join (again), at the latest when the slowest member must have."""
        if group.state is states.COMPLETING:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        is_first_member = group.state is states.EMPTY
        group.move_to(states.PREPARING)
        group.has_new_member = False
        if is_first_member:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.members.rebalance_timeout_ms() - delay_ms, 0))
        else:
            self._wait_for_members(group)

    def reset_assignments(self, group: Group, error_code: int) -> None:
        """Send those off who wait for an assignment that will not come."""
        for member in group.members.all():
            group.members.assign(member, b"")
            if member.answer_sync(SyncResult(error_code)):
                self.start_session(group, member)

    def _wait_for_more(self, group: Group, delay_ms: int, left_ms: int) -> None:
        """The first member of an empty group waits a little, so that those who start together meet at once."""
        group.is_in_initial_delay = True
        if delay_ms == 0:
            self.complete_join(group)
        else:
            group.join_timer = self._clock.call_later(delay_ms, self._initial_delay_over, group, delay_ms, left_ms)

    def _initial_delay_over(self, group: Group, delay_ms: int, left_ms: int) -> None:
        if group.has_new_member and left_ms:
            group.has_new_member = False
            next_delay_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
            self._wait_for_more(group, next_delay_ms, max(left_ms - delay_ms, 0))
        else:
            self.complete_join(group)

    def _wait_for_members(self, group: Group) -> None:
        group.is_in_initial_delay = False
        if group.have_all_joined():
            self.complete_join(group)
        else:
            timeout_ms = max(group.members.rebalance_timeout_ms(), 0)
            group.join_timer = self._clock.call_later(timeout_ms, self.complete_join, group)

    def try_complete_join(self, group: Group) -> None:
        """End the join phase if nobody is missing any more."""
        if group.state is states.PREPARING and not group.is_in_initial_delay and group.have_all_joined():
            self.complete_join(group)

    def complete_join(self, group: Group) -> None:
        """The join phase is over: dynamic members that are missing are out, the others learn the new generation."""
        if group.is_dead:
            return
        self._stop_join_timer(group)
        for member in group.members.all():
            if member.joining is None and member.instance_id is None:
                group.members.remove(member.member_id)
        if group.members and not group.members.elect_joined_leader():
            # only static members, none of them back: their sessions will end, or they come
            self._wait_for_members(group)
            return
        group.is_in_initial_delay = False
        group.start_next_generation()
        self.run(group.update_subscribed())
        if group.members:
            self._announce_generation(group)
        else:
            self.store_group(group, {}, _ignore)

    def _announce_generation(self, group: Group) -> None:
        for member in group.members.all():
            self.start_session(group, member)
            member.is_new = False
            member.answer_join(self.joined(group, member))

    def joined(self, group: Group, member: Member) -> JoinResult:
        """The answer to a member of the present generation; its leader learns of the others."""
        leads = group.members.leader_id == member.member_id
        assert group.protocol_name is not None
        return JoinResult(
            0,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.members.leader_id or "",
            group.members.joined(group.protocol_name) if leads else (),
        )

    @staticmethod
    def _stop_join_timer(group: Group) -> None:
        if group.join_timer is not None:
            group.join_timer.cancel()
            group.join_timer = None

    # Coming and going of the whole group

    def loaded(self, group: Group) -> None:
        """The group was read from the log: its members get a full session to show themselves."""
        if len(group.members) > self.settings.max_size:
            self.prepare(group)
        for member in group.members.all():
            self.start_session(group, member)

    def kill(self, group: Group, error_code: int) -> None:
        """The group is gone from here: stop its timers and send off who waits, with ``error_code``."""
        self._stop_join_timer(group)
        group.end()
        group.move_to(states.DEAD)
        for member in group.members.all():
            if member.session_timer is not None:
                member.session_timer.cancel()
                member.session_timer = None
            member.answer_join(JoinResult(error_code, member.member_id))
            member.answer_sync(SyncResult(error_code))
