"""Conversations with groups that have members of both protocols (KIP-848), as in ``consumer_group_cases``.

``migration_answers.json`` holds what Apache Kafka 4.4.0 answered (``compat_tests/groups/record_migration_answers.py``).
The broker assigns at once (``AT_ONCE``). Member ids that it draws are numbered in the order in which they appear.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from harness.cases.consumer_group_cases import A, B, ConsumerTalk, Owned, coordinated_topics
from harness.wire import Wire
from kafkapy.protocol.constants import AclOperation
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.primitives import Writer

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = 7, 5, 4, 5, 9, 9
COMMIT_WITHOUT_EPOCHS: Final = 8
LISTED_WITH_TYPES: Final = 5
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
MEMBER_ID_REQUIRED: Final = 79
EARLIEST_JOIN: Final = 3
"""The last version that gives a member its id at once."""


def _message(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    writer = Writer()
    message.write(writer, version)
    return version.to_bytes(2, "big") + writer.getvalue()


def subscription(*topics: str, version: int = 3, owned: Owned | None = None, rack: str | None = None) -> bytes:
    """The metadata of a consumer of the classic protocol."""
    partitions = [ConsumerProtocolSubscriptionTopicPartition(name, each) for name, each in (owned or {}).items()]
    return _message(ConsumerProtocolSubscription(list(topics), None, partitions, -1, rack), version)


def assignment(partitions: Owned, user_data: bytes | None = None, version: int = 3) -> bytes:
    """The assignment that a leader computes for one member."""
    topics = [ConsumerProtocolAssignmentTopicPartition(name, each) for name, each in partitions.items()]
    return _message(ConsumerProtocolAssignment(topics, user_data), version)


class MigrationTalk(ConsumerTalk):
    """One conversation."""

    def __init__(self, wire: Wire, second: Wire, group: str, topic_ids: Mapping[str, UUID]) -> None:
        super().__init__(wire, group, topic_ids, second)
        self._ids: dict[str, str] = {}

    def plain(self, value: Any) -> Any:
        """A message as JSON values, member ids by their numbers."""
        if isinstance(value, str):
            return self._ids.get(value) or super().plain(value)
        return super().plain(value)

    def receive(self, on: int = 1) -> Any:
        """The ids that a JoinGroup response gives are numbered."""
        response = self._connections[on].receive()
        member_id = getattr(response, "member_id", "")
        if type(response).__name__ == "JoinGroupResponse" and member_id and member_id not in self._ids:
            self._ids[member_id] = f"<{len(self._ids) + 1}>"
        self.transcript.append([type(response).__name__, self.plain(response)])
        return response

    def enter(self, *topics: str, version: int = JOIN, owned: Owned | None = None, **fields: Any) -> Any:
        """A member of the classic protocol joins, with the id that the broker gives."""
        metadata = fields.pop("metadata", None) or subscription(*(topics or ("t",)), owned=owned)
        return self.member(version, metadata=metadata, **fields)

    def again(self, member_id: str, *topics: str, owned: Owned | None = None, **fields: Any) -> Any:
        """A member of the classic protocol joins again."""
        metadata = subscription(*(topics or ("t",)), owned=owned)
        return self.join(JOIN, member_id, metadata=metadata, **fields)

    def classic(self, partitions: Owned | None = None, user_data: bytes | None = None, **fields: Any) -> str:
        """A classic group of one member, which has the partitions; returns its id."""
        joined = self.enter(**fields)
        part = assignment({"t": [0, 1]} if partitions is None else partitions, user_data)
        named = {"protocol_name": joined.protocol_name, **_mine(fields)}
        self.sync(SYNC, joined.generation_id, joined.member_id, parts={joined.member_id: part}, **named)
        return str(joined.member_id)

    def commit(self, member_id: str, epoch: int, partition: int = 0, version: int = COMMIT) -> None:
        """Commit an offset of a partition of ``t``."""
        topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(partition, 7)])]
        self.ask(OffsetCommitRequest(self.group, epoch, member_id, topics=topics), version)

    def fetch(self, member_id: str | None, epoch: int) -> None:
        """Fetch an offset of ``t``."""
        group = OffsetFetchRequestGroup(
            self.group, member_id, epoch, [OffsetFetchRequestTopics("t", partition_indexes=[0])]
        )
        self.ask(OffsetFetchRequest(groups=[group]), FETCH)

    def overview(self) -> None:
        """The group in ConsumerGroupDescribe, DescribeGroups and ListGroups."""
        self.show()
        self.describe()
        self._connections[0].send(ListGroupsRequest([]), LISTED_WITH_TYPES)
        response = self._connections[0].receive()
        response.groups = [group for group in response.groups if group.group_id == self.group]
        self.transcript.append([type(response).__name__, self.plain(response)])


def _mine(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"group_instance_id": fields["group_instance_id"]} if "group_instance_id" in fields else {}


@contextmanager
def talking(bootstrap: str, group: str) -> Iterator[MigrationTalk]:
    """A conversation with the broker there, which has the topics already, once it coordinates the group."""
    with Wire(bootstrap) as first, Wire(bootstrap) as second:
        yield MigrationTalk(first, second, group, coordinated_topics(first, group))


def upgrade_and_downgrade(talk: MigrationTalk) -> None:
    """A consumer member joins a classic member, which revokes a partition; it leaves again."""
    one = talk.classic()
    talk.commit(one, 1)
    talk.first_beat(A, "t")
    talk.overview()
    talk.heartbeat(HEARTBEAT, 1, one)
    talk.sync(SYNC, 1, one)
    talk.commit(one, 1)
    talk.again(one, owned={"t": [0, 1]})
    talk.overview()
    talk.sync(SYNC, 1, one)
    talk.heartbeat(HEARTBEAT, 1, one)
    talk.commit(one, 1)
    talk.commit(one, 1, 1)
    talk.beat(A, owned={})
    talk.again(one, owned={"t": [0]})
    talk.overview()
    talk.sync(SYNC, 2, one)
    talk.heartbeat(HEARTBEAT, 2, one)
    talk.beat(A, owned={})
    talk.beat(A, owned={"t": [1]})
    talk.overview()
    for epoch in (2, 1, 3, 0, -1):
        talk.commit(one, epoch)
        talk.commit(one, epoch, 1)
        talk.fetch(one, epoch)
    talk.commit(one, 2, version=COMMIT_WITHOUT_EPOCHS)
    talk.commit(A, 2, 1)
    talk.commit(A, 2, 1, version=COMMIT_WITHOUT_EPOCHS)
    talk.commit(A, 1, 1)
    talk.fetch(A, 1)
    talk.commit("", -1)
    talk.fetch(None, -1)
    talk.beat(A, LEAVES)
    talk.overview()
    talk.beat(A, 2)
    talk.commit(one, 2)
    talk.heartbeat(HEARTBEAT, 2, one)
    joined = talk.again(one, owned={"t": [0]})
    talk.sync(SYNC, joined.generation_id, one, parts={one: assignment({"t": [0, 1]})})
    talk.overview()
    talk.leave(LEAVE, MemberIdentity(one))
    talk.first_beat(A, "t")
    talk.overview()


def eager(talk: MigrationTalk) -> None:
    """A classic member whose metadata are of version 0 revokes everything before it joins again."""
    metadata = subscription("t", version=0)
    one = talk.classic(metadata=metadata, names=("roundrobin", "range"))
    talk.first_beat(A, "t")
    talk.heartbeat(HEARTBEAT, 1, one)
    talk.join(JOIN, one, metadata=metadata, names=("roundrobin", "range"))
    talk.sync(SYNC, 2, one, protocol_name="range")
    talk.sync(SYNC, 2, one, protocol_name="roundrobin")
    talk.overview()
    talk.beat(A, owned={})
    talk.leave(LEAVE, MemberIdentity(one))
    talk.overview()
    talk.beat(A, owned={"t": [0, 1]})


def join_a_consumer_group(talk: MigrationTalk) -> None:
    """Classic members join a member of the consumer protocol: what is refused, and what is not."""
    talk.first_beat(A, "t")
    talk.beat(A, owned={"t": [0, 1]})
    talk.join(JOIN, metadata=subscription("t"), session_timeout_ms=5)
    talk.join(JOIN, metadata=subscription("t"), protocol_type="connect")
    talk.join(JOIN, metadata=subscription("t"), names=())
    talk.join(EARLIEST_JOIN, metadata=b"\0")
    talk.join(EARLIEST_JOIN, metadata=b"")
    talk.join(EARLIEST_JOIN, metadata=b"\xff\xff" + subscription("t")[2:])
    talk.join(EARLIEST_JOIN, metadata=b"\x00\x09" + subscription("t", rack="r")[2:] + b"more")
    talk.show()
    one = talk.enter(names=("range", "cooperative-sticky")).member_id
    talk.show()
    talk.heartbeat(HEARTBEAT, 0, one)
    talk.heartbeat(HEARTBEAT, 2, A)
    talk.sync(SYNC, 2, A)
    talk.heartbeat(HEARTBEAT, 2, "nobody")
    talk.heartbeat(HEARTBEAT, 2, "nobody", "i")
    talk.sync(SYNC, 2, "nobody")
    talk.join(JOIN, "any-id", metadata=subscription("t"), names=("other",))
    joined = talk.join(JOIN, "any-id", metadata=subscription("t"), names=("other", "range"))
    talk.sync(SYNC, joined.generation_id, "any-id")
    for named in ({"protocol_type": "connect"}, {"protocol_name": "range"}, {"protocol_name": "other"}):
        talk.sync(SYNC, joined.generation_id, "any-id", **named)
    talk.sync(3, joined.generation_id, "any-id")
    talk.join(JOIN, "x", metadata=subscription("t"), group_instance_id="unknown")
    talk.leave(
        LEAVE, MemberIdentity("nobody"), MemberIdentity("any-id"), MemberIdentity("", "i"), MemberIdentity("any-id")
    )
    talk.show()
    talk.leave(LEAVE, MemberIdentity("nobody"))
    talk.leave(LEAVE)
    talk.leave(LEAVE, MemberIdentity(A))
    talk.overview()


def other_topics(talk: MigrationTalk) -> None:
    """Subscriptions of classic members change the group epoch as those of others."""
    talk.first_beat(A, "t", "u", server_assignor="range")
    talk.beat(A, owned={"t": [0, 1], "u": [0, 1]})
    one = B  # the group takes any id, and its hash decides who gets which partition
    talk.again(one, "u")
    talk.sync(SYNC, 3, one)
    talk.show()
    talk.beat(A)
    talk.beat(A, owned={"t": [0, 1], "u": [0]})
    talk.heartbeat(HEARTBEAT, 3, one)
    talk.again(one, "u")
    talk.sync(SYNC, 3, one)
    talk.heartbeat(HEARTBEAT, 3, one)
    talk.again(one, "u", owned={"u": [1]})
    talk.show()
    talk.again(one, "absent", owned={"u": [1]})
    talk.sync(SYNC, 3, one)
    talk.show()
    talk.again(one, "absent")
    talk.show()


def static_upgrade(talk: MigrationTalk) -> None:
    """A static classic member is restarted with the consumer protocol, and back."""
    one = talk.classic(group_instance_id="i")
    talk.first_beat(A, "t", instance_id="i")
    talk.overview()
    talk.heartbeat(HEARTBEAT, 1, one, "i")
    talk.sync(SYNC, 1, one, group_instance_id="i")
    talk.join(JOIN, one, metadata=subscription("t"), group_instance_id="i")
    talk.commit(one, 1)
    talk.beat(A, owned={"t": [0, 1]}, instance_id="i")
    talk.beat(A, LEAVES_FOR_A_WHILE, instance_id="i")
    two = talk.enter(group_instance_id="i")
    talk.overview()
    talk.beat(A, 2, instance_id="i")
    talk.sync(SYNC, two.generation_id, two.member_id, group_instance_id="i")
    talk.heartbeat(HEARTBEAT, two.generation_id, two.member_id, "i")
    talk.overview()


def static_members_of_both(talk: MigrationTalk) -> None:
    """Static members of both protocols, restarted one after the other while the others stay."""
    talk.first_beat(A, "t", instance_id="i")
    talk.beat(A, owned={"t": [0, 1]}, instance_id="i")
    one = talk.enter(group_instance_id="j").member_id
    talk.beat(A, owned={"t": [0, 1]}, instance_id="i")
    talk.show()
    two = talk.enter(group_instance_id="j")
    talk.show()
    talk.heartbeat(HEARTBEAT, two.generation_id, one, "j")
    talk.heartbeat(HEARTBEAT, two.generation_id, one)
    talk.join(JOIN, one, metadata=subscription("t"), group_instance_id="j")
    talk.sync(SYNC, two.generation_id, two.member_id, group_instance_id="j")
    three = talk.enter("u", group_instance_id="i")
    talk.overview()
    talk.heartbeat(HEARTBEAT, three.generation_id, three.member_id, "i")
    talk.heartbeat(HEARTBEAT, two.generation_id, two.member_id, "j")
    talk.leave(LEAVE, MemberIdentity(one, "j"), MemberIdentity("", "j"), MemberIdentity("", "i"))


def refused_upgrades(talk: MigrationTalk) -> None:
    """Classic groups that a member of the consumer protocol can't join."""
    name = talk.group
    talk.group = f"{name}-connect"
    joined = talk.enter(protocol_type="connect")
    talk.first_beat(A, "t")
    talk.leave(LEAVE, MemberIdentity(joined.member_id))
    talk.group = f"{name}-custom"
    talk.classic(user_data=b"mine")
    talk.first_beat(A, "t")
    talk.group = f"{name}-empty-user-data"
    talk.classic(user_data=b"")
    talk.first_beat(A, "t")
    talk.group = f"{name}-malformed"
    talk.stable(JOIN, metadata=b"\0\0\0")
    talk.first_beat(A, "t")
    talk.group = f"{name}-malformed-assignment"
    one = talk.enter()
    talk.sync(SYNC, 1, one.member_id, parts={one.member_id: b"\0\1\0"})
    talk.first_beat(A, "t")
    talk.describe()
    talk.group = f"{name}-without-assignment"
    one = talk.enter()
    talk.sync(SYNC, 1, one.member_id)
    talk.beat(A, 1)
    talk.beat(A, LEAVES)
    talk.first_beat(A, "u")
    talk.show()


