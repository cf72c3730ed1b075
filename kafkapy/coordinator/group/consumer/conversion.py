"""The change of a group with members from the classic to the consumer protocol and back (KIP-848, migration).

Both directions are a batch of records: those that delete the group of the one type, then those that make the group of
the other. Their replay makes the change, live and when the log is loaded. ``group.consumer.migration.policy`` allows
each direction.

    upgrade     a member of the consumer protocol joins a classic group of consumers. The generation becomes the epoch
                of the group and of its members, their last assignment the target and the current assignment.
    downgrade   no member of the consumer protocol remains. The group epoch becomes the generation, and the members
                keep their partitions.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import JoinCall
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.coordinator.group.classic.members import Member, Members
from kafkapy.coordinator.group.classic.protocols import CONSUMER_PROTOCOL_TYPE
from kafkapy.coordinator.group.classic.records import record_of
from kafkapy.coordinator.group.consumer import records as stored
from kafkapy.coordinator.group.consumer.calls import Partitions
from kafkapy.coordinator.group.consumer.embedded_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from kafkapy.coordinator.group.consumer.group import FIRST_EPOCH, ConsumerGroup
from kafkapy.coordinator.group.consumer.members import (
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
)
from kafkapy.coordinator.group.consumer.topics import TopicImages, existing_topics, metadata_hash
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataValue
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.records.record import Record


class UpgradeRefusedError(Exception):
    """The classic group can't become a consumer group; the text is for the member that joins."""


class _Upgraded(NamedTuple):
    """A member of a classic group as one of a consumer group."""

    metadata: MemberMetadata
    partitions: Partitions
    """Its last assignment."""
    owned: Partitions
    """What it said to own when it joined, if the assignment that it has was reset for a rebalance since."""


# Upgrade


def upgrade(group: ClassicGroup, image: TopicImages, now_ms: int, upgraded: ConsumerGroup) -> list[Record]:
    """The records by which a classic group with members becomes a consumer group.

    ``upgraded`` is a new group; it is set to what their replay makes, without decoding them. Raises
    ``UpgradeRefusedError``.
    """
    group_id, epoch = group.group_id, _epoch(group)
    members = {each.member_id: _upgraded(group, each, image) for each in group.members.values()}
    names = {name for each in members.values() for name in each.metadata.topic_names}
    hashed = metadata_hash(existing_topics(image, names))
    targets = _assigned(members)
    currents = {member_id: _current(epoch, target) for member_id, target in targets.items()}
    for member_id, each in members.items():
        upgraded.replay_member(member_id, each.metadata)
        upgraded.replay_target(member_id, targets[member_id])
        upgraded.replay_current(member_id, currents[member_id])
    upgraded.replay_group(epoch, hashed)
    upgraded.replay_assignment_epoch(epoch, 0)
    return [
        *group.tombstones(now_ms),
        *(stored.member_record(group_id, member_id, each.metadata, now_ms) for member_id, each in members.items()),
        stored.group_record(group_id, epoch, hashed, now_ms),
        *(stored.target_record(group_id, member_id, target, now_ms) for member_id, target in targets.items()),
        stored.assignment_epoch_record(group_id, epoch, 0, now_ms),
        *(stored.current_record(group_id, member_id, each, now_ms) for member_id, each in currents.items()),
    ]


def _assigned(members: Mapping[str, _Upgraded]) -> dict[str, Partitions]:
    """The partitions of each member, none of which another one may still read.

    A member that keeps partitions over a rebalance has them although its assignment was reset: Apache Kafka 4.4 gives
    them to others at once.
    """
    taken = {key for each in members.values() for key in _keys(each.partitions)}
    assigned: dict[str, Partitions] = {}
    for member_id, each in members.items():
        free = [key for key in _keys(each.owned) if key not in taken]
        taken.update(free)
        kept = {topic_id: frozenset(number for key, number in free if key == topic_id) for topic_id, _ in free}
        assigned[member_id] = each.partitions or kept
    return assigned


def _keys(partitions: Partitions) -> list[tuple[UUID, int]]:
    return [(topic_id, number) for topic_id, numbers in partitions.items() for number in numbers]


def _current(epoch: int, partitions: Partitions) -> CurrentAssignment:
    assigned = {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()}
    return CurrentAssignment(epoch, epoch, assigned=assigned)


def _epoch(group: ClassicGroup) -> int:
    """The generation; 0, that of a group whose first members are joining, is no epoch of a consumer group."""
    return max(group.generation_id, FIRST_EPOCH)


def _upgraded(group: ClassicGroup, member: Member, image: TopicImages) -> _Upgraded:
    metadata = dict(member.protocols).get(group.protocol_name or "", member.protocols[0][1])
    name = f"Cannot upgrade classic group {group.group_id} to consumer group"
    try:
        subscription = read_subscription(metadata, image)
        partitions, user_data = read_assignment(member.assignment, image)
    except ProtocolError as error:
        raise UpgradeRefusedError(f"{name} because the embedded consumer protocol is malformed.") from error
    if user_data:
        raise UpgradeRefusedError(
            f"{name} because an unsupported custom assignor is in use. Please refer to the documentation or switch to "
            "a default assignor before re-attempting the upgrade."
        )
    is_reset = not member.assignment and group.state is not states.STABLE
    return _Upgraded(
        MemberMetadata(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=subscription.topic_names,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        ),
        partitions,
        subscription.owned if is_reset else {},
    )


# Downgrade


class Downgrade(NamedTuple):
    """The classic group that a consumer group becomes."""

    records: list[Record]
    members: Members
    """The members with all their protocols; the record has the chosen one alone."""
    rebalances: bool
    """Whether the members have to join again."""


def downgrade(
    group: ConsumerGroup,
    remaining: Mapping[str, MemberMetadata],
    image: TopicImages,
    now_ms: int,
    value_version: int,
    *,
    rebalances: bool,
) -> Downgrade:
    """Make a classic group of the members that remain, all of which use the classic protocol.

    ``value_version`` is that of the group's record. ``remaining`` may differ from what the group knows of a member: its
    join may cause the change. If the group rebalances, the record has the partitions that the members still have, so
    that an upgrade that follows at once gives none of them to another member. Apache Kafka 4.4 writes the target
    assignment in this case too.
    """
    members = Members()
    for member_id, metadata in remaining.items():
        members.add(_classic_member(group.group_id, member_id, metadata))
    protocol = members.select_protocol()
    assigned: Mapping[str, Partitions] = group.targets
    if rebalances:
        assigned = {member_id: group.members[member_id].current.held for member_id in remaining}
    assignments = {
        member_id: write_assignment(assigned.get(member_id, {}), image.topic_name, member.metadata(protocol))
        for member_id, member in members.items()
    }
    value = GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        current_state_timestamp=now_ms,
    )
    made = record_of(group.group_id, value, members, assignments, now_ms, value_version)
    return Downgrade([*stored.all_tombstones(group, now_ms), made], members, rebalances)


def _classic_member(group_id: str, member_id: str, metadata: MemberMetadata) -> Member:
    classic = metadata.classic
    assert classic is not None
    call = JoinCall(
        group_id=group_id,
        member_id=member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=classic.protocols,
    )
    return Member(member_id, call)


def restore_protocols(group: ClassicGroup, members: Members) -> None:
    """Give the members of a group that has just become a classic one all their protocols, which its record lacks."""
    for member_id, member in members.items():
        group.members.change_protocols(group.members[member_id], member.protocols)
