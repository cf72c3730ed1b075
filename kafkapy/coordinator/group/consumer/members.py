"""A member of a consumer group: its subscription, and the partitions that it has or has to revoke."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kafkapy.clock import TimerHandle
from kafkapy.coordinator.group.classic.protocols import Protocols
from kafkapy.coordinator.group.consumer.calls import (
    JOIN_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    UNCHANGED_MS,
    HeartbeatCall,
)
from kafkapy.coordinator.group.metadata_budget import MEMBER_BYTES, TOPIC_BYTES, size_of
from kafkapy.text import text_size


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment; the numbers are those of the records."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions before its epoch grows."""
    UNRELEASED_PARTITIONS = 2
    """Partitions of the target assignment still belong to other members."""
    UNKNOWN = 127
    """A later release of Kafka wrote the state; the member has to join again."""


Assigned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch at which it was assigned."""

NOTHING: Final[Assigned] = MappingProxyType({})


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol says about itself beside the rest (KIP-848, migration)."""

    session_timeout_ms: int
    protocols: Protocols
    """Its assignment strategies, each with the embedded metadata, of which the subscription is the same in all."""


class MemberMetadata(NamedTuple):
    """What the member says about itself; the record of the member's metadata holds it."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""
    rebalance_timeout_ms: int = UNCHANGED_MS
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    """None: the member uses the consumer protocol."""

    def updated(self, call: HeartbeatCall) -> "MemberMetadata":
        """The metadata with the fields that the request has; its member uses the consumer protocol from now on."""
        return MemberMetadata(
            self.instance_id if call.instance_id is None else call.instance_id,
            self.rack_id if call.rack_id is None else call.rack_id,
            call.client_id,
            call.client_host,
            self.topic_names if call.topic_names is None else tuple(sorted(set(call.topic_names))),
            self.topic_regex if call.topic_regex is None else call.topic_regex,
            self.rebalance_timeout_ms if call.rebalance_timeout_ms == UNCHANGED_MS else call.rebalance_timeout_ms,
            self.server_assignor if call.server_assignor is None else call.server_assignor,
        )

    def size(self) -> int:
        """The approximate bytes in memory."""
        texts = (self.client_id, self.client_host, self.topic_regex, *self.topic_names)
        optional = (self.instance_id, self.rack_id, self.server_assignor)
        topics = TOPIC_BYTES * len(self.topic_names)
        protocols = MEMBER_BYTES if self.classic is None else size_of(self.classic.protocols)
        return protocols + topics + text_size(*texts, *(each for each in optional if each is not None))


class CurrentAssignment(NamedTuple):
    """The epoch of a member and its partitions; the record of the member's current assignment holds it."""

    member_epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Assigned = NOTHING
    revoking: Assigned = NOTHING

    @property
    def held(self) -> dict[UUID, frozenset[int]]:
        """The partitions that the member has, also those that it has to revoke."""
        topic_ids = dict.fromkeys((*self.assigned, *self.revoking))
        return {each: frozenset({*self.assigned.get(each, ()), *self.revoking.get(each, ())}) for each in topic_ids}

    def at(self, member_epoch: int) -> "CurrentAssignment":
        """The same at another epoch; the present one becomes the previous one."""
        previous_epoch = self.previous_epoch if member_epoch == self.member_epoch else self.member_epoch
        return self._replace(member_epoch=member_epoch, previous_epoch=previous_epoch)


class ConsumerMember:
    """The state and the timers of a member. Only replay changes its metadata and its current assignment."""

    __slots__ = (
        "member_id", "metadata", "current", "session_deadline_ms", "session_timer", "revocation_timer", "join_timer",
        "sync_timer",
    )  # fmt: skip

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.metadata = MemberMetadata()
        self.current = CurrentAssignment()
        self.session_deadline_ms = 0.0
        self.session_timer: TimerHandle | None = None
        self.revocation_timer: TimerHandle | None = None
        self.join_timer: TimerHandle | None = None
        self.sync_timer: TimerHandle | None = None

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.metadata.classic is not None

    @property
    def is_away(self) -> bool:
        """Whether a static member has left for a while."""
        return self.current.member_epoch == LEAVE_FOR_A_WHILE_EPOCH

    def stop_revocation(self) -> None:
        """Stop the rebalance time-out."""
        if self.revocation_timer is not None:
            self.revocation_timer.cancel()
            self.revocation_timer = None

    def stop_join(self) -> None:
        """Stop the wait for a JoinGroup."""
        if self.join_timer is not None:
            self.join_timer.cancel()
            self.join_timer = None

    def stop_sync(self) -> None:
        """Stop the wait for a SyncGroup."""
        if self.sync_timer is not None:
            self.sync_timer.cancel()
            self.sync_timer = None

    def stop_timers(self) -> None:
        """Stop all time-outs: the member has left."""
        self.stop_revocation()
        self.stop_join()
        self.stop_sync()
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None
