"""The requests to groups and their results, independent of the versions on the wire."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition, maker

NO_GENERATION = -1
NO_ASSIGNMENTS: Mapping[str, bytes] = MappingProxyType({})


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
    """A member in the JoinGroup response of the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The result of a JoinGroup; ``members`` is filled for the leader only."""

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
    """The result of a SyncGroup."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """A member that leaves: named by its member id or its group instance id."""

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
"""Make a ``CommitCall`` from a tuple of all five fields."""


class Producer(NamedTuple):
    """The producer fields of a batch. Kafka numbers the records of a commit from 0, though the log doesn't check it."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = Producer()
COMMITTER = Producer(base_sequence=0)
"""The producer fields of an OffsetCommit, which belongs to no transaction."""


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
