"""A coordinator with topics that have ids, and requests of members of consumer groups."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.calls import JoinResult, LeavingMember
from kafkapy.coordinator.group.consumer.calls import ConsumerGroupDescription, HeartbeatCall, HeartbeatResult
from kafkapy.coordinator.group.consumer.group import ConsumerGroup
from kafkapy.coordinator.group.records import encode_versioned, versioned
from kafkapy.coordinator.runtime import Background
from kafkapy.metadata.image import MetadataImage, PartitionInfo, TopicImage
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafkapy.turns import Steps, finish
from tests.coordinator.world import World

T, U = UUID(int=1), UUID(int=2)
FIRST_STEPS = 30
"""The steps of work that is not kept for later."""
PARTITION = PartitionInfo(0, 0, (0,), (0,))


def image(**counts: int) -> MetadataImage:
    """The topics, with ids in the order of their names from 1 on."""
    ids = {name: UUID(int=number) for number, name in enumerate(sorted(counts), 1)}
    topics = {
        name: TopicImage(name, dict.fromkeys(range(count), PARTITION), ids[name]) for name, count in counts.items()
    }
    return MetadataImage("cluster", 0, {}, topics, 0, {topic_id: name for name, topic_id in ids.items()})


class ConsumerWorld(World):
    """A coordinator of consumer groups; topic ``t`` has three partitions, ``u`` has two."""

    def __init__(self, **config: Any) -> None:
        self.first_steps = FIRST_STEPS
        super().__init__(**config)
        self.set_topics(t=3, u=2)

    def run_slowly(self) -> None:
        """Start again: background work is kept in ``later`` after its first steps."""
        self.background = Background(run=self._begin, soon=self._call_soon)
        self.restart()

    def _begin(self, steps: Steps[None]) -> None:
        for _ in range(self.first_steps):
            try:
                next(steps)
            except StopIteration:
                return
        self.later.append(steps)

    def _call_soon(self, call: Callable[[], None]) -> None:
        self.later.append(_steps_of(call))

    def finish_later(self) -> None:
        """Run the background work that was kept to its end."""
        while self.later:
            finish(self.later.pop(0))

    def set_topics(self, **counts: int) -> None:
        self.broker.image = image(**counts)  # type: ignore[assignment] # the tests of other groups need fewer fields

    def send(self, member_id: str, member_epoch: int, **fields: Any) -> Answer[HeartbeatResult]:
        owned = fields.pop("owned", None)
        if owned is not None:
            fields["owned"] = {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}
        call = HeartbeatCall(fields.pop("group_id", "g"), member_id, member_epoch, "client", "/127.0.0.1", **fields)
        return self.coordinator.consumer.heartbeat(call)

    def beat(self, member_id: str, member_epoch: int, **fields: Any) -> HeartbeatResult:
        return self.send(member_id, member_epoch, **fields).value

    def enter_call(self, **fields: Any) -> dict[str, Any]:
        return {"topic_names": ("t",), "rebalance_timeout_ms": 30_000, "owned": {}} | fields

    def enter(self, member_id: str, **fields: Any) -> HeartbeatResult:
        """The member joins."""
        return self.beat(member_id, 0, **self.enter_call(**fields))

    def epochs(self, member_id: str, member_epoch: int, **fields: Any) -> tuple[int, dict[UUID, list[int]] | None]:
        """A heartbeat that must succeed: the epoch and the partitions in the response."""
        return shown(self.beat(member_id, member_epoch, **fields))

    def consumer_group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.coordinator._runtime.shards[0].groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def describe(self, group_id: str = "g") -> ConsumerGroupDescription:
        return finish(self.coordinator.consumer.describe(group_id))

    def state(self) -> tuple[str, int, int]:
        described = self.describe()
        return described.state, described.group_epoch, described.assignment_epoch


def _steps_of(call: Callable[[], None]) -> Steps[None]:
    yield
    call()


def shown(result: HeartbeatResult) -> tuple[int, dict[UUID, list[int]] | None]:
    assert result.error_code == 0, result
    assignment = result.assignment
    return result.member_epoch, None if assignment is None else {key: sorted(each) for key, each in assignment.items()}


def embedded(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """A message of the consumers' protocol."""
    return encode_versioned(message, version)


def metadata(*topics: str, owned: dict[str, list[int]] | None = None, rack: str | None = None) -> bytes:
    """What a consumer of the classic protocol sends in its JoinGroup."""
    partitions = [ConsumerProtocolSubscriptionTopicPartition(topic, each) for topic, each in (owned or {}).items()]
    return embedded(ConsumerProtocolSubscription(list(topics), None, partitions, -1, rack))


def part(user_data: bytes | None = None, **partitions: list[int]) -> bytes:
    """What a leader assigns to one member."""
    topics = [ConsumerProtocolAssignmentTopicPartition(topic, each) for topic, each in partitions.items()]
    return embedded(ConsumerProtocolAssignment(topics, user_data))


def partitions_of(assignment: bytes) -> dict[str, list[int]]:
    """The partitions that a SyncGroup returns."""
    _, reader = versioned(assignment)
    read = ConsumerProtocolAssignment.read(reader, 3)
    return {each.topic: each.partitions for each in read.assigned_partitions}


class MigrationWorld(ConsumerWorld):
    """Members of the classic protocol too; topic ``t`` has three partitions."""

    def join_as(self, member_id: str = "", *topics: str, **fields: Any) -> Answer[JoinResult]:
        """A JoinGroup of a member of the classic protocol, which subscribes to ``t`` unless told otherwise."""
        owned = fields.pop("owned", None)
        protocols = (("range", metadata(*(topics or ("t",)), owned=owned)),)
        return self.join(member_id, **({"protocols": protocols} | fields))

    def classic(self, assignment: bytes = part(t=[0, 1, 2]), **fields: Any) -> str:
        """A Stable classic group of one member with the partitions; returns its id."""
        joined = self.join_as(**fields).value
        assert joined.error_code == 0
        answer = self.sync(joined.member_id, joined.generation_id, assignments={joined.member_id: assignment})
        assert answer.value.error_code == 0
        return joined.member_id

    def leave(self, *members: LeavingMember) -> tuple[int, list[int]]:
        return finish(self.coordinator.classic.leave("g", members))

    def types(self) -> list[tuple[str, str]]:
        """The types and states of the groups."""
        _, listings = finish(self.coordinator.list_groups())
        return [(each.group_type, each.state) for each in listings]

    def epochs_of(self) -> dict[str, tuple[int, bool]]:
        """The epoch of each member, and whether it is a classic one."""
        return {each.member_id: (each.member_epoch, each.is_classic) for each in self.describe().members}
