import pytest

from kafkapy.cluster.controller_context import ControllerContext, LiveBroker, Replica
from kafkapy.cluster.elections import NO_LEADER
from kafkapy.cluster.states import IllegalMoveError, PartitionState, ReplicaState
from kafkapy.cluster.topic_znodes import LeaderIsr, ReplicaAssignment
from kafkapy.cluster.znodes import BrokerIdZNode
from kafkapy.types import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def _context() -> ControllerContext:
    context = ControllerContext(1, 3, 3)
    context.brokers = {broker: LiveBroker(BrokerIdZNode(broker, ()), broker) for broker in (1, 2)}
    context.assign("t", {0: ReplicaAssignment((1, 3)), 1: ReplicaAssignment((2,))})
    return context


def test_questions() -> None:
    context = _context()
    assert list(context.partitions()) == list(context.partitions(["t"])) == [FIRST, SECOND]
    assert list(context.partitions(["u"])) == []
    assert context.assignment(TopicPartition("u", 0)) == ReplicaAssignment(())
    assert context.replicas([FIRST]) == [Replica(FIRST, 1), Replica(FIRST, 3)]
    assert context.replicas_on([2, 3]) == [Replica(FIRST, 3), Replica(SECOND, 2)]
    assert context.offline_replicas(FIRST) == [3]
    assert context.live == [1, 2]
    context.stopping.add(2)
    assert context.live == [1]
    assert not context.is_online(Replica(SECOND, 2))
    assert context.is_online(Replica(SECOND, 2), include_stopping=True)
    assert not context.is_online(Replica(FIRST, 3), include_stopping=True)


def test_moves_follow_the_tables() -> None:
    context = _context()
    with pytest.raises(IllegalMoveError):
        context.move_partitions([FIRST], PartitionState.ONLINE)
    context.move_partitions([FIRST, SECOND], PartitionState.NEW)
    context.move_partitions([FIRST], PartitionState.OFFLINE)
    assert context.partitions_in(PartitionState.NEW) == [SECOND]
    context.topics_to_delete.add("t")
    assert context.partitions_in(PartitionState.NEW) == []
    context.move_partitions([FIRST], PartitionState.NON_EXISTENT)
    assert FIRST not in context.partition_states
    replica = Replica(FIRST, 1)
    with pytest.raises(IllegalMoveError):
        context.move_replicas([replica], ReplicaState.ONLINE)
    for state in (
        ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
    ):  # fmt: skip
        context.move_replicas([replica], state)
        assert context.replica_state(replica) is state
    context.move_replicas([replica], ReplicaState.NON_EXISTENT)
    assert context.replica_states == {}


def test_a_topic_is_forgotten_whole() -> None:
    context = _context()
    context.assign("u", {0: ReplicaAssignment((1,))})
    other = TopicPartition("u", 0)
    context.move_partitions([FIRST, SECOND, other], PartitionState.NEW)
    context.move_replicas(context.replicas(context.partitions()), ReplicaState.NEW)
    context.leadership[FIRST] = LeaderIsr(NO_LEADER, 1, (3,), 1)
    context.topics_to_delete.add("t")
    context.forget_topic("t")
    assert list(context.partitions()) == [other]
    assert list(context.partition_states) == [other]
    assert list(context.replica_states) == [Replica(other, 1)]
    assert context.leadership == {}
    assert context.topics_to_delete == set()
