"""Random histories of a group on a clock that only the test moves: the laws of ``states.py`` always hold."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import JoinResult, LeavingMember
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import RANGE, World, subscription

STICKY = (("sticky", subscription("t")), ("range", subscription("t")))
PARTITIONS = st.sampled_from([TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)])
INSTANCES = st.sampled_from(["i", "j"])


class GroupLife(RuleBasedStateMachine):
    """Members join, send requests, stop sending and leave; replicas are slow; the coordinator is reloaded."""

    ids = Bundle("ids")

    @initialize(delay=st.sampled_from([0, 3_000]), max_size=st.sampled_from([3, 2**31 - 1]))
    def start(self, delay: int, max_size: int) -> None:
        self.world = World(group_initial_rebalance_delay_ms=delay, group_max_size=max_size)
        self.generation = 0
        self.offsets: dict[TopicPartition, int] = {}
        self.joins: list[Answer[JoinResult]] = []
        self.syncs: list[Answer[Any]] = []
        self.commits: list[tuple[Answer[Any], TopicPartition, int]] = []
        self.next_offset = 0

    def group(self) -> ClassicGroup | None:
        return self.world.group() if self.world.has_group() else None

    def keep(self, answer: Answer[JoinResult]) -> Any:
        self.joins.append(answer)
        if answer.is_set:
            assert answer.value.error_code in (0, 16, 23, 25, 79, 81, 82), answer.value
            if answer.value.member_id:
                return answer.value.member_id
        group = self.group()
        waiting = [] if group is None else [each.member_id for each in group.members.all() if each.joining is answer]
        return multiple(*waiting)

    @rule(target=ids, protocols=st.sampled_from([RANGE, STICKY]), named=st.booleans())
    def join(self, protocols: Any, named: bool) -> Any:
        return self.keep(self.world.join(protocols=protocols, requires_known_member_id=named))

    @rule(target=ids, instance_id=INSTANCES, protocols=st.sampled_from([RANGE, STICKY]))
    def join_as_static(self, instance_id: str, protocols: Any) -> Any:
        return self.keep(self.world.join(instance_id=instance_id, protocols=protocols))

    @rule(target=ids, member_id=ids, protocols=st.sampled_from([RANGE, STICKY]))
    def rejoin(self, member_id: str, protocols: Any) -> Any:
        return self.keep(self.world.join(member_id, protocols=protocols))

    @rule(member_id=ids, is_old=st.booleans())
    def sync(self, member_id: str, is_old: bool) -> None:
        group = self.group()
        generation = 0 if group is None else group.generation_id - is_old
        parts = {} if group is None else {each: each.encode() for each in group.members}
        answer = self.world.sync(member_id, generation, assignments=parts)
        self.syncs.append(answer)
        if answer.is_set and answer.value.error_code == 0:
            assert group is not None
            assert group.state is states.STABLE

    @rule()
    def all_join_again(self) -> None:
        group = self.group()
        for member in [] if group is None else group.members.all():
            if member.joining is None:
                self.keep(self.world.join(member.member_id, protocols=member.protocols))

    @rule(with_leader=st.booleans())
    def all_sync(self, with_leader: bool) -> None:
        group = self.group()
        for member_id in [] if group is None else list(group.members):
            if with_leader or member_id != group.members.leader_id:
                self.syncs.append(self.world.sync(member_id, group.generation_id))

    @rule()
    def all_live(self) -> None:
        group = self.group()
        for member_id in [] if group is None else list(group.members):
            self.heartbeat(member_id)

    @rule(member_id=ids)
    def heartbeat(self, member_id: str) -> None:
        group = self.group()
        expected = 25 if group is None or member_id not in group.members else states.HEARTBEAT[group.state]
        assert self.world.heartbeat(member_id, 0 if group is None else group.generation_id) == expected

    @rule(member_id=ids)
    def leave(self, member_id: str) -> None:
        finish(self.world.coordinator.classic.leave("g", [LeavingMember(member_id)]))
        group = self.group()
        assert group is None or (member_id not in group.members and member_id not in group.pending)

    @rule(instance_id=INSTANCES)
    def leave_as_static(self, instance_id: str) -> None:
        finish(self.world.coordinator.classic.leave("g", [LeavingMember("", instance_id)]))

    @rule(duration_ms=st.sampled_from([1, 2_999, 9_000, 10_000, 60_000, 600_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.world.clock.advance(duration_ms)

    @rule(member_id=ids, partition=PARTITIONS, with_group=st.booleans())
    def commit(self, member_id: str, partition: TopicPartition, with_group: bool) -> None:
        self.next_offset += 1
        group = self.group()
        generation = group.generation_id if with_group and group is not None else -1
        answer = self.world.commit(self.next_offset, member_id if with_group else "", generation, tp=partition)
        self.commits.append((answer, partition, self.next_offset))

    @rule(is_slow=st.booleans())
    def replicas(self, is_slow: bool) -> None:
        self.world.broker.is_slow = is_slow
        if not is_slow:
            self.world.broker.acknowledge()

    @rule()
    def reload(self) -> None:
        """As after a restart: all records of the log count, acknowledged by then or not."""
        self.world.broker.acknowledge()
        self.settle_commits()
        self.world.restart()
        assert all(answer.is_set for answer in (*self.joins, *self.syncs))
        group = self.group()
        self.generation = 0 if group is None else group.generation_id

    def settle_commits(self) -> None:
        for answer, partition, offset in self.commits:
            if answer.is_set and answer.value[partition] == 0:
                self.offsets[partition] = offset
        self.commits = [each for each in self.commits if not each[0].is_set]

    @invariant()
    def generations_only_grow(self) -> None:
        group = self.group()
        if group is not None:
            assert group.generation_id >= self.generation
            self.generation = group.generation_id
        else:
            self.generation = 0

    @invariant()
    def there_is_one_leader_if_there_are_members(self) -> None:
        group = self.group()
        if group is not None:
            assert (group.members.leader_id in group.members) == bool(group.members)
            assert (group.state is states.EMPTY) <= (not group.members)
            assert (group.state in (states.COMPLETING, states.STABLE)) <= bool(group.members)

    @invariant()
    def nobody_is_in_two_places(self) -> None:
        group = self.group()
        if group is not None:
            assert not set(group.pending) & set(group.members)
            assert all(member_id == member.member_id for member_id, member in group.members.items())
            for instance_id, member_id in group.members.static_ids.items():
                assert group.members[member_id].instance_id == instance_id

    @invariant()
    def members_wait_only_for_what_comes(self) -> None:
        group = self.group()
        if group is not None:
            for member in group.members.values():
                assert member.syncing is None or group.state is states.COMPLETING
                is_replaced = group.state is states.STABLE and self.world.broker.unacknowledged
                assert member.joining is None or group.state is states.PREPARING or is_replaced
        waiting = sum(not answer.is_set for answer in self.joins)
        held = 0 if group is None else group.members.waiting_for_join()
        assert waiting == held

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        self.settle_commits()
        if not self.world.broker.unacknowledged:
            for partition, offset in self.offsets.items():
                assert self.world.fetch(tp=partition) == offset


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
