"""The requests of members of classic groups and their results, independent of the versions on the wire."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NO_GENERATION = -1
NO_ASSIGNMENTS: Mapping[str, bytes] = MappingProxyType({})


class JoinCall(NamedTuple):
    """A JoinGroup request; ``protocols`` in the member's order of preference.

    A static leader that restarts can be told to keep the assignment if it ``can_skip_assignment`` (KIP-814).
    """

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
    can_skip_assignment: bool = False


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
    skips_assignment: bool = False


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
