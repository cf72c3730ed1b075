import pytest

from kafkapy.cluster.states import (
    PARTITION_ENTERED_FROM,
    REPLICA_ENTERED_FROM,
    IllegalMoveError,
    PartitionState,
    ReplicaState,
    check_partition_move,
    check_replica_move,
)


@pytest.mark.parametrize("target", PartitionState)
@pytest.mark.parametrize("current", PartitionState)
def test_partitions_move_as_the_table_says(current: PartitionState, target: PartitionState) -> None:
    if current in PARTITION_ENTERED_FROM[target]:
        check_partition_move("t-0", current, target)
    else:
        with pytest.raises(IllegalMoveError, match="t-0 can't go from"):
            check_partition_move("t-0", current, target)


@pytest.mark.parametrize("target", ReplicaState)
@pytest.mark.parametrize("current", ReplicaState)
def test_replicas_move_as_the_table_says(current: ReplicaState, target: ReplicaState) -> None:
    if current in REPLICA_ENTERED_FROM[target]:
        check_replica_move("t-0 on 1", current, target)
    else:
        with pytest.raises(IllegalMoveError, match="t-0 on 1 can't go from"):
            check_replica_move("t-0 on 1", current, target)


def test_everything_begins_and_ends_somewhere() -> None:
    assert set(PARTITION_ENTERED_FROM) == set(PartitionState)
    assert set(REPLICA_ENTERED_FROM) == set(ReplicaState)
    assert PARTITION_ENTERED_FROM[PartitionState.NEW] == {PartitionState.NON_EXISTENT}
    assert REPLICA_ENTERED_FROM[ReplicaState.NON_EXISTENT] == {ReplicaState.DELETION_SUCCESSFUL}
