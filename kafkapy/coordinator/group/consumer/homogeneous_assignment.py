"""The uniform assignment of a group whose members all subscribe to the same topics.

Every member has a quota: the number of partitions by the number of members, and one partition more for as many members
as there are partitions left. Members that own more give the rest back, members that own less are filled up. A member
that already owns one partition more than the quota keeps it as long as extra partitions are left; a member with room
only gets an extra partition if the members after it are too few to take all of them.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from uuid import UUID

from kafkapy.coordinator.group.consumer.orders import member_order
from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription, TopicMetadata
from kafkapy.java_hashing import in_java_order, in_map_order, in_set_order, uuid_hash_code
from kafkapy.turns import Steps


class HomogeneousAssignment:
    """One computation."""

    __slots__ = ("_members", "_topics", "_topic_ids", "_assignments", "_unassigned", "_unfilled", "_quota", "_extras")

    def __init__(self, members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicMetadata]) -> None:
        self._members = members
        self._topics = topics
        self._topic_ids = next((member.topic_ids for member in members.values()), frozenset())
        self._assignments: dict[str, Assignment] = {member_id: {} for member_id in members}
        self._unassigned: list[tuple[UUID, int]] = []
        self._unfilled: list[tuple[str, int]] = []
        self._quota = 0
        self._extras = 0

    def steps(self) -> Steps[dict[str, Assignment]]:
        """Return the partitions of every member."""
        if not self._topic_ids:
            return self._assignments
        yield from self._find_unassigned()
        partition_count = sum(self._topics[topic_id].partition_count for topic_id in self._topic_ids)
        self._quota, self._extras = divmod(partition_count, len(self._members))
        member_ids = yield from member_order(self._members)
        for place, member_id in enumerate(member_ids):
            yield
            self._keep(member_id, len(member_ids) - place)
        yield from self._fill()
        return self._assignments

    def _find_unassigned(self) -> Steps[None]:
        owned: dict[UUID, set[int]] = {}
        for member in self._members.values():
            yield
            for topic_id, partitions in member.owned.items():
                owned.setdefault(topic_id, set()).update(partitions)
        for topic_id in self._ordered_topics():
            yield
            taken = owned.get(topic_id, ())
            partitions_of_topic = range(self._topics[topic_id].partition_count)
            self._unassigned += [(topic_id, partition) for partition in partitions_of_topic if partition not in taken]

    def _ordered_topics(self) -> list[UUID]:
        """Return the topics in the order of Kafka's set of ids, which is made from its set of names."""
        by_name = {self._topics[topic_id].name: topic_id for topic_id in self._topic_ids}
        return in_set_order([by_name[name] for name in in_java_order(sorted(by_name))], uuid_hash_code)

    def _keep(self, member_id: str, remaining: int) -> None:
        """Let a member keep what it owns up to its quota; ``remaining`` members, with this one, have no quota yet."""
        has_extra = self._extras > 0
        room = self._quota + has_extra
        owned, kept = self._members[member_id].owned, self._assignments[member_id]
        for topic_id in in_map_order(owned, uuid_hash_code):
            if topic_id in self._topic_ids:
                room -= self._keep_topic(topic_id, owned[topic_id], kept, room)
        if room > 0 and has_extra and remaining > self._extras:
            room -= 1
            has_extra = False
        if room > 0:
            self._unfilled.append((member_id, room))
        self._extras -= has_extra

    def _keep_topic(self, topic_id: UUID, owned: AbstractSet[int], kept: Assignment, room: int) -> int:
        """Keep at most ``room`` partitions of a topic, take the others back; return the number kept."""
        if len(owned) <= room:
            kept[topic_id] = set(owned)
            return len(owned)
        partitions = in_set_order(sorted(owned), int)
        if room > 0:
            kept[topic_id] = set(partitions[:room])
        self._unassigned += [(topic_id, partition) for partition in partitions[room:]]
        return room

    def _fill(self) -> Steps[None]:
        unassigned: Iterator[tuple[UUID, int]] = iter(self._unassigned)
        for member_id, room in self._unfilled:
            yield
            assignment = self._assignments[member_id]
            for topic_id, partition in islice(unassigned, room):
                assignment.setdefault(topic_id, set()).add(partition)
