import pytest

from kafkapy.controller.context import ControllerContext, LiveBroker, Replica
from kafkapy.controller.states import PARTITION_ENTERED_FROM, REPLICA_ENTERED_FROM, PartitionState, ReplicaState
from kafkapy.metadata.znodes import BrokerIdZNode, LeaderIsr, ReplicaAssignment
from kafkapy.types import NO_LEADER, TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def _context() -> ControllerContext:
    context = ControllerContext(1, 3, 3)
    context.brokers = {broker: LiveBroker(BrokerIdZNode(broker, ()), broker) for broker in (1, 2)}
    context.assign("t", {0: ReplicaAssignment((1, 3)), 1: ReplicaAssignment((2,))})
    return context


def test_the_context_answers_queries() -> None:
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


@pytest.mark.parametrize("target", PartitionState)
@pytest.mark.parametrize("current", PartitionState)
def test_partitions_move_as_the_table_says(
    current: PartitionState, target: PartitionState, caplog: pytest.LogCaptureFixture
) -> None:
    context = _context()
    if current is not PartitionState.NON_EXISTENT:
        context.partition_states[FIRST] = current
    may = current in PARTITION_ENTERED_FROM[target]
    assert context.move_partition(FIRST, target) == may
    assert context.partition_states.get(FIRST, PartitionState.NON_EXISTENT) is (target if may else current)
    refusal = f"Partition t-0 can't go from {current.value} to {target.value}"
    assert caplog.messages == ([] if may else [refusal])


@pytest.mark.parametrize("target", ReplicaState)
@pytest.mark.parametrize("current", ReplicaState)
def test_replicas_move_as_the_table_says(
    current: ReplicaState, target: ReplicaState, caplog: pytest.LogCaptureFixture
) -> None:
    context, replica = _context(), Replica(FIRST, 1)
    if current is not ReplicaState.NON_EXISTENT:
        context.replica_states[replica] = current
    may = current in REPLICA_ENTERED_FROM[target]
    assert context.move_replica(replica, target) == may
    assert context.replica_state(replica) is (target if may else current)
    refusal = f"Replica t-0 on broker 1 can't go from {current.value} to {target.value}"
    assert caplog.messages == ([] if may else [refusal])


def test_a_nonexistent_partition_is_removed_from_the_partition_states() -> None:
    context = _context()
    for partition in (FIRST, SECOND):
        assert context.move_partition(partition, PartitionState.NEW)
    assert context.move_partition(FIRST, PartitionState.OFFLINE)
    assert context.partitions_in(PartitionState.NEW) == [SECOND]
    context.topics_to_delete.add("t")
    assert context.partitions_in(PartitionState.NEW) == []
    assert context.move_partition(FIRST, PartitionState.NON_EXISTENT)
    assert FIRST not in context.partition_states
    replica = Replica(FIRST, 1)
    for state in (
        ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
    ):  # fmt: skip
        assert context.move_replica(replica, state)
        assert context.replica_state(replica) is state
    assert context.move_replica(replica, ReplicaState.NON_EXISTENT)
    assert context.replica_states == {}


def test_a_topic_is_forgotten_whole() -> None:
    context = _context()
    context.assign("u", {0: ReplicaAssignment((1,))})
    other = TopicPartition("u", 0)
    for partition in (FIRST, SECOND, other):
        context.move_partition(partition, PartitionState.NEW)
    for replica in context.replicas(context.partitions()):
        context.move_replica(replica, ReplicaState.NEW)
    context.leadership[FIRST] = LeaderIsr(NO_LEADER, 1, (3,), 1)
    context.topics_to_delete.add("t")
    context.forget_topic("t")
    assert list(context.partitions()) == [other]
    assert list(context.partition_states) == [other]
    assert list(context.replica_states) == [Replica(other, 1)]
    assert context.leadership == {}
    assert context.topics_to_delete == set()
