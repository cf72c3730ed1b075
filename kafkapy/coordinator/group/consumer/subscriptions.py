"""The input of assignors: what the members of a group subscribe to and own, and the topics."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias
from uuid import UUID

Assignment: TypeAlias = dict[UUID, set[int]]
"""The partitions of one member, by topic."""


class MemberSubscription(NamedTuple):
    """One member of a group, as the assignors see it."""

    instance_id: str | None
    """``group.instance.id`` of a static member."""
    rack_id: str | None
    """``client.rack``; the assignors of Apache Kafka 4.4 do not read it."""
    topic_ids: frozenset[UUID]
    """The existing topics that the names and the regular expression of the member select."""
    owned: Mapping[UUID, AbstractSet[int]]
    """The target assignment that the member has so far, topics in the order in which its record has them."""


class TopicMetadata(NamedTuple):
    """One topic that members subscribe to."""

    name: str
    partition_count: int
    racks: Mapping[int, frozenset[str]]
    """The racks of each partition's replicas; the assignors of Apache Kafka 4.4 do not read them."""
