"""What a group is asked and what it answers, without the wire's versions."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.types import NO_PRODUCER_ID, TopicPartition, maker

NO_GENERATION = -1
NO_ASSIGNMENTS: Mapping[str, bytes] = MappingProxyType({})

V = TypeVar("V")


def by_topic(values: Mapping[TopicPartition, V]) -> dict[str, list[tuple[int, V]]]:
    """The same values as the wire wants them: for each topic its partitions, in the order in which they came."""
    topics: dict[str, list[tuple[int, V]]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, []).append((partition, value))
    return topics


class JoinCall(NamedTuple):
    """A JoinGroup request; ``protocols`` in the member's order of preference."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    requires_known_member_id: bool = False


class JoinedMember(NamedTuple):
    """What the leader learns of each member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a JoinGroup; ``members`` is filled for the leader only."""

    error_code: int
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()


class SyncCall(NamedTuple):
    """A SyncGroup request; ``assignments`` comes from the leader only."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = NO_ASSIGNMENTS


class SyncResult(NamedTuple):
    """The answer to a SyncGroup."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """Who leaves: by member id, or by group instance id."""

    member_id: str
    instance_id: str | None = None


class CommitCall(NamedTuple):
    """An OffsetCommit request; a negative generation comes from consumers without group management."""

    group_id: str
    member_id: str
    generation_id: int
    offsets: dict[TopicPartition, CommittedOffset]
    instance_id: str | None = None


commit_call_of = maker(CommitCall)
"""Of a tuple of all five."""


class Producer(NamedTuple):
    """Whose records a batch holds. Kafka numbers those of a commit from 0, though the log doesn't count them."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    base_sequence: int = -1


NO_PRODUCER = Producer()
COMMITTER = Producer(base_sequence=0)


class GroupListing(NamedTuple):
    """A line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str


class MemberDescription(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group as DescribeGroups shows it."""

    error_code: int
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()