def upgrade_while_rebalancing(talk: MigrationTalk) -> None:
    """A member of the consumer protocol joins while classic members wait for each other."""
    one = talk.classic()
    two = talk.join(JOIN, metadata=subscription("t"), on=1).member_id
    talk.wait(talk.join_request(JOIN, two, metadata=subscription("t")), JOIN)
    talk.first_beat(A, "u")
    talk.receive()
    talk.heartbeat(HEARTBEAT, 1, one)
    talk.heartbeat(HEARTBEAT, 1, two)
    talk.again(two)
    talk.sync(SYNC, 2, two)
    talk.show()


def upgrade_while_assigning(talk: MigrationTalk) -> None:
    """A member of the consumer protocol joins while the leader computes the second assignment."""
    one = talk.classic()
    talk.again(one)
    talk.first_beat(A, "t")
    talk.show()
    talk.sync(SYNC, 2, one, parts={one: assignment({"t": [0, 1]})})
    talk.heartbeat(HEARTBEAT, 2, one)
    talk.again(one)
    talk.show()


def upgrade_of_an_empty_group(talk: MigrationTalk) -> None:
    """An id was handed out, and its member has not joined yet: the group has no members."""
    one = talk.join(JOIN, metadata=subscription("t")).member_id
    talk.first_beat(A, "t")
    talk.again(one)
    talk.show()


