import pytest

from kafkapy.metadata.znodes import (
    DeleteTopicZNode,
    LeaderIsr,
    PartitionStateZNode,
    PreferredElectionZNode,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicZNode,
    decode_json,
    new_topic_id,
)
from kafkapy.types import TopicPartition, base64_id, id_of

# As running brokers have written them: 2.7.2, and 3.9.1 with what it adds.
MOVING = b'{"version":2,"partitions":{"0":[2,3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
NEWER = (
    b'{"partitions":{"0":[5,6],"1":[6,5]},"topic_id":"NSf0Q8qQSrm7SeJsalWupg","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":3,"version":1,"leader_epoch":0,"isr":[3,2]}'
PARTITION = TopicPartition("rf2", 0)


def test_a_topic_whose_replicas_move() -> None:
    topic = TopicZNode.decode(MOVING)
    assert topic.partitions == {0: ReplicaAssignment((2, 3, 1), (3,), (1,))}
    assert topic.partitions[0].is_reassigning
    assert topic.encode() == MOVING


def test_a_topic_with_an_id_is_written_as_by_newer_releases() -> None:
    topic = TopicZNode.decode(NEWER)
    assert topic.partitions == {0: ReplicaAssignment((5, 6)), 1: ReplicaAssignment((6, 5))}
    assert not topic.partitions[0].is_reassigning
    assert topic.topic_id == id_of("NSf0Q8qQSrm7SeJsalWupg")
    assert topic.encode() == NEWER
    grown = topic.with_partitions({2: ReplicaAssignment((5,))})
    assert list(grown.partitions) == [0, 1, 2]
    assert grown.topic_id == topic.topic_id


def test_keys_of_other_releases_are_kept() -> None:
    data = b'{"version":9,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"more":[1]}'
    assert decode_json(TopicZNode.decode(data).encode()) == decode_json(data)


@pytest.mark.parametrize("text", ["", "NSf0Q8qQSrm7SeJsalWup", "NSf0Q8qQSrm7SeJsalWupgAA", "NSf0Q8qQSrm7SeJsal Wupg"])
def test_an_id_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        TopicZNode.decode(b'{"version":3,"partitions":{},"topic_id":"%s"}' % text.encode())


def test_new_ids() -> None:
    made = {new_topic_id() for _ in range(500)}
    assert len(made) == 500
    assert {id_of(base64_id(each.bytes)) for each in made} == made
    assert not any(base64_id(each.bytes).startswith("-") for each in made)


def test_an_old_topic() -> None:
    topic = TopicZNode.decode(b'{"version":1,"partitions":{"1":[1]}}')
    assert topic.partitions == {1: ReplicaAssignment((1,))}
    with pytest.raises(ValueError, match="no 'partitions'"):
        TopicZNode.decode(b'{"version":2}')


def test_a_state() -> None:
    state = PartitionStateZNode.decode(STATE, 7)
    assert state == LeaderIsr(leader=3, leader_epoch=0, isr=(3, 2), controller_epoch=1, zk_version=7)
    assert PartitionStateZNode.encode(state) == STATE
    with pytest.raises(ValueError, match="no 'leader'"):
        PartitionStateZNode.decode(b"{}", 0)


def test_paths() -> None:
    assert TopicZNode.path("rf2") == "/brokers/topics/rf2"
    assert TopicPartitionsZNode.path("rf2") == "/brokers/topics/rf2/partitions"
    assert TopicPartitionZNode.path(PARTITION) == "/brokers/topics/rf2/partitions/0"
    assert PartitionStateZNode.path(PARTITION) == "/brokers/topics/rf2/partitions/0/state"
    assert DeleteTopicZNode.path("rf2") == "/admin/delete_topics/rf2"


def test_requests_of_the_legacy_tools() -> None:
    preferred = b'{"version":1,"partitions":[{"topic":"rf2","partition":0}]}'
    assert PreferredElectionZNode.decode(preferred) == [PARTITION]
    assert PreferredElectionZNode.encode([PARTITION]) == preferred
    moves = b'{"version":1,"partitions":[{"topic":"rf2","partition":0,"replicas":[1,2]}]}'
    assert ReassignPartitionsZNode.decode(moves) == {PARTITION: (1, 2)}
    assert ReassignPartitionsZNode.encode({PARTITION: (1, 2)}) == moves
