"""The requests of members of consumer groups and their results, independent of the versions on the wire."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

JOIN_EPOCH: Final = 0
"""The member epoch of a request that joins the group, or joins it again."""
LEAVE_EPOCH: Final = -1
"""The member epoch of a request that leaves the group."""
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""The member epoch of a static member that leaves and may return: its assignment is kept for its instance id."""
UNCHANGED_MS: Final = -1
"""The rebalance time-out of a request that does not name it."""

Partitions: TypeAlias = Mapping[UUID, AbstractSet[int]]
"""Partitions by topic id."""


class HeartbeatCall(NamedTuple):
    """A ConsumerGroupHeartbeat request. A field that is None has not changed since the last request."""

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    may_describe: Callable[[str], bool] | None = None
    """Whether the member may describe a topic; None if it may describe all topics."""

    @property
    def is_full(self) -> bool:
        """Whether the request has all fields, so that the response has the assignment."""
        if self.member_epoch == JOIN_EPOCH:
            return True
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != UNCHANGED_MS and has_subscription and self.owned is not None


class HeartbeatResult(NamedTuple):
    """The result of a ConsumerGroupHeartbeat; the assignment is None if the member has it already."""

    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class NamedPartitions(NamedTuple):
    """Partitions of a topic, with its name."""

    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


class ConsumerMemberDescription(NamedTuple):
    """A member as ConsumerGroupDescribe shows it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str
    assignment: tuple[NamedPartitions, ...]
    target: tuple[NamedPartitions, ...]
    is_classic: bool
    """Whether the member uses the classic protocol."""


class ConsumerGroupDescription(NamedTuple):
    """A group as ConsumerGroupDescribe shows it."""

    error_code: int
    group_id: str
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[ConsumerMemberDescription, ...] = ()
