"""Conversations about committed offsets, as in ``group_cases``. Version 0 keeps them in the metadata tree."""

from collections.abc import Callable
from typing import Any

from harness.cases.group_cases import Talk, every_version
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

COMMIT, FETCH = 8, 7

Topics = dict[str, list[tuple[Any, ...]]]


def commit(talk: Talk, version: int, topics: Topics, **fields: Any) -> Any:
    """Commit ``topics``: partition, offset and, if need be, metadata (and leader epoch) of each."""
    wanted = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(
                    each[0],
                    each[1],
                    committed_metadata=each[2] if len(each) > 2 else "",
                    **({"committed_leader_epoch": each[3]} if len(each) > 3 and version >= 6 else {}),
                )
                for each in partitions
            ],
        )
        for name, partitions in topics.items()
    ]
    return talk.ask(OffsetCommitRequest(**{"group_id": talk.group, **fields}, topics=wanted), version)


def fetch(talk: Talk, version: int, topics: dict[str, list[int]] | None, **fields: Any) -> Any:
    wanted = None if topics is None else [OffsetFetchRequestTopic(*each) for each in topics.items()]
    response_fields = {"group_id": talk.group, **fields}
    return talk.ask(OffsetFetchRequest(topics=wanted, **response_fields), version)


def delete(talk: Talk, topics: dict[str, list[int]], group: str | None = None) -> Any:
    wanted = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(each) for each in partitions])
        for name, partitions in topics.items()
    ]
    return talk.ask(OffsetDeleteRequest(talk.group if group is None else group, wanted), 0)


def committed_and_fetched(talk: Talk, version: int) -> None:
    """Commit offsets of partitions that exist and that don't, with and without metadata; then fetch them."""
    fetched = min(version, FETCH)
    asked = {"t": [0, 1, 7, -1], "u": [0], "no-such-topic": [0]}
    fetch(talk, fetched, asked)
    commit(talk, version, {"t": [(0, 60, "m", 3), (7, 1), (-1, 1)], "no-such-topic": [(0, 5)], "u": [(0, 0, "")]})
    fetch(talk, fetched, asked)
    commit(talk, version, {"t": [(0, 2, None), (1, -5, "x" * 4096)]})
    fetch(talk, fetched, asked)
    commit(talk, version, {"t": [(0, 3, "y" * 4097), (1, 2**63 - 1, "é" * 4096)], "u": [(0, 9, "😀" * 2049)]})
    fetch(talk, fetched, asked)
    commit(talk, version, {"no-such-topic": [(0, 5)]})
    commit(talk, version, {"t": []})
    commit(talk, version, {})
    fetch(talk, fetched, {})
    fetch(talk, fetched, {"t": []})
    fetch(talk, fetched, {"t": [0]}, group_id="")
    for other in (0, 1, 2, 7):
        fetch(talk, other, {"t": [0], "no-such-topic": [0]})
    if fetched >= 2:
        fetch(talk, fetched, None)
    if fetched >= 7:
        # 2.7.2 treats a commit that was refused for its metadata as pending (88), until the next commit
        commit(talk, version, {"t": [(0, 2)]})
        fetch(talk, fetched, {"t": [0, 1]}, require_stable=True)
    delete(talk, {"t": [0, 1], "u": [0]})
    fetch(talk, fetched, asked)


def odd_group_names(talk: Talk) -> None:
    """Version 0 makes the group's name a part of a path."""
    name = talk.group
    for group in ("", f"{name}/b", f"{name} c", f"{name}ü", ".", "..", f"{name}\x00", f"{name}/"):
        talk.group = group
        commit(talk, 0, {"t": [(0, 5)]})
        fetch(talk, 0, {"t": [0]})
    talk.group = name


def by_members(talk: Talk, version: int) -> None:
    """Commits of members and others, in each state of a group."""
    topics: Topics = {"t": [(0, 60)]}

    def attempts(member_id: str, current: int) -> None:
        for generation, who in (
            (-1, ""), (-7, ""), (0, ""), (-1, "x"), (1, "x"), (current, member_id), (current - 1, member_id),
            (current + 1, member_id), (-1, member_id),
        ):  # fmt: skip
            commit(talk, version, topics, generation_id_or_member_epoch=generation, member_id=who)

    commit(talk, version, topics, generation_id_or_member_epoch=1, member_id="x")
    commit(talk, version, topics, generation_id_or_member_epoch=0, member_id="")
    member_id = talk.member(1).member_id
    attempts(member_id, 1)
    talk.sync(1, 1, member_id)
    attempts(member_id, 1)
    talk.wait(talk.join_request(1), 1)
    attempts(member_id, 1)
    talk.leave(1, MemberIdentity(member_id))
    talk.leave(1, MemberIdentity(talk.receive().member_id))
    attempts(member_id, 3)
    fetch(talk, min(version, FETCH), {"t": [0]})


def deleted(talk: Talk) -> None:
    """OffsetDelete in each state of a group, and of topics that members read or don't."""
    everything = {"t": [0, 9], "u": [0], "no-such-topic": [0]}
    delete(talk, everything)
    delete(talk, everything, group="")
    commit(talk, 7, {"t": [(0, 1), (1, 1)], "u": [(0, 1)]})
    delete(talk, {})
    delete(talk, {"t": []})
    delete(talk, {"t": [0]})
    fetch(talk, 7, None)
    member_id = talk.member(1).member_id
    delete(talk, everything)
    talk.sync(1, 1, member_id)
    delete(talk, everything)
    talk.wait(talk.join_request(1), 1)
    delete(talk, everything)
    talk.leave(1, MemberIdentity(member_id))
    talk.leave(1, MemberIdentity(talk.receive().member_id))
    fetch(talk, 7, None)
    delete(talk, everything)
    fetch(talk, 7, None)
    talk.describe()
    delete(talk, {"t": [1]})
    talk.describe()


def deleted_of_others(talk: Talk) -> None:
    """OffsetDelete of a group whose members don't speak the consumer's protocol, or speak it badly."""
    commit(talk, 7, {"t": [(0, 1)]})
    member_id = talk.stable(1, protocol_type="connect")
    delete(talk, {"t": [0], "u": [0]})
    talk.leave(1, MemberIdentity(member_id))
    talk.stable(1, metadata=b"\x00")
    delete(talk, {"t": [0], "u": [0]})


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    **every_version("committed and fetched", committed_and_fetched, range(COMMIT + 1)),
    **every_version("by members", by_members, range(1, COMMIT + 1)),
    "odd group names": odd_group_names,
    "deleted": deleted,
    "deleted of others": deleted_of_others,
}
