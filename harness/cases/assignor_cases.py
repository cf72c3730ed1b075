"""Random groups for the assignors of the consumer protocol, and their lines for ``AssignorOracle.java``.

``answers/assignments.txt`` holds some of them with the assignments of Apache Kafka 4.4.0, two lines each
(``compat_tests/groups/record_assignments.py``).
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

from kafkapy.coordinator.group.consumer.assignors import ASSIGNORS
from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription, TopicMetadata

RACKS: Final = ("", "a", "b")
MOST_ROUNDS: Final = 5


@dataclass
class GroupCase:
    """A group before an assignment."""

    assignor: str
    is_homogeneous: bool
    topics: dict[UUID, TopicMetadata]
    members: dict[str, MemberSubscription]

    def assign(self) -> dict[str, Assignment]:
        """The assignment of kafkapy."""
        return ASSIGNORS[self.assignor].assign(self.members, self.topics, is_homogeneous=self.is_homogeneous)


def random_case(random: Random, topic_count: int, member_count: int, most_partitions: int) -> GroupCase:
    """A group whose members own nothing."""
    topics = {
        UUID(int=random.getrandbits(128)): TopicMetadata(f"topic-{random.getrandbits(24)}", partitions, {})
        for partitions in (random.randint(1, most_partitions) for _ in range(topic_count))
    }
    case = GroupCase(random.choice(["uniform", "uniform", "range"]), random.random() < 0.5, topics, {})
    for _ in range(member_count):
        join(random, case)
    return case


def join(random: Random, case: GroupCase) -> None:
    """Add a member with a random subscription."""
    member_id = random.choice([str(UUID(int=random.getrandbits(128))), f"m-{random.getrandbits(16)}"])
    instance_id = f"i{random.getrandbits(16)}" if random.random() < 0.2 else None
    rack_id = random.choice(RACKS) or None
    case.members[member_id] = MemberSubscription(instance_id, rack_id, _subscription(random, case), {})


def _subscription(random: Random, case: GroupCase) -> frozenset[UUID]:
    if case.is_homogeneous:
        return next((member.topic_ids for member in case.members.values()), frozenset(case.topics))
    topic_ids = list(case.topics)
    if case.members and random.random() < 0.4:  # subscribers that are alike are the usual case
        return random.choice(list(case.members.values())).topic_ids
    return frozenset(random.sample(topic_ids, random.randint(0, len(topic_ids))))


def random_rounds(random: Random, topic_count: int, member_count: int, most_partitions: int) -> Iterator[GroupCase]:
    """The same group several times: each time members own the last assignment, and some things have changed."""
    case = random_case(random, topic_count, member_count, most_partitions)
    for _ in range(random.randint(1, MOST_ROUNDS)):
        yield case
        case = _changed(random, case)


def _changed(random: Random, case: GroupCase) -> GroupCase:
    assignments = case.assign()
    topics = {
        topic_id: topic._replace(partition_count=topic.partition_count + random.randint(1, 9) * (random.random() < 0.2))
        for topic_id, topic in case.topics.items()
    }
    new_id = UUID(int=random.getrandbits(128))
    topics[new_id] = TopicMetadata(f"new-{random.getrandbits(24)}", random.randint(1, 20), {})
    changed = GroupCase(case.assignor, case.is_homogeneous, topics, {})
    common = frozenset(random.sample(list(topics), random.randint(1, len(topics))))
    for member_id, member in case.members.items():
        topic_ids = common if case.is_homogeneous else member.topic_ids
        if not case.is_homogeneous and random.random() < 0.3:
            topic_ids = _subscription(random, changed)
        if random.random() < 0.85:
            changed.members[member_id] = member._replace(topic_ids=topic_ids, owned=assignments[member_id])
    for _ in range(random.choice([0, 1, 1, 3]) if changed.members else 1):
        join(random, changed)
    return changed


def to_line(case: GroupCase) -> str:
    """The line that asks for the assignment of a group."""
    numbers = {topic_id: str(number) for number, topic_id in enumerate(case.topics)}
    topics = ",".join(f"{each}:{topic.name}:{topic.partition_count}:a" for each, topic in case.topics.items())
    kind = "homogeneous" if case.is_homogeneous else "heterogeneous"
    members = [
        "|".join(
            (
                member_id,
                member.instance_id or "",
                member.rack_id or "",
                ",".join(numbers[each] for each in sorted(member.topic_ids, key=lambda each: case.topics[each].name)),
                _assignment(member.owned, numbers),
            )
        )
        for member_id, member in case.members.items()
    ]
    return "\t".join([case.assignor, kind, topics, *members])


def to_answer(case: GroupCase, assignments: dict[str, Assignment]) -> str:
    """The line of an assignment."""
    numbers = {topic_id: str(number) for number, topic_id in enumerate(case.topics)}
    by_number = {
        member_id: {each: assignment[each] for each in case.topics if each in assignment}
        for member_id, assignment in sorted(assignments.items())
    }
    return "\t".join(f"{member_id}|{_assignment(each, numbers)}" for member_id, each in by_number.items() if each)


def _assignment(assignment: Mapping[UUID, AbstractSet[int]], numbers: dict[UUID, str]) -> str:
    return ",".join(
        f"{numbers[topic_id]}={'.'.join(map(str, sorted(partitions)))}" for topic_id, partitions in assignment.items()
    )


def from_line(line: str) -> GroupCase:
    """The group of a line."""
    assignor, kind, topic_words, *member_words = line.split("\t")
    topics = {}
    for text in topic_words.split(","):
        topic_id, name, partition_count, _ = text.split(":")
        topics[UUID(topic_id)] = TopicMetadata(name, int(partition_count), {})
    topic_ids = list(topics)
    case = GroupCase(assignor, kind == "homogeneous", topics, {})
    for text in member_words:
        member_id, instance_id, rack_id, subscribed, owned = text.split("|")
        case.members[member_id] = MemberSubscription(
            instance_id or None,
            rack_id or None,
            frozenset(topic_ids[int(number)] for number in subscribed.split(",") if number),
            {
                topic_ids[int(number)]: set(map(int, partitions.split(".")))
                for number, partitions in (pair.split("=") for pair in owned.split(",") if pair)
            },
        )
    return case
