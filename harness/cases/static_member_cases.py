"""Conversations of static members (KIP-345), as in ``group_cases``; every version that knows them."""

from collections.abc import Callable
from typing import Any

from harness.cases.group_cases import RANGE, SYNC, Talk, every_version
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

COMMIT = 8


def commit(talk: Talk, generation: int, member_id: str, instance_id: str | None = None) -> Any:
    partitions = [OffsetCommitRequestPartition(0, 60)]
    topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
    return talk.ask(OffsetCommitRequest(talk.group, generation, member_id, instance_id, topics=topics), COMMIT)


def return_of_one(talk: Talk, version: int) -> None:
    """A member returns after a restart: no rebalance, and its old id is fenced in every API."""
    synced = min(version, SYNC)
    old = talk.stable(version, group_instance_id="i")
    talk.join(version, group_instance_id="i")
    back = talk.join(version, group_instance_id="i")
    for who, instance in (
        (old, "i"), (old, None), (old, "other"), ("x", "i"), ("", "i"), (back.member_id, "i"), (back.member_id, None),
        (back.member_id, "other"),
    ):  # fmt: skip
        for generation in (1, 0):
            talk.heartbeat(min(version, 4), generation, who, instance)
            talk.sync(synced, generation, who, group_instance_id=instance)
            commit(talk, generation, who, instance)
    talk.join(version, old, group_instance_id="i")
    talk.join(version, old)
    talk.join(version, "x", group_instance_id="i")
    talk.join(version, "x", group_instance_id="other")
    talk.describe()
    talk.leave(3, MemberIdentity(old, "i"), MemberIdentity("", "other"), MemberIdentity("", "i"))
    talk.leave(3, MemberIdentity("", "i"))
    talk.describe()


def _two_to_be_assigned(talk: Talk, version: int) -> tuple[int, str, str]:
    """Static members "i", the leader, and "j", whose sync waits: SyncGroup's version, and their ids."""
    synced = min(version, SYNC)
    leader = talk.stable(version, group_instance_id="i")
    talk.wait(talk.join_request(version, group_instance_id="j"), version)
    talk.join(version, leader, group_instance_id="i")
    follower = talk.receive().member_id
    talk.wait(talk.sync_request(synced, 2, follower, group_instance_id="j"), synced)
    return synced, leader, follower


def return_of_the_leader(talk: Talk, version: int) -> None:
    """The leader of two comes back, then asks for a rebalance by joining under its new id."""
    synced, leader, follower = _two_to_be_assigned(talk, version)
    talk.sync(synced, 2, leader, parts={leader: b"1", follower: b"2"}, group_instance_id="i")
    talk.receive()
    back = talk.join(version, group_instance_id="i").member_id
    talk.sync(synced, 2, back, group_instance_id="i", parts={follower: b"stolen"})
    talk.sync(synced, 2, follower, group_instance_id="j")
    talk.describe()
    talk.join(version, follower, group_instance_id="j")
    talk.wait(talk.join_request(version, back, group_instance_id="i"), version)
    talk.heartbeat(min(version, 4), 2, follower, "j")
    talk.join(version, follower, group_instance_id="j", on=0)
    talk.receive()
    talk.leave(3, MemberIdentity("", "j"), MemberIdentity(back, "i"))
    talk.describe()


def return_while_it_is_assigned(talk: Talk, version: int) -> None:
    """The follower comes back while the leader computes, and while its own sync waits."""
    _, leader, _ = _two_to_be_assigned(talk, version)
    talk.wait(talk.join_request(version, group_instance_id="j"), version, on=0)
    talk.receive()
    talk.join(version, leader, on=1, group_instance_id="i")
    talk.receive(0)
    talk.describe()


def return_with_other_protocols(talk: Talk, version: int) -> None:
    """The same protocol with another subscription does not rebalance; another protocol does."""
    talk.stable(version, group_instance_id="i", names=("range", "sticky"))
    talk.join(version, group_instance_id="i", names=("range",))
    talk.describe()
    talk.join(version, group_instance_id="i", names=("range", "sticky"), metadata=RANGE + b"more")
    talk.describe()
    talk.join(version, group_instance_id="i", names=("sticky", "range"))
    talk.describe()
    talk.join(version, group_instance_id="i", names=("other",))
    talk.join(version, group_instance_id="i", protocol_type="connect")


def an_id_that_was_given_out(talk: Talk, version: int) -> None:
    """Only dynamic members are assigned ids; such an id together with an instance id is refused."""
    given = talk.join(version).member_id
    talk.join(version, given, group_instance_id="i")
    talk.describe()
    talk.leave(3, MemberIdentity(given, "i"))
    talk.leave(3, MemberIdentity(given))
    talk.leave(3, MemberIdentity(given))
    talk.join(version, given)


def leaving_together(talk: Talk, version: int) -> None:
    """Several members leave in one request, known and unknown, by id and by instance id, some twice."""
    known = talk.stable(5, group_instance_id="i")
    given = talk.join(5, on=1).member_id
    talk.leave(
        version,
        MemberIdentity("x"),
        MemberIdentity("x", "i"),
        MemberIdentity("x", "other"),
        MemberIdentity(""),
        MemberIdentity("", ""),
        MemberIdentity(given),
        MemberIdentity("", "i"),
        MemberIdentity(known),
        MemberIdentity("", "i"),
    )
    talk.leave(version)
    talk.describe()


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    **every_version("return of one", return_of_one, range(5, 8)),
    **every_version("return of the leader", return_of_the_leader, range(5, 8)),
    **every_version("return while it is assigned", return_while_it_is_assigned, range(5, 8)),
    **every_version("return with other protocols", return_with_other_protocols, range(5, 8)),
    **every_version("an id that was given out", an_id_that_was_given_out, range(5, 8)),
    **every_version("leaving together", leaving_together, range(3, 5)),
}
