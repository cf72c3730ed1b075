"""The rebalance of a group: the join phase, the sessions of members, and their time-outs.

States (``states.py`` has the transitions and the error of each request in each state)

    Empty                 no members; offsets may be committed without a member
    PreparingRebalance    the join phase: the members must join (again), their JoinGroup requests wait
    CompletingRebalance   the generation is decided; the SyncGroup requests wait for the leader's assignment
    Stable                every member has its assignment
    Dead                  deleted, or this broker no longer leads the group's partition

Order of events, from the first member to a stable group

    1. JoinGroup: ``membership.join`` adds the member, its request waits (``Member.wait_for_join``). ``prepare`` moves
       the group to PreparingRebalance. An Empty group waits ``group.initial.rebalance.delay.ms``, and again if members
       have joined meanwhile; any other group waits until all members have joined, at most for the longest rebalance
       time-out among them.
    2. ``complete_join``: dynamic members that have not joined are removed, static ones stay until their sessions end.
       The generation grows by one and the group is in CompletingRebalance. All waiting JoinGroup requests are answered;
       the leader's response has the metadata of all members. No record has been written to the log until then.
    3. SyncGroup: ``membership.sync`` keeps the requests waiting. The leader's one has the assignment, which is appended
       to the log as the group's record (``store_group``).
    4. When the record is acknowledged (``offsets.commit.required.acks``), its replay (``replay.py``) settles the
       assignment and moves the group to Stable; then ``membership.propagate`` answers the waiting SyncGroup requests.
    5. A Heartbeat moves the deadline of its member's session. When a member joins, leaves, or its session ends
       (``remove_member``), the order starts again at 1; requests of the others get REBALANCE_IN_PROGRESS.

    A member that sends heartbeats after 2 but no SyncGroup would keep the others waiting in 3. When the longest
    rebalance time-out has passed since 2, the members that joined and sent no SyncGroup are removed (KAFKA-12890), and
    the order starts again.

The last member leaves, or its session ends

    ``ClassicGroups.leave`` → ``membership.leave`` → ``Rebalancer.remove_member`` → ``prepare`` (Stable and
    CompletingRebalance; in PreparingRebalance ``try_complete_join``) → ``complete_join`` →
    ``Group.start_next_generation``: Empty, a generation more → ``store_group`` without members. The offsets stay;
    ``OffsetRemover.expire`` deletes them, and then the group, after ``offsets.retention.minutes``.

    ``complete_join`` is called in the same request, since no member is missing, with two exceptions: in the initial
    delay of PreparingRebalance it waits until the delay is over; while a member id is pending (``add_pending``) it is
    called by a timer, in Stable and CompletingRebalance one of 0 ms, since no member has a rebalance time-out.

A crash of the broker, or a change of the partition's leader

    before the record of 4 is in the log   the new coordinator loads the generation before. Members of the lost one get
                                           UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION and join again. No member has
                                           an assignment of the lost generation, since 4 comes before the responses
    after it, before the responses         the group is loaded as Stable in the new generation. A repeated SyncGroup is
                                           answered from the loaded assignment
    in Stable                              members and assignments are loaded, session timers restart (``loaded``);
                                           heartbeats continue, there is no rebalance
    after the last member left             if the record without members was not written, the members before are loaded
                                           and removed again when their sessions end

Timers: one for each member's session, one for each member id that was handed out and has not joined (``add_pending``),
one for a group's join phase, or for the SyncGroup requests after it. A heartbeat only moves its member's deadline; a
session timer that fires before the deadline is set again for the remaining time.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import JoinResult, SyncResult
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.coordinator.group.classic.members import Member
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.runtime import Background
from kafkapy.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""The longest wait of a new member's first JoinGroup. It has no id yet, so it can't send heartbeats; a client that has
closed its connection must not delay the others for ever."""

JOIN_AGAIN_MS: Final = 100
"""The shortest wait for static members after the end of a join phase in which no member has joined.

Their rebalance time-out may be 0: Apache Kafka then ends the phase again and again without a pause, until their
sessions end."""

