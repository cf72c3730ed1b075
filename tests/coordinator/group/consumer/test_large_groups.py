"""Groups with so many members that a decision takes many steps, between which requests of other members arrive."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kafkapy.coordinator.group.consumer.calls import HeartbeatResult
from kafkapy.coordinator.group.records import ConsumerAssignmentEpochKey, decode_key
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import ConsumerWorld, T, U, shown

PLACE = TopicPartition(GROUP_METADATA_TOPIC, 0)
MANY = 500
INTERVAL_MS = 1_000


class LargeWorld(ConsumerWorld):
    """A group with many members, of which one had a target assignment so far; a partition for each member."""

    def __init__(self) -> None:
        super().__init__(group_consumer_assignment_interval_ms=INTERVAL_MS)
        self.clock.advance(5_000)
        self.set_topics(t=MANY)
        for number in range(MANY):
            self.enter(f"m{number}")
        assert self.assignments_in_log() == 1
        self.clock.advance(INTERVAL_MS)

    def assignments_in_log(self) -> int:
        """How many target assignments were computed."""
        keys = [decode_key(record.key or b"") for record in self.log.records()]
        return sum(isinstance(key, ConsumerAssignmentEpochKey) for key in keys)

    def only(self) -> Steps[None]:
        """The background work that was kept, of which there is one."""
        (steps,) = self.later
        self.later.clear()
        return steps


def owned(result: HeartbeatResult) -> Mapping[UUID, object]:
    assert result.error_code == 0
    return result.assignment or {}


def test_requests_wait_for_the_assignment_and_share_it() -> None:
    world = LargeWorld()
    world.run_slowly()
    world.finish_later()
    first = world.send("m0", 2, owned={T: range(MANY)})
    others = [world.send(f"m{number}", 2) for number in range(1, MANY)]
    assert not first.is_set
    assert world.state()[0] == "Assigning"
    assert world.delete_groups(["g"]) == {"g": ErrorCode.NON_EMPTY_GROUP}
    world.finish_later()
    assert len(owned(first.value)[T]) == 1  # type: ignore[arg-type]
    assert [each.value.error_code for each in others] == [0] * (MANY - 1)
    assert world.assignments_in_log() == 2
    assert world.epochs("m0", 2, owned={T: owned(first.value)[T]})[0] == MANY + 1
    assert sum(len(owned(world.beat(f"m{number}", MANY + 1))) for number in range(1, MANY)) == MANY - 1
    assert world.later == []


def test_a_group_that_moves_away_while_its_assignment_is_computed() -> None:
    world = LargeWorld()
    world.run_slowly()
    world.finish_later()
    first, second = world.send("m0", 2), world.send("m1", 2)
    world.resign(PLACE, None)
    world.finish_later()
    assert first.value.error_code == second.value.error_code == ErrorCode.NOT_COORDINATOR
    assert world.assignments_in_log() == 1


def test_a_group_that_moves_away_while_its_records_are_replayed() -> None:
    world = LargeWorld()
    world.run_slowly()
    world.finish_later()
    first = world.send("m0", 2)
    world.first_steps = 3
    finish(world.only())
    assert world.assignments_in_log() == 2
    assert not first.is_set
    world.resign(PLACE, None)
    world.finish_later()
    assert first.is_set
    world.lead(PLACE, 1)
    world.finish_later()
    assert world.state()[1:] == (MANY + 1, MANY + 1)


def test_an_assignment_that_no_batch_can_hold() -> None:
    world = LargeWorld()
    world.log.config.max_message_bytes = 10_000
    refused = world.beat("m0", 2)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.state()[1:] == (MANY + 1, 2)
    assert world.beat("m0", -1).error_code == 0
    assert len(world.describe().members) == MANY - 1


def test_all_sessions_end_at_once() -> None:
    world = LargeWorld()
    world.run_slowly()
    world.finish_later()
    world.clock.advance(50_000)
    assert len(world.describe().members) == MANY
    removing = world.only()
    world.first_steps = 100
    next(removing, None)
    next(removing, None)
    assert 0 < len(world.describe().members) < MANY
    world.finish_later()
    assert world.state()[0] == "Empty"


def test_a_member_gives_up_a_topic_before_there_is_a_new_assignment() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=INTERVAL_MS)
    world.clock.advance(5_000)
    world.enter("a", topic_names=("t", "u"))
    world.enter("b", topic_names=("t",))
    world.enter("c", topic_names=("u",))
    assert world.epochs("a", 2, topic_names=("t",))[1] == {T: [0, 1, 2]}
    assert world.epochs("a", 2, topic_names=()) == (2, {})
    assert world.epochs("a", 2, topic_names=("u",)) == (2, None)
    assert world.epochs("a", 2, owned={}) == (2, {U: [0, 1]})
    assert world.epochs("a", 2, topic_names=("t",)) == (2, {})
    assert world.state() == ("Assigning", 8, 2)
    world.clock.advance(INTERVAL_MS)
    assert world.epochs("b", 2)[0] == 8


def test_partitions_that_the_member_does_not_own_are_given_up_at_once() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=INTERVAL_MS)
    world.clock.advance(5_000)
    world.enter("a")
    assert world.epochs("a", 2, topic_names=("u",), owned={}) == (2, {})
    assert world.describe().members[0].assignment == ()
    assert world.state()[0] == "Assigning"


def test_the_topics_of_many_members_are_read_once() -> None:
    world = LargeWorld()
    known = world.consumer_group().known_topics
    world.enter("n")
    assert world.consumer_group().known_topics is known
    world.enter("o", topic_names=("t", "u"))
    assert world.consumer_group().known_topics is None


def test_a_topic_that_is_deleted_within_the_interval() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=INTERVAL_MS)
    world.clock.advance(5_000)
    world.enter("a", topic_names=("t", "u"))
    world.set_topics()
    assert world.epochs("a", 2, topic_names=("u",)) == (2, {})


def test_a_topic_without_an_id_is_not_assigned() -> None:
    world = ConsumerWorld()
    image: Any = world.broker.image
    image.topics["old"] = image.topics["t"]._replace(topic_id=UUID(int=0))
    assert shown(world.enter("a", topic_names=("old", "u"))) == (2, {U: [0, 1]})
