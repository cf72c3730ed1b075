"""The uniform assignment of a group whose members subscribe to different topics.

Members keep what they own of topics to which they subscribe. Then

1. partitions without an owner go to the subscriber with the fewest partitions, topic by topic: first the topics with
   many partitions for each subscriber;
2. partitions move from the subscribers of a topic that have the most partitions to those that have the fewest, until
   their numbers differ by one at most. All topics are balanced in rounds, since each may disturb the balance of others,
   until no partition moves in a whole round, or after ``MAX_ROUNDS``.

The members are numbered in Kafka's order; of members with equal numbers of partitions the first one gets a partition,
the last one gives one.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from kafkapy.coordinator.group.consumer.orders import member_order
from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription, TopicMetadata
from kafkapy.turns import Steps

MAX_ROUNDS: Final = 16
NO_MEMBER: Final = -1


class HeterogeneousAssignment:
    """One computation. Members are numbers here, ``_owners`` has a list with the member of each partition."""

    __slots__ = ("_members", "_member_ids", "_topics", "_subscribers", "_sizes", "_owners")

    def __init__(self, members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicMetadata]) -> None:
        self._members = members
        self._member_ids: list[str] = []
        self._topics = topics
        self._subscribers: dict[UUID, list[int]] = {}
        self._sizes = [0] * len(members)
        self._owners: dict[UUID, list[int]] = {}

    def steps(self) -> Steps[dict[str, Assignment]]:
        """Return the partitions of every member."""
        self._member_ids = yield from member_order(self._members)
        yield from self._find_subscribers()
        yield from self._keep()
        topic_ids = self._sorted_topics()
        for topic_id in topic_ids:
            yield
            self._assign_rest(topic_id)
        yield from self._balance([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        assignments: dict[str, Assignment] = {member_id: {} for member_id in self._members}
        for topic_id, owners in self._owners.items():
            yield
            for partition, member in enumerate(owners):
                assignments[self._member_ids[member]].setdefault(topic_id, set()).add(partition)
        return assignments

    def _find_subscribers(self) -> Steps[None]:
        for member, member_id in enumerate(self._member_ids):
            yield
            for topic_id in self._members[member_id].topic_ids:
                self._subscribers.setdefault(topic_id, []).append(member)

    def _keep(self) -> Steps[None]:
        for topic_id in self._subscribers:
            self._owners[topic_id] = [NO_MEMBER] * self._topics[topic_id].partition_count
        for member, member_id in enumerate(self._member_ids):
            yield
            subscription = self._members[member_id]
            for topic_id, partitions in subscription.owned.items():
                if topic_id in subscription.topic_ids:
                    self._move(topic_id, partitions, member)

    def _move(self, topic_id: UUID, partitions: Iterable[int], member: int) -> None:
        owners = self._owners[topic_id]
        for partition in partitions:
            if owners[partition] != NO_MEMBER:
                self._sizes[owners[partition]] -= 1
            owners[partition] = member
            self._sizes[member] += 1

    def _sorted_topics(self) -> list[UUID]:
        """Return the topics with the most partitions for each subscriber first, then those with few subscribers."""

        def order(topic_id: UUID) -> tuple[float, int, int]:
            subscriber_count = len(self._subscribers[topic_id])
            share = self._topics[topic_id].partition_count / subscriber_count
            return -share, subscriber_count, topic_id.int ^ _SIGNS

        return sorted(self._subscribers, key=order)

    def _assign_rest(self, topic_id: UUID) -> None:
        unassigned = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner == NO_MEMBER]
        if unassigned:
            levels = _Levels(self._subscribers[topic_id], self._sizes)
            for partition in unassigned:
                self._move(topic_id, (partition,), levels.take_lowest())

    def _balance(self, topic_ids: list[UUID]) -> Steps[None]:
        last_changed: UUID | None = None
        for _ in range(MAX_ROUNDS):
            for topic_id in topic_ids:
                yield
                if topic_id == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed is None:
                    last_changed = topic_id

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Move partitions of one topic until its subscribers are balanced; return whether any has moved."""
        subscribers = self._subscribers[topic_id]
        sizes = [self._sizes[member] for member in subscribers]
        if max(sizes) - min(sizes) <= 1:
            return False
        levels = _Levels(subscribers, self._sizes)
        partitions: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            partitions.setdefault(owner, []).append(partition)
        has_moved = False
        while (giver := levels.take_highest(partitions)) != NO_MEMBER:
            partition = partitions[giver].pop()
            receiver = levels.take_lowest()
            if levels.are_balanced:
                break
            self._move(topic_id, (partition,), receiver)
            has_moved = True
        return has_moved


_SIGNS: Final = 1 << 127 | 1 << 63
"""The sign bits of the halves of a topic id, which Kafka compares as signed numbers."""


class _Levels:
    """The subscribers of a topic, sorted by their numbers of partitions, with a range at each end.

    Members of the low range, ``[0, low_end)``, are raised from ``low_level - 1`` to ``low_level`` partitions one after
    the other; then the range takes in the next members that have as many. The high range, ``[high_start, high_end)``,
    is lowered in the same way from its end. Members that have no partition of the topic to give are swapped behind it.
    """

    __slots__ = (
        *("_order", "_sizes"),
        *("_low_end", "_low_level", "_low_next"),
        *("_high_start", "_high_end", "_high_level", "_high_next"),
    )

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._order = sorted(members, key=sizes.__getitem__)
        self._low_end = self._low_next = 0
        self._low_level = sizes[self._order[0]] - 1
        self._high_start = self._high_end = len(members)
        self._high_next = len(members) - 1
        self._high_level = sizes[self._order[-1]] + 1

    @property
    def are_balanced(self) -> bool:
        """Whether the levels of the two ranges differ by one at most."""
        return self._high_level - self._low_level <= 1

    def take_lowest(self) -> int:
        """Return the member that gets the next partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._order) and self._size_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._order[self._low_next - 1]

    def take_highest(self, partitions: Mapping[int, list[int]]) -> int:
        """Return the member that gives the next one of ``partitions``, or NO_MEMBER if the levels are balanced.

        They are at the latest when the range has reached the members with the fewest partitions.
        """
        while not self.are_balanced:
            if self._high_next < self._high_start:
                self._extend_high_range()
            member = self._order[self._high_next]
            self._high_next -= 1
            if partitions.get(member):
                return member
            self._exclude(self._high_next + 1)
        return NO_MEMBER

    def _extend_high_range(self) -> None:
        if self._high_end <= self._high_start and self._high_start > 0:  # all members of the range are excluded
            self._high_level = self._size_at(self._high_start - 1)
        else:
            self._high_level -= 1
        while self._high_start > 0 and self._size_at(self._high_start - 1) == self._high_level:
            self._high_start -= 1
        self._high_next = self._high_end - 1

    def _exclude(self, place: int) -> None:
        self._high_end -= 1
        order = self._order
        order[place], order[self._high_end] = order[self._high_end], order[place]

    def _size_at(self, place: int) -> int:
        return self._sizes[self._order[place]]
