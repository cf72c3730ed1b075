"""Random histories of consumers on a clock that only the test moves, checked against a simple model.

The model (``consumers.Record``) remembers all assignments. At any time: no partition has two owners in one generation;
each member gets the assignment that the leader of the generation sent, and the leader knows only members that joined;
no commit of a generation succeeds after a newer generation was assigned; acknowledged commits stay; of two consumers
with one instance id the older one is fenced; and when the failures end, the running consumers share all partitions.
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkapy.coordinator.group.classic import states
from kafkapy.metadata.errors import NotEnoughReplicasError
from kafkapy.types import TopicPartition
from tests.coordinator.consumers import PARTITIONS, Consumer, Record
from tests.coordinator.world import World

EXAMPLES = int(os.environ.get("KAFKAPY_GROUP_EXAMPLES", "40"))
CONSUMERS = st.integers(0, 4)
STATIC = st.integers(3, 4)
FENCED = 82
ROUNDS = 60
"""Rounds of steps, a second each, after which the group must be stable: sessions last 10 s, rejoining 60 s."""


class Ownership(RuleBasedStateMachine):
    """Five consumers, two of them static."""

    @initialize(
        delay=st.sampled_from([0, 3_000]), rebalance_ms=st.sampled_from([5_000, 60_000]), alive=st.sets(CONSUMERS)
    )
    def start(self, delay: int, rebalance_ms: int, alive: set[int]) -> None:
        """A member with a rebalance time-out of 5 s may miss it while its session of 10 s continues."""
        self.world = World(group_initial_rebalance_delay_ms=delay)
        self.world.commit(0, tp=TopicPartition("kept", 0))  # so that the group is never deleted as empty
        self.record = Record()
        names = ("a", "b", "c", "static-1", "static-2")
        self.consumers = [
            Consumer(name, self.world, self.record, name if name.startswith("static") else None) for name in names
        ]
        for each in self.consumers:
            each.rebalance_timeout_ms = rebalance_ms
        self.alive: set[int] = set()
        self.commits: list[Any] = []
        self.sent: dict[TopicPartition, int] = {}
        self.kept: dict[TopicPartition, int] = {}
        self.next_offset = 0
        for place in alive:
            self.step(place, 1)
        self.go_on(4)

    @rule(place=CONSUMERS, steps=st.integers(1, 5))
    def step(self, place: int, steps: int) -> None:
        self.alive.add(place)
        for _ in range(steps):
            self.consumers[place].step()

    @rule(rounds=st.integers(1, 6))
    def go_on(self, rounds: int) -> None:
        """The steps of consumers that nothing interrupts."""
        for _ in range(rounds):
            for place in sorted(self.alive):
                self.consumers[place].heartbeat()
                self.consumers[place].step()
            self.world.clock.advance(1_000)

    @rule(place=CONSUMERS)
    def heartbeat(self, place: int) -> None:
        self.consumers[place].heartbeat()

    @rule(place=CONSUMERS, partition=st.integers(0, PARTITIONS - 1))
    def commit(self, place: int, partition: int) -> None:
        self.next_offset += 1
        self.commits.append(self.consumers[place].commit(partition, self.next_offset))

    @rule(place=CONSUMERS)
    def leave(self, place: int) -> None:
        self.alive.discard(place)
        self.consumers[place].leave()

    @rule(place=CONSUMERS)
    def crash(self, place: int) -> None:
        self.alive.discard(place)
        self.consumers[place].crash()

    @rule(place=CONSUMERS)
    def fall_silent(self, place: int) -> None:
        """The consumer keeps its state, and may send requests again later."""
        self.alive.discard(place)

    @rule(place=STATIC)
    def start_twice(self, place: int) -> None:
        """Another consumer joins with the instance id of a running one."""
        old = self.consumers[place]
        new = self.consumers[place] = Consumer(old.name, self.world, self.record, old.instance_id)
        new.rebalance_timeout_ms = old.rebalance_timeout_ms
        self.alive.add(place)
        self.go_on(4)
        new.heartbeat()
        if new.is_settled and old.member_id:
            tp = TopicPartition("t", 0)
            answer = self.world.commit(0, old.member_id, old.generation, tp=tp, instance_id=old.instance_id)
            assert answer.value[tp] == FENCED
            assert self.world.heartbeat(old.member_id, old.generation, old.instance_id) == FENCED

    @rule(place=STATIC)
    def start_again_while_the_leader_assigns(self, place: int) -> None:
        self.until_the_leader_assigns()
        self.alive.add(place)
        self.consumers[place].crash()
        self.consumers[place].step()

    @rule(newcomer=CONSUMERS)
    def acknowledge_while_the_next_leader_assigns(self, newcomer: int) -> None:
        """Appends of the leader before are acknowledged before the next leader has answered."""
        self.replicas(is_slow=True)
        self.go_on(3)
        self.consumers[newcomer].crash()
        self.step(newcomer, 3)
        self.until_the_leader_assigns()
        self.replicas(is_slow=False)

    def until_the_leader_assigns(self) -> None:
        """Let the running consumers take one step each until that moment; it need not come."""
        for place in sorted(self.alive) * 3:
            if self.world.group().state is states.COMPLETING:
                return
            self.consumers[place].heartbeat()
            self.consumers[place].step()

    @rule(duration_ms=st.sampled_from([1, 3_000, 9_999, 10_000, 60_000, 300_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.world.clock.advance(duration_ms)

    @rule(is_slow=st.booleans())
    def replicas(self, is_slow: bool) -> None:
        self.world.broker.is_slow = is_slow
        if not is_slow:
            self.world.broker.acknowledge()

    @rule()
    def replicas_fail(self) -> None:
        self.world.broker.acknowledge(NotEnoughReplicasError("too few"))

    @rule()
    def fail_over(self) -> None:
        """Another broker loads the log, acknowledged records and others."""
        self.world.broker.acknowledge()
        self.settle_commits()
        self.world.restart()

    def settle_commits(self) -> None:
        for answer, tp, offset in self.commits:
            if answer.is_set and answer.value[tp] == 0:
                self.kept[tp] = offset
        self.commits = [each for each in self.commits if not each[0].is_set]

    @invariant()
    def acknowledged_commits_stay(self) -> None:
        self.settle_commits()
        for tp, offset in self.kept.items():
            # a commit that was not acknowledged may be in the log nevertheless
            assert offset <= self.world.fetch(tp=tp) <= self.next_offset

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.replicas(is_slow=False)
        self.go_on(ROUNDS)
        living = [self.consumers[place] for place in sorted(self.alive)]
        assert all(each.is_settled for each in living), [(each.name, each.generation) for each in living]
        assert len({each.generation for each in living}) <= 1
        owned = sorted(partition for each in living for partition in each.owned)
        assert owned == (list(range(PARTITIONS)) if living else [])


TestOwnership = Ownership.TestCase
TestOwnership.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
