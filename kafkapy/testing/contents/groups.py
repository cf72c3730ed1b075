"""Consumer groups of a broker in a test: whether they are stable, their committed offsets, their lag."""

from collections.abc import Iterable
from typing import NamedTuple

from kafkapy.coordinator.group.calls import GroupDescription
from kafkapy.coordinator.group.classic.protocols import CONSUMER_PROTOCOL_TYPE, topics_of
from kafkapy.coordinator.group.classic.states import STABLE
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.server.dispatch.context import Services
from kafkapy.testing.errors import unknown
from kafkapy.testing.loop.waiting import Deadline, until
from kafkapy.turns import finish
from kafkapy.types import NO_OFFSET, TopicPartition


class GroupMember(NamedTuple):
    """A member of a stable group, and the partitions that it reads."""

    member_id: str
    client_id: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


def names(services: Services) -> list[str]:
    """The names of the groups, in order."""
    return sorted(listing.group_id for listing in finish(services.group_coordinator.list_groups())[1])


async def stable(services: Services, group: str, members: int | None, timeout_s: float) -> list[GroupMember]:
    """Wait until the group is stable, with that many ``members`` if given; return them.

    Stable means that the coordinator's state is Stable, and every partition of the topics that the members subscribe to
    is assigned to a member (a cooperative assignor needs two rebalances). The group need not exist yet. Raises
    ``NotInTimeError``, which describes the group's state.
    """

    def look() -> list[GroupMember] | None:
        found = finish(services.group_coordinator.describe_group(group))
        if found.state != STABLE.value or members not in (None, len(found.members)):
            return None
        who = _members(found)
        return None if _unassigned(services, found, who) else who

    def failure() -> str:
        found = finish(services.group_coordinator.describe_group(group))
        if group not in names(services):
            return f"no consumer of group {group!r} has joined; there is {', '.join(names(services)) or 'no group'}"
        wanted = "" if members is None else f", {members} are waited for"
        left = sorted(map(str, _unassigned(services, found, _members(found))))
        unread = f"; nobody has {', '.join(left[:5])}" if left else ""
        return f"group {group!r} is {found.state} with {len(found.members)} members{wanted}{unread}"

    return await until(look, Deadline(timeout_s), failure)


def committed(services: Services, group: str) -> dict[TopicPartition, int]:
    """The offset that the group has committed for each partition that has one; raises ``UnknownNameError``."""
    if group not in (known := names(services)):
        raise unknown("group", group, known)
    _, offsets = finish(services.group_coordinator.fetch_offsets(group, None))
    return {each: found.offset for each, found in offsets.items() if found.offset != NO_OFFSET}


def lag(services: Services, group: str) -> dict[TopicPartition, int]:
    """How many records each partition has after the group's committed offset; raises ``UnknownNameError``.

    The partitions are those of every topic that a member subscribes to, or for which the group has committed an offset.
    Without a committed offset all records of the partition count.
    """
    offsets = committed(services, group)
    described = finish(services.group_coordinator.describe_group(group))
    topics = {each.topic for each in offsets} | _subscribed(described)
    result = {}
    for each in sorted(_partitions(services, topics)):
        log = services.log_manager.get(each)
        if log is not None:
            start = offsets.get(each, log.log_start_offset)
            result[each] = max(log.high_watermark - max(start, log.log_start_offset), 0)
    return result


async def caught_up(services: Services, group: str, timeout_s: float) -> None:
    """Wait until the group exists and has committed the end offsets of its partitions; raises ``NotInTimeError``."""

    def look() -> bool | None:
        if group not in names(services):
            return None
        behind = lag(services, group)
        return True if behind and not any(behind.values()) else None

    def failure() -> str:
        if group not in names(services):
            return f"no consumer of group {group!r} has joined or committed"
        behind = {str(each): count for each, count in lag(services, group).items() if count}
        return f"group {group!r} is behind: {behind or 'it reads no topic'}"

    await until(look, Deadline(timeout_s), failure)


def _members(found: GroupDescription) -> list[GroupMember]:
    from kafkapy.clients.groups import assigned  # imports a client, which few tests need

    return [
        GroupMember(
            member.member_id,
            member.client_id,
            member.instance_id,
            tuple(TopicPartition(*place) for place in assigned(member.assignment)),
        )
        for member in found.members
    ]


def _unassigned(services: Services, found: GroupDescription, members: Iterable[GroupMember]) -> set[TopicPartition]:
    owned = {partition for member in members for partition in member.partitions}
    return _partitions(services, _subscribed(found)) - owned


def _subscribed(found: GroupDescription) -> set[str]:
    """The topics of the members' subscriptions; none before the group is stable, or if its protocol is another."""
    if found.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return set()
    try:
        return {topic for member in found.members if member.metadata for topic in topics_of(member.metadata)}
    except ProtocolError:
        return set()


def _partitions(services: Services, topics: Iterable[str]) -> set[TopicPartition]:
    images = services.metadata.image.topics
    return {TopicPartition(topic, index) for topic in topics if topic in images for index in images[topic].partitions}
