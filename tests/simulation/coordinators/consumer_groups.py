"""Histories of a consumer group (KIP-848): members, topics and the coordinator's broker change at any time.

- *Rights*: no partition is given to a member while another one has a right to it (``rights.Rights``), and no member is
  fenced without a reason.
- *Epochs*: those of the group, of its target assignment and of each member only rise.
- *Commits*: a commit of a stale epoch is refused (113), one of the member's epoch is accepted.
- *Reload*: a coordinator that loads the log has all that was acknowledged, and nothing else if nothing was pending.
- *Settling*: when events stop, within ``ROUNDS`` heartbeats every member has the group's epoch, and each subscribed
  partition has one owner; the assignor's promise on balance holds.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.consumer.calls import ConsumerGroupDescription, HeartbeatCall, HeartbeatResult
from kafkapy.coordinator.group.consumer.group import FIRST_EPOCH
from kafkapy.coordinator.regular_expressions import RegularExpression
from kafkapy.metadata.errors import NotEnoughReplicasError
from kafkapy.metadata.image import MetadataImage, TopicImage
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.batch import iterate_headers
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import PARTITION, ConsumerWorld
from tests.simulation.cluster.invariants import Violation
from tests.simulation.coordinators.history import CoordinatorHistory, require
from tests.simulation.coordinators.members import GroupMember, Subscription
from tests.simulation.coordinators.rights import Rights

SESSION_MS: Final = 45_000
BEAT_MS: Final = 5_000
ROUNDS: Final = 20
"""Heartbeats after which the group must be settled: nine end the sessions of lost members, three a search of topics
for regular expressions, three an assignment interval, the others are the members' steps."""
SHARD: Final = TopicPartition(GROUP_METADATA_TOPIC, 0)
NAMES: Final = ("a", "b", "c", "d")
INSTANCES: Final = ("i", "j")
MOST_MEMBERS: Final = 6
GAPS_MS: Final = (1, 2_000, 5_000, 5_000, 12_000, 44_999, 46_000, 100_000)


