"""The records of a coordinator in ``__consumer_offsets``, by inter-broker protocol and codec, as in ``group_cases``.

``group_records.json`` holds what Apache Kafka 2.7.2 has written (``compat_tests/groups/record_group_answers.py``).
"""

import json
from pathlib import Path
from typing import Any, Final

from harness.cases.group_cases import RANGE, Talk
from harness.cases.offset_cases import commit, delete
from kafkapy.coordinator.group.records import GroupKey, OffsetKey, decode_key
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataValue
from kafkapy.protocol.messages.stored.offset_commit import OffsetCommitValue
from kafkapy.protocol.reader import Reader
from kafkapy.records.batch import MAGIC, iterate_headers
from kafkapy.records.record import read_records

CONFIGURATIONS: Final[dict[str, dict[str, str]]] = {
    **{
        f"protocol {release}": {"inter.broker.protocol.version": release, "log.message.format.version": release}
        for release in ("0.9.0", "0.10.0", "0.10.1", "1.0", "2.0", "2.1-IV0", "2.1-IV1", "2.2", "2.3", "2.7")
    },
    **{f"codec {number}": {"offsets.topic.compression.codec": f"{number}"} for number in range(1, 5)},
}
TIMES: Final = ("commit_timestamp", "expire_timestamp", "current_state_timestamp")


def a_life(talk: Talk) -> None:
    """Commits of every kind, and a group that is formed, grows, becomes empty and is deleted."""
    commit(talk, 7, {"t": [(0, 60, "m", 3), (1, 5)], "u": [(0, 1, None)]})
    commit(talk, 3, {"t": [(0, 61)]}, retention_time_ms=1_000_000)
    commit(talk, 1, {"u": [(0, 2)]})
    leader = talk.stable(1)
    commit(talk, 8, {"t": [(0, 62, "by a member", 4)]}, generation_id_or_member_epoch=1, member_id=leader)
    talk.wait(talk.join_request(1, metadata=RANGE + b"more"), 1)
    talk.join(1, leader)
    follower = talk.receive().member_id
    talk.wait(talk.sync_request(1, 2, follower), 1)
    talk.sync(1, 2, leader, parts={leader: b"1", follower: b"2"})
    talk.receive()
    delete(talk, {"u": [0, 1]})
    talk.leave(1, MemberIdentity(leader))
    talk.leave(1, MemberIdentity(follower))
    static = talk.member(5, group_instance_id="i")
    if static.error_code == 0:
        talk.sync(3, static.generation_id, static.member_id, parts={static.member_id: b"3"}, group_instance_id="i")
        talk.leave(3, MemberIdentity("", "i"))
    talk.ask(DeleteGroupsRequest([talk.group]), 1)


def stored(talk: Talk, data: Path) -> list[Any]:
    """The batches of the conversation's group: the header fields that show how they were written, and their records."""
    found = []
    for path in sorted(data.glob("__consumer_offsets-*/*.log")):
        content = path.read_bytes()
        for position, header in iterate_headers(content):
            if header.size == 0:
                break
            records = [
                [_key(talk, record.key), _value(talk, record.key, record.value)]
                for record in read_records(content, header, position)
            ]
            about = {
                "magic": header.magic,
                "compression": header.compression,
                "base_sequence": header.base_sequence,
                "producer_id": header.producer_id,
                "partition_leader_epoch": header.partition_leader_epoch,
                "timestamp_type": header.timestamp_type,
            }
            if any("G" in str(key) for key, _ in records):
                found.append([about, records])
    return found


def _key(talk: Talk, key: bytes | None) -> Any:
    assert key is not None
    return [int.from_bytes(key[:2], "big"), talk.plain(str(decode_key(key)))]


def _value(talk: Talk, key: bytes | None, value: bytes | None) -> Any:
    if value is None or key is None:
        return None
    decoded = decode_key(key)
    assert isinstance(decoded, OffsetKey | GroupKey)
    reader = Reader(memoryview(value))
    version = reader.read_int16()
    kind: type[Message] = OffsetCommitValue if isinstance(decoded, OffsetKey) else GroupMetadataValue
    message = kind.read(reader, version)
    reader.expect_end()
    fields = talk.plain(message)
    return [version, {name: _moment(each) if name in TIMES else each for name, each in fields.items()}]


def _moment(time_ms: int) -> str | int:
    """In place of a time, whether there is one."""
    return "(a time)" if time_ms > 0 else time_ms


def comparable(batches: list[Any]) -> list[Any]:
    """The same without orders that don't matter: of a group's members, a batch's records, neighbouring tombstones.

    In formats 0 and 1 each record is a batch of its own.
    """
    found: list[Any] = []
    for about, records in batches:
        content = sorted(([key, _comparable_value(value)] for key, value in records), key=json.dumps)
        if found and about["magic"] < MAGIC and found[-1][0] == about and _is_neighbour(found[-1][1], content):
            found[-1][1] = sorted([*found[-1][1], *content], key=json.dumps)
        else:
            found.append([about, content])
    return found


def _is_neighbour(before: list[Any], after: list[Any]) -> bool:
    return all(value is None for _, value in (*before, *after))


def _comparable_value(value: Any) -> Any:
    if value is None or "members" not in value[1]:
        return value
    return [value[0], value[1] | {"members": sorted(value[1]["members"], key=json.dumps)}]