def by_policy(talk: MigrationTalk) -> None:
    """What ``group.consumer.migration.policy`` allows."""
    name = talk.group
    one = talk.classic()
    talk.first_beat(A, "t")
    talk.overview()
    talk.heartbeat(HEARTBEAT, 1, one)
    talk.group = f"{name}-of-consumers"
    talk.first_beat(A, "t")
    two = talk.join(EARLIEST_JOIN, metadata=subscription("t")).member_id
    if two:
        talk.beat(A, LEAVES)
        talk.overview()
        talk.leave(LEAVE, MemberIdentity(two))
        talk.overview()


CONVERSATIONS: Final[dict[str, Callable[[MigrationTalk], None]]] = {
    "upgrade and downgrade": upgrade_and_downgrade,
    "eager": eager,
    "join a consumer group": join_a_consumer_group,
    "other topics": other_topics,
    "static upgrade": static_upgrade,
    "static members of both": static_members_of_both,
    "refused upgrades": refused_upgrades,
    "upgrade while rebalancing": upgrade_while_rebalancing,
    "upgrade while assigning": upgrade_while_assigning,
    "upgrade of an empty group": upgrade_of_an_empty_group,
}
POLICY: Final = "group.consumer.migration.policy"
POLICIES: Final = ("upgrade", "downgrade", "disabled", "BIDIRECTIONAL")


def hold(name: str, bootstrap: str, group: str) -> list[Any]:
    """The transcript of one conversation, with unused groups."""
    with talking(bootstrap, group) as talk:
        CONVERSATIONS.get(name, by_policy)(talk)
    return talk.transcript


CONFIG_OPERATIONS: Final = 1 << AclOperation.DESCRIBE_CONFIGS | 1 << AclOperation.ALTER_CONFIGS
"""The operations on a group that are not compared: DescribeGroups of kafkapy shows those of Apache Kafka 2.7.2."""


def without_config_operations(answer: Any) -> Any:
    """A transcript whose ``authorized_operations`` lack ``CONFIG_OPERATIONS``."""
    if isinstance(answer, list):
        return [without_config_operations(each) for each in answer]
    if isinstance(answer, dict):
        cleared = {key: without_config_operations(value) for key, value in answer.items()}
        if "authorized_operations" in cleared:
            cleared["authorized_operations"] &= ~CONFIG_OPERATIONS
        return cleared
    return answer
