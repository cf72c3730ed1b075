"""Conversations about protocols that a member names twice, as in ``group_cases``: Kafka counts each mention."""

from collections.abc import Callable

from harness.cases.group_cases import JOIN, LEAVE, Talk, every_version
from kafkapy.protocol.messages.leave_group import MemberIdentity


def _waiting(talk: Talk, version: int, *names: str) -> None:
    """Send a new member's join on the second connection, which has to wait for the others."""
    given = talk.join(version, on=1, names=names).member_id if version >= 4 else ""
    talk.wait(talk.join_request(version, given, names=names), version)


def named_twice(talk: Talk, version: int) -> None:
    """A protocol that a member names twice counts as if two members had named it, until that member joins again."""
    first = talk.stable(version, names=("sticky", "sticky", "range"))
    talk.join(version, on=1, names=("sticky",))
    talk.join(version, on=1, names=("sticky", "other"))
    talk.join(version, first, names=("sticky",))
    talk.join(version, first, names=("sticky", "sticky"))
    _waiting(talk, version, "sticky", "range")
    talk.join(version, first, names=("sticky",))
    talk.join(version, first, names=("sticky", "range"))
    second = talk.receive().member_id
    _waiting(talk, version, "sticky")
    talk.leave(min(version, LEAVE), MemberIdentity(first))
    talk.leave(min(version, LEAVE), MemberIdentity(second))
    talk.receive()


def named_twice_by_one_who_stays(talk: Talk, version: int) -> None:
    """The follower names the leader's only protocol twice; then it is alone, with another protocol."""
    leader = talk.stable(version)
    _waiting(talk, version, "range", "range", "sticky")
    talk.leave(min(version, LEAVE), MemberIdentity(leader))
    other = talk.receive().member_id
    talk.join(version, on=1, names=("range",))
    talk.leave(min(version, LEAVE), MemberIdentity(other))
    talk.join(version, on=1, names=("range",))


def named_twice_by_a_static_member(talk: Talk, version: int) -> None:
    """Each return of a static member counts its protocols again."""
    talk.stable(version, group_instance_id="i", names=("sticky", "sticky", "range"))
    talk.join(version, group_instance_id="i", names=("sticky",))
    talk.join(version, group_instance_id="j", on=1, names=("sticky",))
    talk.join(version, group_instance_id="i", names=("range", "other", "other"))
    talk.describe()
    talk.join(version, group_instance_id="j", on=1, names=("sticky",))
    talk.join(version, group_instance_id="j", on=1, names=("other",))
    talk.join(version, group_instance_id="i", names=("range", "other"))
    talk.wait(talk.join_request(version, group_instance_id="j", names=("other",)), version)
    talk.leave(3, MemberIdentity("", "i"))
    talk.receive()


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    **every_version("a protocol named twice", named_twice, range(3, JOIN + 1, 4)),
    **every_version("named twice by one who stays", named_twice_by_one_who_stays, range(3, JOIN + 1, 4)),
    **every_version("named twice by a static member", named_twice_by_a_static_member, range(5, JOIN + 1, 2)),
}
