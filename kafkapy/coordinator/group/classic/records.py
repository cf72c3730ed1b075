"""The records of classic groups in ``__consumer_offsets``: metadata of the group, to bytes and back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkapy.coordinator.group.records import GROUP_KEY_VERSION, encode_versioned, versioned
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkapy.records.record import Record

if TYPE_CHECKING:
    from kafkapy.coordinator.group.classic.group import ClassicGroup
    from kafkapy.coordinator.group.classic.members import Members

GROUP_VALUE_VERSION = 3


def decode_group(value: bytes) -> GroupMetadataValue:
    """A group's metadata, of any version; version 0 has no rebalance time-out, so the session time-out is used."""
    version, reader = versioned(value)
    stored = GroupMetadataValue.read(reader, version)
    if version == 0:
        for member in stored.members:
            member.rebalance_timeout = member.session_timeout
    return stored


def group_record(
    group: "ClassicGroup", assignments: Mapping[str, bytes], timestamp_ms: int, value_version: int = GROUP_VALUE_VERSION
) -> Record:
    """The record of a group as it is now, with these assignments."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        current_state_timestamp=group.state_timestamp_ms,
    )
    return record_of(group.group_id, value, group.members, assignments, timestamp_ms, value_version)


def record_of(
    group_id: str,
    value: GroupMetadataValue,
    members: "Members",
    assignments: Mapping[str, bytes],
    timestamp_ms: int,
    value_version: int,
) -> Record:
    """The record of a group, whose ``value`` has all but the members."""
    value.leader = members.leader_id
    value.members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(value.protocol or ""),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in members.values()
    ]
    return Record(_group_key(group_id), encode_versioned(value, value_version), timestamp_ms)


def group_tombstone(group_id: str, timestamp_ms: int) -> Record:
    """The record of a group's deletion."""
    return Record(_group_key(group_id), None, timestamp_ms)


def _group_key(group_id: str) -> bytes:
    return encode_versioned(GroupMetadataKey(group_id), GROUP_KEY_VERSION)
