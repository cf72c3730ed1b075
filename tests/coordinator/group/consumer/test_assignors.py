"""Assignments equal those that Apache Kafka 4.4.0 computed, and have the properties that it promises."""

from collections.abc import Mapping
from random import Random
from uuid import UUID

import pytest

from harness.cases import RECORDED
from harness.cases.assignor_cases import from_line, random_case, random_rounds, to_answer, to_line
from kafkapy.coordinator.group.consumer.assignors import ASSIGNORS
from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription, TopicMetadata

T, U, V = (UUID(int=number) for number in (1, 2, 3))
TOPICS = {T: TopicMetadata("t", 4, {}), U: TopicMetadata("u", 3, {}), V: TopicMetadata("v", 8, {})}
RECORDED_LINES = (RECORDED / "assignments.txt").read_text().splitlines()


def subscribed(*topic_ids: UUID, owned: Mapping[UUID, set[int]] | None = None) -> MemberSubscription:
    return MemberSubscription(None, None, frozenset(topic_ids), owned or {})


def test_recorded_assignments_of_kafka() -> None:
    for line, answer in zip(RECORDED_LINES[::2], RECORDED_LINES[1::2], strict=True):
        case = from_line(line)
        assert to_line(case) == line
        assert to_answer(case, case.assign()) == answer


@pytest.mark.parametrize("seed", range(20))
def test_every_partition_has_one_owner_that_subscribes_to_its_topic(seed: int) -> None:
    random = Random(seed)
    for case in random_rounds(random, random.randint(1, 9), random.randint(1, 30), 40):
        assignments = case.assign()
        assert set(assignments) == set(case.members)
        owners: dict[UUID, list[int]] = {}
        for member_id, assignment in assignments.items():
            assert all(partitions for partitions in assignment.values())
            assert set(assignment) <= case.members[member_id].topic_ids
            for topic_id, partitions in assignment.items():
                owners.setdefault(topic_id, []).extend(partitions)
        wanted = {topic_id for member in case.members.values() for topic_id in member.topic_ids}
        assert {each: sorted(partitions) for each, partitions in owners.items()} == {
            topic_id: list(range(case.topics[topic_id].partition_count)) for topic_id in wanted
        }


@pytest.mark.parametrize("seed", range(20))
def test_a_homogeneous_group_is_balanced_with_the_fewest_moves(seed: int) -> None:
    random = Random(seed)
    case = random_case(random, random.randint(1, 9), random.randint(2, 30), 40)
    case.assignor, case.is_homogeneous = "uniform", True
    topic_ids = frozenset(case.topics)
    case.members = {each: member._replace(topic_ids=topic_ids) for each, member in case.members.items()}
    before = case.assign()
    left = random.choice(list(case.members))
    del case.members[left]
    case.members = {each: member._replace(owned=before[each]) for each, member in case.members.items()}
    after = case.assign()
    sizes = [sum(map(len, assignment.values())) for assignment in after.values()]
    assert max(sizes) - min(sizes) <= 1
    for member_id, assignment in after.items():
        lost = {topic: partitions - assignment.get(topic, set()) for topic, partitions in before[member_id].items()}
        assert not any(lost.values()), "partitions of the member that has left are enough"


def test_subscriptions_are_compared_by_the_existing_topics_unless_the_group_knows_better() -> None:
    members = {f"m{number}": subscribed(T, V) for number in range(5)}
    uniform = ASSIGNORS["uniform"]
    assert uniform.assign(members, TOPICS) == uniform.assign(members, TOPICS, is_homogeneous=True)
    different = uniform.assign(members, TOPICS, is_homogeneous=False)
    assert different != uniform.assign(members, TOPICS)
    members["m0"] = subscribed(T, V, U)
    assert uniform.assign(members, TOPICS) == uniform.assign(members, TOPICS, is_homogeneous=False)


@pytest.mark.parametrize("name", ASSIGNORS)
def test_groups_without_members_or_topics(name: str) -> None:
    assign = ASSIGNORS[name].assign
    assert assign({}, {}) == {}
    assert assign({"a": subscribed(owned={T: {0}}), "b": subscribed()}, TOPICS) == {"a": {}, "b": {}}
    assert assign({"a": subscribed(owned={T: {0}}), "b": subscribed(T)}, TOPICS) == {"a": {}, "b": {T: {0, 1, 2, 3}}}


def test_the_input_stays_as_it_is() -> None:
    owned: Assignment = {V: set(range(8))}
    for is_homogeneous in (True, False):
        members = {"a": subscribed(V, owned=owned), "b": subscribed(V)}
        first = ASSIGNORS["uniform"].assign(members, TOPICS, is_homogeneous=is_homogeneous)
        for partitions in first["a"].values():
            partitions.clear()
        assert owned == {V: set(range(8))}


def test_ranges_of_static_members_come_first() -> None:
    members = {
        "a": subscribed(T, U),
        "z": subscribed(T, U)._replace(instance_id="9"),
        "y": subscribed(T)._replace(instance_id="10"),
    }
    assert ASSIGNORS["range"].assign(members, TOPICS) == {
        "y": {T: {0, 1}},
        "z": {T: {2}, U: {0, 1}},
        "a": {T: {3}, U: {2}},
    }
