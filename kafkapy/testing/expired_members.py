"""A group's member whose session a test ends."""

from kafkapy.coordinator.group.coordinator import GroupCoordinator


class UnknownMemberError(LookupError):
    """There is no such group or member; the sentence says who is there."""


def expire(groups: GroupCoordinator, group: str, member_id: str | None, instance_id: str | None) -> str:
    """End the session of the one member with these ids (None: any); its member id. Raises ``UnknownMemberError``."""
    members = groups.describe_group(group).members
    found = [
        member.member_id
        for member in members
        if member_id in (None, member.member_id) and instance_id in (None, member.instance_id)
    ]
    if len(found) != 1:
        known = ", ".join(repr(member.instance_id or member.member_id) for member in members) or "none"
        which = "more than one member" if found else "no such member"
        raise UnknownMemberError(f"group {group!r} has {which}; its members: {known}")
    groups.expire_member(group, found[0])
    return found[0]
