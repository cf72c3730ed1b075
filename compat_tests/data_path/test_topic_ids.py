"""Topics by id (KIP-516) in Produce, Fetch and commits: kafkapy answers as 4.4.0 (`--target kafka-4.4.0`) does."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.brokers.targets import KAFKAPY
from compat_tests.data_path.frames import TIMEOUT_S, batch, new_topic, produce
from compat_tests.groups.wire import Wire, answer_to_creation, find_coordinator
from harness.process import Broker
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

pytestmark = pytest.mark.differs("kafka-2.7.2", reason="it has none of these versions")

UNKNOWN_ID, INCONSISTENT_ID = int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.INCONSISTENT_TOPIC_ID)
UNKNOWN, OTHER_SESSION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
FETCH_VERSIONS = [13, 15, 17, pytest.param(18, marks=pytest.mark.differs("kafka-3.9.1", reason="it is of 4.0"))]


OF_4_1 = pytest.mark.differs("kafka-3.9.1", reason="the version is of 4.1 or later")


class Topic(NamedTuple):
    """A topic, and the partition that requests name: its only one, unless another is asked for."""

    name: str
    topic_id: UUID
    partition: int = 0


NOWHERE = Topic("", UUID(int=7))
Row = tuple[UUID, int, int]
"""Id, error code, and how many bytes of records there are."""


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def _is_ready(wire: Wire, name: str) -> bool:
    """Whether the topic is known and led: a KRaft broker knows of a topic a moment after its controller."""
    (found,) = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
    asked = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)])]
    (answer,) = wire.ask(ListOffsetsRequest(-1, 0, asked), 6).topics[0].partitions
    return {found.error_code, answer.error_code} == {0}


def _known(wire: Wire, name: str) -> Topic:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not _is_ready(wire, name):
        assert time.monotonic() < deadline_s, f"{name} has no leader"
        wire.has_answer(0.05)
    (found,) = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
    return Topic(name, found.topic_id)


def _written(wire: Wire, *values: bytes) -> Topic:
    """A topic with one batch."""
    name = new_topic(wire)
    assert produce(wire, name, batch(*values))[0] == 0
    return _known(wire, name)


def _delete(wire: Wire, topic: Topic) -> None:
    assert wire.ask(DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=20_000), 5).responses[0].error_code == 0
    while wire.ask(
        MetadataRequest([MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False), 12
    ).topics[0].error_code != int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        wire.has_answer(0.05)


def _recreated(wire: Wire, topic: Topic) -> Topic:
    """Another topic of the same name, without records."""
    _delete(wire, topic)
    while answer_to_creation(wire, CreatableTopic(topic.name, num_partitions=1, replication_factor=1)):
        wire.has_answer(0.05)
    created = _known(wire, topic.name)
    assert created.topic_id not in (topic.topic_id, ZERO_UUID)
    return created


def _request(*topics: Topic, offset: int = 0, forgotten: tuple[Topic, ...] = (), **fields: Any) -> FetchRequest:
    asked = [
        FetchTopic(
            topic_id=each.topic_id,
            partitions=[FetchPartition(each.partition, fetch_offset=offset, partition_max_bytes=1 << 20)],
        )
        for each in topics
    ]
    gone = [ForgottenTopic(topic_id=each.topic_id, partitions=[each.partition]) for each in forgotten]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, **fields}, topics=asked, forgotten_topics_data=gone)


def _rows(answer: Any) -> set[Row]:
    rows = [
        (topic.topic_id, each.error_code, len(each.records or b""))
        for topic in answer.responses
        for each in topic.partitions
    ]
    assert len(set(rows)) == len(rows)
    return set(rows)


class Session:
    """A client's fetch session."""

    def __init__(self, wire: Wire, version: int, *topics: Topic, offset: int = 0) -> None:
        self._wire, self._version, self._epoch = wire, version, 0
        self.session_id = 0
        self.opened = self.ask(*topics, offset=offset)
        assert self.session_id

    def request(self, *topics: Topic, **fields: Any) -> FetchRequest:
        return _request(*topics, session_id=self.session_id, session_epoch=self._epoch, **fields)

    def ask(self, *topics: Topic, **fields: Any) -> set[Row]:
        answer = self._wire.ask(self.request(*topics, **fields), self._version)
        assert answer.error_code == 0
        self.session_id, self._epoch = answer.session_id, self._epoch + 1
        return _rows(answer)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_by_id(wire: Wire, version: int) -> None:
    topic, other = _written(wire, b"x"), _written(wire, b"x", b"y")
    answer = wire.ask(_request(topic, NOWHERE, other, topic._replace(topic_id=ZERO_UUID)), version)
    assert [each.topic_id for each in answer.responses[:2]] == [topic.topic_id, other.topic_id]
    sizes = [len(each.partitions[0].records) for each in answer.responses[:2]]
    assert _rows(answer) == {
        (topic.topic_id, 0, sizes[0]),
        (other.topic_id, 0, sizes[1]),
        (NOWHERE.topic_id, UNKNOWN_ID, 0),
        (ZERO_UUID, UNKNOWN_ID, 0),
    }
    assert 0 < sizes[0] < sizes[1]
    assert _rows(wire.ask(_request(topic._replace(partition=7)), version)) == {(topic.topic_id, UNKNOWN, 0)}
    refused = wire.ask(_request(topic, isolation_level=7), version)
    assert (refused.error_code, refused.responses) == (-1, [])


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_the_next_records_of_a_topic(wire: Wire, version: int) -> None:
    """Requests of one form."""
    topic = _written(wire, b"x")
    (first,) = _rows(wire.ask(_request(topic), version))
    for offset in range(1, 6):
        assert produce(wire, topic.name, batch(b"x"))[0] == 0
        assert _rows(wire.ask(_request(topic, offset=offset), version)) == {first}
        assert _rows(wire.ask(_request(topic, offset=offset + 1), version)) == {(topic.topic_id, 0, 0)}
    replaced = _recreated(wire, topic)
    assert produce(wire, topic.name, batch(b"x"))[0] == 0
    assert _rows(wire.ask(_request(topic), version)) == {(topic.topic_id, UNKNOWN_ID, 0)}
    assert _rows(wire.ask(_request(replaced), version)) == {(replaced.topic_id, *first[1:])}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_unknown_id_does_not_end_a_wait(wire: Wire, version: int) -> None:
    topic = _written(wire, b"x")
    for asked, least_s in (((topic, NOWHERE), 0.4), ((NOWHERE,), 0)):
        started_s = time.monotonic()
        rows = _rows(wire.ask(_request(*asked, offset=1, max_wait_ms=400), version))
        assert (NOWHERE.topic_id, UNKNOWN_ID, 0) in rows
        assert least_s <= time.monotonic() - started_s < least_s + 5


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_unknown_id_stays_in_a_session(wire: Wire, version: int) -> None:
    topic = _written(wire, b"x")
    session = Session(wire, version, topic, NOWHERE, offset=1)
    unknown = (NOWHERE.topic_id, UNKNOWN_ID, 0)
    assert session.opened == {(topic.topic_id, 0, 0), unknown}
    assert session.ask() == session.ask() == {unknown}
    assert produce(wire, topic.name, batch(b"y"))[0] == 0
    assert {each[:2] for each in session.ask()} == {(topic.topic_id, 0), unknown[:2]}
    assert session.ask(topic, offset=2, forgotten=(NOWHERE,)) == session.ask() == set()
    assert session.ask(forgotten=(topic,)) == set()
    assert session.session_id == 0


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_topic_that_is_recreated_during_a_session(wire: Wire, version: int) -> None:
    topic = _written(wire, b"x")
    session = Session(wire, version, topic, offset=1)
    replaced = _recreated(wire, topic)
    inconsistent = (topic.topic_id, INCONSISTENT_ID, 0)
    started_s = time.monotonic()
    assert session.ask(max_wait_ms=5_000) == {inconsistent}
    assert time.monotonic() - started_s < 4
    assert session.ask(replaced) == {inconsistent, (replaced.topic_id, 0, 0)}
    assert produce(wire, topic.name, batch(b"x", b"y"))[0] == 0
    found = session.ask()
    assert {each[:2] for each in found} == {inconsistent[:2], (replaced.topic_id, 0)}
    assert session.ask(replaced, offset=2, forgotten=(topic,)) == set()
    assert Session(wire, version, topic).opened == {(topic.topic_id, UNKNOWN_ID, 0)}
    _delete(wire, replaced)
    assert session.ask() == {(replaced.topic_id, UNKNOWN, 0)}
    assert session.ask(forgotten=(replaced,)) == set()


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_topic_that_is_deleted_while_a_fetch_waits(wire: Wire, broker: Broker, version: int) -> None:
    topic = _written(wire, b"x")
    with Wire(broker.bootstrap) as waiting:
        waiting.send(_request(topic, offset=1, max_wait_ms=20_000), version)
        assert not waiting.has_answer(0.3)
        _recreated(wire, topic)
        assert produce(wire, topic.name, batch(b"a", b"b"))[0] == 0
        ((topic_id, error_code, size),) = _rows(waiting.receive())
        assert (topic_id, size) == (topic.topic_id, 0)
        assert error_code in (UNKNOWN, INCONSISTENT_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_session_has_names_or_ids(wire: Wire) -> None:
    topic = _written(wire, b"x")
    session = Session(wire, 13, topic, offset=1)
    answer = wire.ask(session.request(), 12)
    assert (answer.error_code, answer.session_id, answer.responses) == (OTHER_SESSION, 0, [])
    assert session.ask() == set()
    by_name = FetchRequest(session_epoch=0, topics=[FetchTopic(topic.name, partitions=[FetchPartition(0)])])
    session_id = wire.ask(by_name, 12).session_id
    answer = wire.ask(FetchRequest(session_id=session_id, session_epoch=1), 13)
    assert (answer.error_code, answer.session_id, answer.responses) == (OTHER_SESSION, 0, [])
    assert wire.ask(FetchRequest(session_id=session_id, session_epoch=1), 12).session_id == session_id


def _produced(wire: Wire, *topics: Topic, acks: int = -1) -> set[tuple[UUID, int, int, int]]:
    """Id, partition, error code and offset of each answer."""
    data = [
        TopicProduceData(topic_id=each.topic_id, partition_data=[PartitionProduceData(each.partition, batch(b"x"))])
        for each in topics
    ]
    answer = wire.ask(ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=data), 13)
    return {
        (topic.topic_id, each.index, each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }


@OF_4_1
def test_records_for_topics_by_id(wire: Wire) -> None:
    topic, other = _written(wire, b"x"), _written(wire, b"x", b"y")
    for offset in range(1, 5):
        assert _produced(wire, topic) == {(topic.topic_id, 0, 0, offset)}
    zero = topic._replace(topic_id=ZERO_UUID)
    assert _produced(wire, topic, NOWHERE, other, zero) == {
        (topic.topic_id, 0, 0, 5),
        (other.topic_id, 0, 0, 2),
        (NOWHERE.topic_id, 0, UNKNOWN_ID, -1),
        (ZERO_UUID, 0, UNKNOWN_ID, -1),
    }
    assert _produced(wire, topic._replace(partition=9)) == {(topic.topic_id, 9, UNKNOWN, -1)}
    assert _produced(wire, topic, NOWHERE, acks=5) == {
        (topic.topic_id, 0, int(ErrorCode.INVALID_REQUIRED_ACKS), -1),
        (NOWHERE.topic_id, 0, UNKNOWN_ID, -1),
    }
    assert _produced(wire) == set()


@OF_4_1
def test_records_for_a_topic_that_was_recreated(wire: Wire) -> None:
    topic = _written(wire, b"x")
    assert _produced(wire, topic) == {(topic.topic_id, 0, 0, 1)}
    replaced = _recreated(wire, topic)
    assert _produced(wire, topic) == {(topic.topic_id, 0, UNKNOWN_ID, -1)}
    assert _produced(wire, topic, replaced) == {(topic.topic_id, 0, UNKNOWN_ID, -1), (replaced.topic_id, 0, 0, 0)}


@OF_4_1
def test_unanswered_records_for_an_unknown_id_end_the_connection(wire: Wire, broker: Broker) -> None:
    topic = _written(wire, b"x")
    for asked, ends in ((topic, False), (NOWHERE, True)):
        data = [
            TopicProduceData(topic_id=asked.topic_id, partition_data=[PartitionProduceData(0, batch(b"x"))]),
        ]
        with Wire(broker.bootstrap) as sender:
            sender.send(ProduceRequest(acks=0, timeout_ms=5_000, topic_data=data), 13)
            assert sender.has_answer(5 if ends else 0.3) == ends
            if ends:
                with pytest.raises((AssertionError, ConnectionError)):
                    sender.receive()


def _committed(wire: Wire, group: str, *topics: Topic, offset: int = 5) -> set[tuple[UUID, int, int]]:
    """Id, partition and error code of each answer."""
    asked = [
        OffsetCommitRequestTopic(
            topic_id=each.topic_id, partitions=[OffsetCommitRequestPartition(each.partition, offset)]
        )
        for each in topics
    ]
    answer = wire.ask(OffsetCommitRequest(group, topics=asked), 10)
    return {
        (topic.topic_id, each.partition_index, each.error_code) for topic in answer.topics for each in topic.partitions
    }


def _offsets(wire: Wire, group: str, *topics: Topic | None) -> set[tuple[UUID, int, int]]:
    """Id, error code and offset of each answer; ``None`` asks for all topics."""
    named = [OffsetFetchRequestTopics(topic_id=each.topic_id, partition_indexes=[0]) for each in topics if each]
    asked = OffsetFetchRequestGroup(group, topics=None if None in topics else named)
    (found,) = wire.ask(OffsetFetchRequest(groups=[asked]), 10).groups
    assert (found.group_id, found.error_code) == (group, 0)
    return {
        (topic.topic_id, each.error_code, each.committed_offset) for topic in found.topics for each in topic.partitions
    }


@OF_4_1
def test_offsets_of_topics_by_id(wire: Wire) -> None:
    topic, other = _written(wire, b"x"), _written(wire, b"x")
    group = f"by-id-{topic.name}"
    find_coordinator(wire, group)
    zero = NOWHERE._replace(topic_id=ZERO_UUID)
    for offset in range(4):
        assert _committed(wire, group, topic, offset=offset) == {(topic.topic_id, 0, 0)}
        assert _offsets(wire, group, topic) == {(topic.topic_id, 0, offset)}
    assert _committed(wire, group, topic, NOWHERE, other._replace(partition=9), zero) == {
        (topic.topic_id, 0, 0),
        (other.topic_id, 9, UNKNOWN),
        (NOWHERE.topic_id, 0, UNKNOWN_ID),
        (ZERO_UUID, 0, UNKNOWN_ID),
    }
    assert _committed(wire, group, NOWHERE) == {(NOWHERE.topic_id, 0, UNKNOWN_ID)}
    assert _committed(wire, group) == set()
    assert _offsets(wire, group, topic, NOWHERE, other, zero) == {
        (topic.topic_id, 0, 5),
        (other.topic_id, 0, -1),
        (NOWHERE.topic_id, UNKNOWN_ID, -1),
        (ZERO_UUID, UNKNOWN_ID, -1),
    }
    assert _offsets(wire, group, None) == {(topic.topic_id, 0, 5)}
    assert _offsets(wire, group) == set()
    assert _offsets(wire, f"{group}-other", topic, NOWHERE) == {
        (topic.topic_id, 0, -1),
        (NOWHERE.topic_id, UNKNOWN_ID, -1),
    }


@OF_4_1
def test_offsets_of_a_topic_that_was_recreated(wire: Wire) -> None:
    topic, other = _written(wire, b"x"), _written(wire, b"x")
    group = f"by-id-{topic.name}"
    find_coordinator(wire, group)
    assert _committed(wire, group, topic, other) == {(topic.topic_id, 0, 0), (other.topic_id, 0, 0)}
    replaced = _recreated(wire, topic)
    assert _committed(wire, group, topic) == {(topic.topic_id, 0, UNKNOWN_ID)}
    deadline_s = time.monotonic() + TIMEOUT_S
    while _offsets(wire, group, None) != {(other.topic_id, 0, 5)}:  # the offsets go a moment after the topic
        assert time.monotonic() < deadline_s
        wire.has_answer(0.05)
    assert _offsets(wire, group, topic, replaced) == {(topic.topic_id, UNKNOWN_ID, -1), (replaced.topic_id, 0, -1)}


@OF_4_1
def test_a_commit_in_a_transaction_for_an_unknown_id(wire: Wire) -> None:
    asked = TxnOffsetCommitRequestTopic(topic_id=NOWHERE.topic_id, partitions=[TxnOffsetCommitRequestPartition(0, 5)])
    (answer,) = wire.ask(TxnOffsetCommitRequest("tx-by-id", "g-by-id", 7, 0, topics=[asked]), 6).topics
    found = [(each.partition_index, each.error_code) for each in answer.partitions]
    assert (answer.topic_id, found) == (NOWHERE.topic_id, [(0, UNKNOWN_ID)])


AUTHORIZERS = {KAFKAPY: "kafka.security.authorizer.AclAuthorizer"}
RAFT_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _deny(wire: Wire, resource: AclResourceType, name: str, operation: AclOperation) -> None:
    entry = AclCreation(
        resource, name, AclPatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY
    )
    (result,) = wire.ask(CreateAclsRequest([entry]), 2).results
    assert result.error_code == 0, result.error_message


@OF_4_1
def test_a_client_without_rights(broker: Broker) -> None:
    """An unknown id is told before access control, but for that of the group."""
    authorizer = AUTHORIZERS.get(broker.name, RAFT_AUTHORIZER)
    own = own_broker(broker, {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"})
    try:
        own.start()
        with Wire(own.bootstrap) as wire:
            topic, other = _written(wire, b"x"), _written(wire, b"x")
            find_coordinator(wire, "g")
            assert _committed(wire, "g", topic, other) == {(topic.topic_id, 0, 0), (other.topic_id, 0, 0)}
            for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
                _deny(wire, AclResourceType.TOPIC, topic.name, operation)
            deadline_s = time.monotonic() + TIMEOUT_S
            while {each[1] for each in _rows(wire.ask(_request(topic), 13))} != {DENIED}:
                assert time.monotonic() < deadline_s, "the entry has no effect"
            answer = wire.ask(_request(topic, NOWHERE, other), 13)
            assert {each[:2] for each in _rows(answer)} == {
                (topic.topic_id, DENIED), (NOWHERE.topic_id, UNKNOWN_ID), (other.topic_id, 0),
            }  # fmt: skip
            assert _produced(wire, topic, NOWHERE, other) == {
                (topic.topic_id, 0, DENIED, -1), (NOWHERE.topic_id, 0, UNKNOWN_ID, -1), (other.topic_id, 0, 0, 1),
            }  # fmt: skip
            assert _committed(wire, "g", topic, NOWHERE, other) == {
                (topic.topic_id, 0, DENIED), (NOWHERE.topic_id, 0, UNKNOWN_ID), (other.topic_id, 0, 0),
            }  # fmt: skip
            assert _offsets(wire, "g", topic, NOWHERE, other) == {
                (topic.topic_id, DENIED, -1), (NOWHERE.topic_id, UNKNOWN_ID, -1), (other.topic_id, 0, 5),
            }  # fmt: skip
            assert _offsets(wire, "g", None) == {(other.topic_id, 0, 5)}
            _deny(wire, AclResourceType.GROUP, "g", AclOperation.READ)
            denied = {(each.topic_id, 0, int(ErrorCode.GROUP_AUTHORIZATION_FAILED)) for each in (topic, NOWHERE, other)}
            while _committed(wire, "g", other) != {(other.topic_id, 0, int(ErrorCode.GROUP_AUTHORIZATION_FAILED))}:
                assert time.monotonic() < deadline_s, "the entry has no effect"
            assert _committed(wire, "g", topic, NOWHERE, other) == denied
    finally:
        own.close()
