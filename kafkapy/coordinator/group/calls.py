"""The requests to groups of every type and their results, independent of the versions on the wire."""

from typing import Final, NamedTuple

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition, maker


class CommitCall(NamedTuple):
    """An OffsetCommit request; a negative generation comes from consumers without group management."""

    group_id: str
    member_id: str
    generation_id: int
    offsets: dict[TopicPartition, CommittedOffset]
    instance_id: str | None = None
    has_member_epoch: bool = False
    """Whether the client may be a member of a consumer group, whose generation is its member epoch (KIP-848)."""


commit_call_of = maker(CommitCall)
"""Make a ``CommitCall`` from a tuple of all six fields."""


class Producer(NamedTuple):
    """The producer fields of a batch. Kafka numbers the records of a commit from 0, though the log doesn't check it."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = Producer()
COMMITTER = Producer(base_sequence=0)
"""The producer fields of an OffsetCommit, which belongs to no transaction."""


DEAD: Final = "Dead"
"""The state of a group that does not exist, in DescribeGroups."""


class GroupListing(NamedTuple):
    """A line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


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
