from kafkapy.controller.states import PARTITION_ENTERED_FROM, REPLICA_ENTERED_FROM, PartitionState, ReplicaState


def test_every_state_can_be_entered_and_left() -> None:
    assert set(PARTITION_ENTERED_FROM) == set(PartitionState)
    assert set(REPLICA_ENTERED_FROM) == set(ReplicaState)
    assert PARTITION_ENTERED_FROM[PartitionState.NEW] == {PartitionState.NON_EXISTENT}
    assert REPLICA_ENTERED_FROM[ReplicaState.NON_EXISTENT] == {ReplicaState.DELETION_SUCCESSFUL}
