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
from kafkapy.coordinator.group.consumer.topics import TopicImages, read_topics
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataValue
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.records.record import Record
from kafkapy.turns import Steps, pieces


class UpgradeRefusedError(Exception):
    """The classic group can't become a consumer group; the text is for the member that joins."""


class UpgradedMember(NamedTuple):
    """A member of a classic group as one of a consumer group."""

    metadata: MemberMetadata
    target: Partitions
    current: CurrentAssignment


class _ReadMember(NamedTuple):
    """What a member of a classic group has said."""

    metadata: MemberMetadata
    partitions: Partitions
    """Its last assignment."""
    owned: Partitions
    """What it said to own when it joined, if the assignment that it has was reset for a rebalance since."""


# Upgrade


class Upgrade(NamedTuple):
    """The consumer group that a classic group becomes."""

    former: ClassicGroup
    epoch: int
    members: dict[str, UpgradedMember]

    def apply_to(self, group: ConsumerGroup) -> None:
        """Give a new group the state that the records have."""
        group.replay_group(self.epoch, group.metadata_hash)
        group.replay_assignment_epoch(self.epoch, 0)
        for member_id, member in self.members.items():
            group.replay_member(member_id, member.metadata)
            group.replay_target(member_id, member.target)
            group.replay_current(member_id, member.current)


def read_upgrade(group: ClassicGroup, image: TopicImages) -> Upgrade:
    """What a classic group with members becomes.

    It is read in one step, as a rebalance is: ``group.max.size`` bounds the members. Raises ``UpgradeRefusedError``.
    """
    epoch = max(group.generation_id, FIRST_EPOCH)  # generation 0, of the first members, is no epoch of a consumer group
    members = {each.member_id: _read_member(group, each, image) for each in group.members.values()}
    targets = _assigned(members)
    return Upgrade(
        group,
        epoch,
        {
            member_id: UpgradedMember(each.metadata, targets[member_id], _current(epoch, targets[member_id]))
            for member_id, each in members.items()
        },
    )


def _assigned(members: Mapping[str, _ReadMember]) -> dict[str, Partitions]:
    """The partitions of each member, none of which another one may still read.

    A member that keeps partitions over a rebalance has them although its assignment was reset: Apache Kafka 4.4 gives
    them to others at once.
    """
    taken = {
        (topic_id, number)
        for each in members.values()
        for topic_id, numbers in each.partitions.items()
        for number in numbers
    }
    assigned: dict[str, Partitions] = {}
    for member_id, each in members.items():
        kept: dict[UUID, frozenset[int]] = {}
        for topic_id, numbers in each.owned.items():
            free = frozenset(number for number in numbers if (topic_id, number) not in taken)
            taken.update((topic_id, number) for number in free)
            if free:
                kept[topic_id] = free
        assigned[member_id] = each.partitions or kept
    return assigned


def _current(epoch: int, partitions: Partitions) -> CurrentAssignment:
    assigned = {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()}
    return CurrentAssignment(epoch, epoch, assigned=assigned)


def upgrade_records(upgrade: Upgrade, group: ConsumerGroup, image: TopicImages, now_ms: int) -> Steps[list[Record]]:
    """The records by which a classic group becomes ``group``, which gets the hash of its topics."""
    group_id, epoch, members = group.group_id, upgrade.epoch, list(upgrade.members.items())
    topics = yield from read_topics(image, list(group.subscribed))
    group.replay_group(epoch, topics.metadata_hash)
    records = upgrade.former.tombstones(now_ms)
    for piece in pieces(members):
        records += (stored.member_record(group_id, member_id, each.metadata, now_ms) for member_id, each in piece)
        yield
    records.append(stored.group_record(group_id, epoch, topics.metadata_hash, now_ms))
    for piece in pieces(members):
        records += (stored.target_record(group_id, member_id, each.target, now_ms) for member_id, each in piece)
        yield
    records.append(stored.assignment_epoch_record(group_id, epoch, 0, now_ms))
    for piece in pieces(members):
        records += (stored.current_record(group_id, member_id, each.current, now_ms) for member_id, each in piece)
        yield
    return records


def _read_member(group: ClassicGroup, member: Member, image: TopicImages) -> _ReadMember:
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
    return _ReadMember(
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
) -> Steps[Downgrade]:
    """Make a classic group of the members that remain, all of which use the classic protocol.

    ``value_version`` is that of the group's record. ``remaining`` may differ from what the group knows of a member: its
    join may cause the change. If the group rebalances, the record has the partitions that the members still have, so
    that an upgrade that follows at once gives none of them to another member. Apache Kafka 4.4 writes the target
    assignment in this case too.
    """
    members = Members()
    for piece in pieces(list(remaining.items())):
        for member_id, metadata in piece:
            members.add(_classic_member(group.group_id, member_id, metadata))
        yield
    protocol = members.select_protocol()
    assignments: dict[str, bytes] = {}
    for some in pieces(list(members.items())):
        for member_id, member in some:
            partitions = group.members[member_id].current.held if rebalances else group.targets.get(member_id, {})
            assignments[member_id] = write_assignment(partitions, image.topic_name, member.metadata(protocol))
        yield
    value = GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        current_state_timestamp=now_ms,
    )
    made = record_of(group.group_id, value, members, assignments, now_ms, value_version)
    tombstones = yield from stored.all_tombstones(group, now_ms)
    return Downgrade([*tombstones, made], members, rebalances)


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