SHORTEST_SYNC_MS: Final = 1000
"""The shortest wait for the SyncGroup requests of a new generation, for members whose rebalance time-out is 0."""

StoreGroup = Callable[[ClassicGroup, Mapping[str, bytes]], Answer[int]]
"""Appends the record of a group with these assignments; the answer is 0 once it is replayed, or an error code."""


class Rebalancer:
    """Runs the join phases of groups and the sessions of their members."""

    def __init__(self, settings: GroupSettings, clock: Clock, store_group: StoreGroup, background: Background) -> None:
        self.settings = settings
        self.store_group = store_group
        self.counters = background.counters
        self.run = background.run
        self._clock = clock

    # Sessions

    def touch(self, member: Member) -> None:
        """Start the session time-out again. Only the deadline changes: heartbeats are the most frequent requests."""
        member.session_deadline_ms = self._clock.monotonic_s() * 1000 + member.session_timeout_ms

    def start_session(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """Start the member's session now, with a timer; of ``timeout_ms``, or of the session time-out."""
        duration_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_deadline_ms = self._clock.monotonic_s() * 1000 + duration_ms
        if member.session_timer is not None:
            member.session_timer.cancel()
        member.session_timer = self._clock.call_later(duration_ms, self._session_timer_fired, group, member)

    def _session_timer_fired(self, group: ClassicGroup, member: Member) -> None:
        member.session_timer = None
        if group.is_dead:
            return
        remaining_ms = member.session_deadline_ms - self._clock.monotonic_s() * 1000
        if remaining_ms >= 1:
            member.session_timer = self._clock.call_later(remaining_ms, self._session_timer_fired, group, member)
        elif member.is_new or not member.is_waiting:
            self.remove_member(group, member)
        # else its request waits here: the member's session starts again with the response

    def add_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Keep an id that was handed out until its client joins with it, for ``timeout_ms`` at most."""
        group.add_pending(member_id, self._clock.call_later(timeout_ms, self.remove_pending, group, member_id))

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Forget an id that was handed out: its client left or did not join in time."""
        if group.remove_pending(member_id):
            self.try_complete_join(group)

    def remove_member(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member that left or whose session ended; the other members rebalance.

        Without other members the group becomes Empty.
        """
        self._drop(group, member)
        if group.state in (states.STABLE, states.COMPLETING):
            self.prepare(group)
        else:
            self.try_complete_join(group)

    @staticmethod
    def _drop(group: ClassicGroup, member: Member) -> None:
        group.members.remove(member.member_id)
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))

    # The join phase

    def maybe_prepare(self, group: ClassicGroup) -> None:
        """Start a join phase if the state allows it; in PreparingRebalance one is running already."""
        if states.PREPARING in states.TRANSITIONS[group.state]:
            self.prepare(group)

    def prepare(self, group: ClassicGroup) -> None:
        """Start a join phase: all members must join (again), within the longest rebalance time-out among them."""
        self._stop_phase_timer(group)
        if group.state is states.COMPLETING:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        is_first_member = group.state is states.EMPTY
        group.transition_to(states.PREPARING)
        group.has_new_member = False
        if is_first_member:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_initially(group, delay_ms, max(group.members.rebalance_timeout_ms() - delay_ms, 0))
        else:
            self._wait_for_members(group)

    def reset_assignments(self, group: ClassicGroup, error_code: int) -> None:
        """Answer waiting SyncGroup requests with ``error_code``: their generation gets no assignment."""
        for member in group.members.all():
            group.members.assign(member, b"")
            if member.answer_sync(SyncResult(error_code)):
                self.start_session(group, member)

    def _wait_initially(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Wait for more members of an Empty group, so that members that start together need one rebalance only."""
        group.is_in_initial_delay = True
        if delay_ms == 0:
            self.complete_join(group)
        else:
            group.phase_timer = self._clock.call_later(
                delay_ms, self._initial_delay_over, group, delay_ms, remaining_ms
            )

    def _initial_delay_over(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        if group.has_new_member and remaining_ms:
            group.has_new_member = False
            next_delay_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_initially(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
        else:
            self.complete_join(group)

    def _wait_for_members(self, group: ClassicGroup, shortest_ms: int = 0) -> None:
        group.is_in_initial_delay = False
        if group.have_all_joined():
            self.complete_join(group)
        else:
            timeout_ms = max(group.members.rebalance_timeout_ms(), shortest_ms)
            group.phase_timer = self._clock.call_later(timeout_ms, self.complete_join, group)

    def try_complete_join(self, group: ClassicGroup) -> None:
        """End the join phase if no member is missing any more."""
        if group.state is states.PREPARING and not group.is_in_initial_delay and group.have_all_joined():
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        """End the join phase: remove missing dynamic members, start the next generation, answer JoinGroup requests."""
        if group.is_dead:
            return
        self._stop_phase_timer(group)
        for member in group.members.all():
            if member.joining is None and member.instance_id is None:
                group.members.remove(member.member_id)
        if group.members and not group.members.elect_joined_leader():
            # only static members, none of which has joined: they join later, or their sessions end
            self._wait_for_members(group, JOIN_AGAIN_MS)
            return
        group.is_in_initial_delay = False
        group.start_next_generation()
        self.run(group.update_subscribed())
        if group.members:
            self._announce_generation(group)
        else:
            # if the log refuses an empty generation, a restart loads the members before it, whose sessions end
            self.store_group(group, {})

    def _announce_generation(self, group: ClassicGroup) -> None:
        timeout_ms = max(group.members.rebalance_timeout_ms(), SHORTEST_SYNC_MS)
        group.phase_timer = self._clock.call_later(timeout_ms, self._remove_without_sync, group)
        for member in group.members.all():
            self.start_session(group, member)
            member.is_new = False
            member.has_synced = member.joining is None  # a static member that is absent: its session ends
            member.answer_join(self.joined(group, member))

    def _remove_without_sync(self, group: ClassicGroup) -> None:
        """Remove the members that have sent no SyncGroup since the last join phase; the others rebalance."""
        group.phase_timer = None
        late = [member for member in group.members.all() if not member.has_synced]
        for member in late:
            self._drop(group, member)
        if late:
            self.prepare(group)

    def joined(self, group: ClassicGroup, member: Member) -> JoinResult:
        """The JoinGroup result of a member of the present generation; the leader's has all members."""
        is_leader = group.members.leader_id == member.member_id
        assert group.protocol_name is not None
        return JoinResult(
            0,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.members.leader_id or "",
            group.members.joined(group.protocol_name) if is_leader else (),
        )

    @staticmethod
    def _stop_phase_timer(group: ClassicGroup) -> None:
        if group.phase_timer is not None:
            group.phase_timer.cancel()
            group.phase_timer = None

    # The group becomes one of another type

    def suspend(self, group: ClassicGroup) -> None:
        """Stop all time-outs, and answer waiting requests: the members join again, the group of the other type."""
        self._stop_phase_timer(group)
        if group.state is not states.PREPARING:
            group.transition_to(states.PREPARING)
        for member in group.members.all():
            if member.session_timer is not None:
                member.session_timer.cancel()
                member.session_timer = None
            member.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def resume(self, group: ClassicGroup) -> None:
        """The group remains one of this type: wait for the members to join again."""
        for member in group.members.all():
            self.start_session(group, member)
        self._wait_for_members(group)

    # Load and unload of the whole group

    def loaded(self, group: ClassicGroup) -> None:
        """Start the sessions of a group's members that were loaded; a group above ``group.max.size`` rebalances."""
        if len(group.members) > self.settings.max_size:
            self.prepare(group)
        for member in group.members.all():
            self.start_session(group, member)

    def kill(self, group: ClassicGroup, error_code: int) -> None:
        """Move a deleted or unloaded group to Dead: stop its timers, answer waiting requests with ``error_code``."""
        self._stop_phase_timer(group)
        group.end()
        group.transition_to(states.DEAD)
        for member in group.members.all():
            if member.session_timer is not None:
                member.session_timer.cancel()
                member.session_timer = None
            member.answer_join(JoinResult(error_code, member.member_id))
            member.answer_sync(SyncResult(error_code))
