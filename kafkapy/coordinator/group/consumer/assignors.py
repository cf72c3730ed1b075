"""The assignors of the consumer protocol (KIP-848): which member gets which partitions.

``uniform`` and ``range`` compute what Apache Kafka 4.4.0 computes from the same input, partition by partition
(``compat_tests/groups/test_assignors.py``). Kafka keeps members and topics in hash maps, whose order decides which
members get one partition more and which partitions are taken back; ``kafkapy/java_hashing.py`` has these orders. Two
details cannot be derived from the input and may differ from a long-lived group of Kafka's:

- a hash set of Java keeps numbers of one bucket in the order of their insertion, here they are in ascending order;
- Kafka's table of members does not shrink after members have left, here it has the size for the current members.

An assignor does not read racks, as none of 4.4.0 does.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from kafkapy.coordinator.group.consumer.heterogeneous_assignment import HeterogeneousAssignment
from kafkapy.coordinator.group.consumer.homogeneous_assignment import HomogeneousAssignment
from kafkapy.coordinator.group.consumer.range_assignment import assign_ranges
from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription, TopicMetadata
from kafkapy.turns import Steps, finish


class Assignor(ABC):
    """One of ``group.consumer.assignors``."""

    name: str
    """The name by which a member asks for this assignor."""

    def assign(
        self,
        members: Mapping[str, MemberSubscription],
        topics: Mapping[UUID, TopicMetadata],
        *,
        is_homogeneous: bool | None = None,
    ) -> dict[str, Assignment]:
        """Return the partitions of every member; see ``assign_in_steps``."""
        return finish(self.assign_in_steps(members, topics, is_homogeneous=is_homogeneous))

    @abstractmethod
    def assign_in_steps(
        self,
        members: Mapping[str, MemberSubscription],
        topics: Mapping[UUID, TopicMetadata],
        *,
        is_homogeneous: bool | None = None,
    ) -> Steps[dict[str, Assignment]]:
        """Return the partitions of every member, of which those without any have an empty assignment.

        ``members`` are in the order in which they joined. ``topics`` has all topics that members subscribe to, and no
        partition has two owners. ``is_homogeneous`` tells whether all members subscribe to the same names; names of
        topics that do not exist count too, and only the group knows these. Without it the existing topics are compared.
        """


class UniformAssignor(Assignor):
    """Equal numbers of partitions, and as few moves as possible."""

    name = "uniform"

    def assign_in_steps(
        self,
        members: Mapping[str, MemberSubscription],
        topics: Mapping[UUID, TopicMetadata],
        *,
        is_homogeneous: bool | None = None,
    ) -> Steps[dict[str, Assignment]]:
        """Return the partitions of every member."""
        if is_homogeneous is None:
            is_homogeneous = len({member.topic_ids for member in members.values()}) <= 1
        if is_homogeneous:
            return HomogeneousAssignment(members, topics).steps()
        return HeterogeneousAssignment(members, topics).steps()


class RangeAssignor(Assignor):
    """Adjacent partitions of each topic: those of one number belong to one member if topics have equal counts."""

    name = "range"

    def assign_in_steps(
        self,
        members: Mapping[str, MemberSubscription],
        topics: Mapping[UUID, TopicMetadata],
        *,
        is_homogeneous: bool | None = None,  # noqa: ARG002 - the result is the same
    ) -> Steps[dict[str, Assignment]]:
        """Return the partitions of every member."""
        return assign_ranges(members, topics)


ASSIGNORS: Final[Mapping[str, Assignor]] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
"""The assignors by name, the default one first, as in ``group.consumer.assignors``."""
