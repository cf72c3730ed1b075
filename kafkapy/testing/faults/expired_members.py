"""Finds the members whose sessions a test ends: by their ids, or by a request that names them."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.coordinator.group.coordinator import GroupCoordinator
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.places import WITH_MEMBER_ID
from kafkapy.server.dispatch.message_places import groups_in
from kafkapy.turns import finish

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

ASKED_FOR_ITS_ID_FROM: Final = 4
"""From this version of JoinGroup on a join without an id is answered with one, and adds no member (KIP-394)."""


class UnknownMemberError(LookupError):
    """There is no such group or member; the message lists the members."""


class Target(NamedTuple):
    """The members whose sessions a rule ends.

    They belong to ``group``, or without it to the group that the request names. They are the member with the given
    ids; without ids, all members of ``group``, or without a group the member that has sent the request.
    """

    group: str | None = None
    member_id: str | None = None
    instance_id: str | None = None

    @property
    def has_ids(self) -> bool:
        """Whether the member is named."""
        return self.member_id is not None or self.instance_id is not None

    def describe(self) -> dict[str, str]:
        """The given values, by the names of a rule's fields."""
        given = {"member_of": self.group, "member_id": self.member_id, "instance_id": self.instance_id}
        return {name: value for name, value in given.items() if value is not None}


def expire(groups: GroupCoordinator, group: str, member_id: str | None, instance_id: str | None) -> str:
    """End the session of the one member with these ids (None: any); return its id. Raises ``UnknownMemberError``."""
    found = _present(groups, group, member_id, instance_id)
    if len(found) != 1:
        members = finish(groups.describe_group(group)).members
        known = ", ".join(repr(member.instance_id or member.member_id) for member in members) or "none"
        which = "more than one member" if found else "no such member"
        raise UnknownMemberError(f"group {group!r} has {which}; its members: {known}")
    groups.classic.expire_member(group, found[0])
    return found[0]


def targeted(target: Target, context: "RequestContext", request: Any, response: Any = None) -> list[tuple[str, str]]:
    """Group and member id of each present member that ``target`` selects for this request.

    ``response`` is the answer, if there is one already: that to a JoinGroup has the id of a new member.
    """
    groups = context.services.group_coordinator
    named = groups_in(context.header.api_key, request) if target.group is None else [target.group]
    if target.group is not None or target.has_ids:
        wanted: list[tuple[str | None, str | None]] = [(target.member_id, target.instance_id)]
    else:
        wanted = [(ids[0] or None, ids[1]) for ids in _senders(context.header.api_key, request, response) if any(ids)]
    return [(group, member) for group in named for ids in wanted for member in _present(groups, group, *ids)]


def may_have_joined(context: "RequestContext", request: Any) -> bool:
    """Whether the request is a JoinGroup that can make its sender a member."""
    if context.header.api_key != ApiKey.JOIN_GROUP or request is None:
        return False
    has_id = bool(request.member_id) or request.group_instance_id is not None
    return has_id or context.header.api_version < ASKED_FOR_ITS_ID_FROM


def _senders(key: int, request: Any, response: Any) -> list[tuple[str, str | None]]:
    """The member id and group instance id of each member that a request names as its sender."""
    if key not in WITH_MEMBER_ID or request is None:
        return []
    if key == ApiKey.LEAVE_GROUP and request.members:
        return [(member.member_id, member.group_instance_id) for member in request.members]
    if key == ApiKey.LEAVE_GROUP:
        return [(request.member_id, None)]
    if key == ApiKey.JOIN_GROUP and response is not None and not response.error_code:
        return [(response.member_id, None)]
    return [(request.member_id, request.group_instance_id)]


def _present(groups: GroupCoordinator, group: str, member_id: str | None, instance_id: str | None) -> list[str]:
    return [
        member.member_id
        for member in finish(groups.describe_group(group)).members
        if member_id in (None, member.member_id) and instance_id in (None, member.instance_id)
    ]