class Topics:
    """The topics of the cluster; one that is created again has another id."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self._last_id = 0

    def create(self, name: str, count: int) -> None:
        """Create a topic."""
        self._last_id += 1
        self.counts[name], self.ids[name] = count, UUID(int=self._last_id)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        del self.counts[name], self.ids[name]

    def image(self) -> MetadataImage:
        """The metadata of the cluster."""
        topics = {
            name: TopicImage(name, dict.fromkeys(range(count), PARTITION), self.ids[name])
            for name, count in self.counts.items()
        }
        return MetadataImage("cluster", 0, {}, topics, 0, {topic_id: name for name, topic_id in self.ids.items()})


class GroupHistory(CoordinatorHistory):
    """Up to six running members, some of them static, four topics."""

    name = "group"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        interval_ms = self.random.choice((0, 0, 1_000, 15_000))
        self.world = ConsumerWorld(group_consumer_assignment_interval_ms=interval_ms)
        self.world.commit(0, tp=TopicPartition("kept", 0))  # so that the group is never deleted as empty
        self.topics = Topics()
        self.topics.create("a", self.random.randint(1, 6))
        self.topics.create("b", self.random.randint(1, 6))
        self._show_topics()
        self.rights = Rights(SESSION_MS)
        self.members: list[GroupMember] = []
        self.likes_one_subscription = self.random.random() < 0.5
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}
        self.commits: list[tuple[Answer[dict[TopicPartition, int]], TopicPartition, int]] = []
        self.kept: dict[TopicPartition, int] = {}
        self.next_offset = 0
        self.leader_epoch = 0
        self.unanswered: dict[int, str] = {}
        """The member ids of requests that are not answered yet."""
        self.violation: Violation | None = None
        self._member_count = 0
        self._actions: Sequence[tuple[int, Callable[[], None]]] = (
            (24, self._beat_one),
            (30, self._beat_all),
            (6, self._lose_response),
            (4, self._slow_down),
            (9, self._start),
            (4, self._leave),
            (3, self._crash),
            (5, self._fall_silent),
            (3, self._subscribe),
            (6, self._change_topics),
            (6, self._replicas),
            (6, self._kill),
            (4, self._lead_again),
            (8, self._pass_time),
            (10, self._commit),
        )

    # requests

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    @property
    def running(self) -> list[GroupMember]:
        return [each for each in self.members if not each.is_gone]

    def send(self, call: HeartbeatCall) -> Answer[HeartbeatResult]:
        """Send a heartbeat; the model learns of the response when there is one."""
        self.rights.sent(call, self.now_ms)
        self.note(f"{call.member_id} sends epoch {call.member_epoch}, owned {call.owned}")
        answer: Answer[HeartbeatResult] = Answer()
        self.unanswered[id(answer)] = call.member_id
        self.world.coordinator.consumer.heartbeat(call).on_set(partial(self._answered, call, answer, self.now_ms))
        return answer

    def _answered(
        self, call: HeartbeatCall, answer: Answer[HeartbeatResult], sent_ms: int, result: HeartbeatResult
    ) -> None:
        """A violation is raised by the next check: a future that is acknowledged keeps what its callbacks raise."""
        self.unanswered.pop(id(answer), None)
        self.note(f"{call.member_id} gets {result.error_code}, epoch {result.member_epoch}, {result.assignment}")
        try:
            self.rights.answered(call, result, sent_ms, self.now_ms)
        except Violation as violation:
            self.violation = self.violation or violation
        answer.set(result)

    # steps

    def step(self) -> None:
        """See ``CoordinatorHistory``."""
        weights = [weight for weight, _ in self._actions]
        (chosen,) = self.random.choices(self._actions, weights)
        self.note(chosen[1].__name__)
        chosen[1]()

    def _some(self) -> GroupMember | None:
        running = self.running
        return self.random.choice(running) if running else None

    def _beat_one(self) -> None:
        member = self._some()
        if member is not None:
            member.beat(self.send)

    def _beat_all(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._round()

    def _round(self) -> None:
        for member in self.running:
            if not member.is_silent:
                member.beat(self.send)
        self.world.clock.advance(BEAT_MS)

    def _lose_response(self) -> None:
        member = self._some()
        if member is not None and not member.lose_response(self.send) and member.reconnect():
            self.rights.outcome_unknown(member.member_id, self.now_ms)

    def _slow_down(self) -> None:
        member = self._some()
        if member is not None:
            member.is_slow = not member.is_slow

    def _start(self) -> None:
        if len(self.running) >= MOST_MEMBERS:
            return
        self._member_count += 1
        instance_id = self.random.choice((None, None, *INSTANCES))
        rebalance_ms = self.random.choice((7_000, 60_000))
        member = GroupMember(f"m{self._member_count}", instance_id, rebalance_ms, self._subscription())
        self.members.append(member)
        member.beat(self.send)

    def _subscription(self) -> Subscription:
        if self.likes_one_subscription:
            return Subscription(("a", "b", "c"))
        assignor = self.random.choice((None, None, "uniform", "range"))
        if self.random.random() < 0.3:
            return Subscription((), self.random.choice(("a|c", ".*", "[bd]")), assignor)
        names = self.random.sample(NAMES, self.random.randint(1, 4))
        return Subscription(tuple(sorted(names)), assignor=assignor)

    def _leave(self) -> None:
        member = self._some()
        if member is not None:
            epoch = -1 if member.instance_id is None else self.random.choice((-1, -2, -2))
            member.leave(self.send, epoch)

    def _crash(self) -> None:
        member = self._some()
        if member is not None:
            member.end()

    def _fall_silent(self) -> None:
        member = self._some()
        if member is not None:
            member.is_silent = not member.is_silent

    def _subscribe(self) -> None:
        member = self._some()
        if member is not None:
            member.subscribe(self._subscription())

    def _change_topics(self) -> None:
        name, topics = self.random.choice(NAMES), self.topics
        if name not in topics.counts:
            topics.create(name, self.random.randint(1, 6))
        elif self.random.random() < 0.5:
            topics.counts[name] += self.random.randint(1, 3)
        else:
            topics.delete(name)
            if self.random.random() < 0.3:
                topics.create(name, self.random.randint(1, 6))
        self._show_topics()

    def _show_topics(self) -> None:
        self.world.broker.image = self.topics.image()  # type: ignore[assignment] # as in ConsumerWorld

    def _replicas(self) -> None:
        broker = self.world.broker
        what = self.random.choice(("slow", "slow", "fast", "acknowledge", "fail"))
        if what == "slow":
            broker.is_slow = True
        elif what == "fail":
            broker.acknowledge(NotEnoughReplicasError("too few"))
        else:
            broker.is_slow = broker.is_slow and what != "fast"
            broker.acknowledge()

    def _pass_time(self) -> None:
        self.world.clock.advance(self.random.choice(GAPS_MS))

    # commits

    def _commit(self) -> None:
        member = self._some()
        owned = sorted((self.topics.image().topic_name(topic_id), topic_id, each) for topic_id, each in
                       (member.owned if member else ()) if self.topics.image().topic_name(topic_id))  # fmt: skip
        if member is None or not owned:
            return
        name, topic_id, number = self.random.choice(owned)
        assert name is not None
        epoch = max(member.epoch - self.random.choice((0, 0, 1, 2)), 0)
        expected = self.rights.may_commit(member.member_id, epoch, (topic_id, number), self.now_ms)
        self.next_offset += 1
        partition = TopicPartition(name, number)
        answer = self.world.commit(
            self.next_offset, member.member_id, epoch, tp=partition, instance_id=member.instance_id,
            has_member_epoch=True,
        )  # fmt: skip
        self.commits.append((answer, partition, self.next_offset))
        code = answer.value[partition] if answer.is_set else ErrorCode.NONE
        self.note(f"{member.member_id} commits {partition} at epoch {epoch}: {code}")
        is_accepted = not code
        if code not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR) and expected is not None:
            require(is_accepted == expected, f"a commit of {member.member_id} at epoch {epoch}: {code}")
            require(is_accepted or code == ErrorCode.STALE_MEMBER_EPOCH, f"a stale commit got {code}")

    def _settle_commits(self) -> None:
        for answer, partition, offset in self.commits:
            if answer.is_set and answer.value[partition] == 0:
                self.kept[partition] = offset
        self.commits = [each for each in self.commits if not each[0].is_set]

    # the coordinator's broker

    def _kill(self) -> None:
        """The broker dies: of the records that no replica had acknowledged some first ones are in the log."""
        before, broker, log = self._describe(), self.world.broker, self.world.log
        pending, broker.unacknowledged = broker.unacknowledged, []
        acknowledged = min((result.first_offset for _, result in pending), default=log.log_end_offset)
        self.world.coordinator.shutdown()
        bases = [next(iterate_headers(data))[1].base_offset for data in log.batches]
        kept = self.random.randint(sum(base < acknowledged for base in bases), len(bases))
        log.log_end_offset = log.log_end_offset if kept == len(bases) else bases[kept]
        del log.batches[kept:]
        self._forget_requests()
        broker.is_slow = False
        self.world.start()
        self.note(f"the log is loaded to {log.log_end_offset}, {len(pending)} appends were pending")
        self._check_reload(before, is_exact=not pending)

    def _lead_again(self) -> None:
        """Another broker leads the partition for a moment, so that the log is loaded again."""
        before, broker = self._describe(), self.world.broker
        is_exact = not broker.unacknowledged
        self.leader_epoch += 1
        self.world.resign(SHARD, self.leader_epoch)
        broker.acknowledge()
        self._forget_requests()
        self.leader_epoch += 1
        self.world.lead(SHARD, self.leader_epoch)
        self._check_reload(before, is_exact=is_exact)

    def _forget_requests(self) -> None:
        for member_id in self.unanswered.values():
            self.rights.outcome_unknown(member_id, self.now_ms)
        self.unanswered.clear()
        for member in self.members:
            member.reconnect()

    def _describe(self) -> ConsumerGroupDescription | None:
        described = self.world.describe()
        return None if described.error_code else described

    def _check_reload(self, before: ConsumerGroupDescription | None, *, is_exact: bool) -> None:
        after = self._describe()
        if before is None or before.group_epoch == FIRST_EPOCH:
            return  # its first records were not acknowledged
        assert after is not None, "a group that was acknowledged exists"
        if is_exact:
            require(_shown(after) == _shown(before), f"the log was loaded as {after}, it was {before}")
        found = {each.member_id: each.member_epoch for each in after.members}
        for member in before.members:
            epoch = found.get(member.member_id, 0)
            if min(epoch, member.member_epoch) > 0:
                require(epoch >= member.member_epoch, f"{member.member_id} was loaded with epoch {epoch}")

    # laws

    def check(self) -> None:
        """See ``CoordinatorHistory``."""
        if self.violation is not None:
            raise self.violation
        self._settle_commits()
        for partition, offset in self.kept.items():
            found = self.world.fetch(tp=partition)
            require(offset <= found <= self.next_offset, f"{partition} has offset {found}, {offset} was acknowledged")
        described = self._describe()
        if described is None:
            return
        epochs = described.group_epoch, described.assignment_epoch
        require(all(now >= then for now, then in zip(epochs, self.epochs, strict=True)), f"{epochs} < {self.epochs}")
        self.epochs = epochs
        held: dict[Any, str] = {}
        for member in described.members:
            require(member.member_epoch <= described.assignment_epoch, f"{member} is ahead of {epochs}")
            for topic in member.assignment:
                for each in topic.partitions:
                    other = held.setdefault((topic.topic_id, each), member.member_id)
                    require(other == member.member_id, f"{other} and {member.member_id} have {topic.topic_name}-{each}")

    # the end

    def settle(self) -> None:
        """See ``CoordinatorHistory``."""
        self.world.broker.is_slow = False
        self.world.broker.acknowledge()
        for member in self.members:
            member.is_slow = member.is_silent = False
        problem = ""
        for _ in range(ROUNDS):
            self._round()
            self.check()
        problem = self._unsettled()
        require(not problem, f"the group does not settle: {problem}")

    def close(self) -> None:
        """See ``CoordinatorHistory``."""
        self.world.coordinator.shutdown()

    def _unsettled(self) -> str:
        described, running = self._describe(), self.running
        if described is None:
            return "" if not running else "no group"
        known = {each.member_id: each.member_epoch for each in described.members}
        wanted = dict.fromkeys((each.member_id for each in running), described.group_epoch)
        if known != wanted or {each.member_id: each.epoch for each in running} != wanted:
            return f"members {known} of epoch {described.group_epoch}, {wanted} run"
        subscribed = {each.member_id: self._subscribed(each) for each in running}
        owners = [(partition, each) for each in running for partition in sorted(each.owned)]
        partitions = sorted(partition for partition, _ in owners)
        expected = sorted(
            (topic_id, number)
            for name, topic_id in self.topics.ids.items()
            if any(name in names for names in subscribed.values())
            for number in range(self.topics.counts[name])
        )
        if partitions != expected:
            return f"{partitions} are assigned, {expected} are subscribed"
        image = self.topics.image()
        for (topic_id, _), member in owners:
            if image.topic_name(topic_id) not in subscribed[member.member_id]:
                return f"{member.member_id} has {topic_id}, it does not subscribe to it"
        return self._unbalanced(running)

    def _subscribed(self, member: GroupMember) -> set[str]:
        names, pattern = set(member.subscription.topic_names), member.subscription.topic_regex
        return names | (
            {name for name in self.topics.counts if RegularExpression(pattern).matches(name)} if pattern else set()
        )

    def _unbalanced(self, running: list[GroupMember]) -> str:
        """Say which promise the assignor breaks, if all members that prefer one prefer the same."""
        assignors = {each.subscription.assignor for each in running} - {None} or {"uniform"}
        if assignors == {"uniform"}:
            return self._movable(running)
        asked = {(each.subscription.topic_names, each.subscription.topic_regex) for each in running}
        if len(assignors) != 1 or len(asked) != 1:
            return ""
        for topic_id in sorted(self.topics.ids.values()):
            sizes = [sum(key == topic_id for key, _ in each.owned) for each in running]
            if max(sizes) - min(sizes) > 1:
                return f"members have {sizes} partitions of {topic_id}"
        return ""

    def _movable(self, running: list[GroupMember]) -> str:
        """Name a partition whose owner has two partitions more than another subscriber of its topic."""
        for name, topic_id in self.topics.ids.items():
            subscribers = [each for each in running if name in self._subscribed(each)]
            least = min((len(each.owned) for each in subscribers), default=0)
            for owner in subscribers:
                if len(owner.owned) > least + 1 and any(key == topic_id for key, _ in owner.owned):
                    return f"{owner.member_id} has {len(owner.owned)} partitions, another subscriber of {name} {least}"
        return ""


def _shown(described: ConsumerGroupDescription) -> Any:
    return described._replace(members=()), {each.member_id: each for each in described.members}
