"""Moves replicas between the states of ``states.py``: what their brokers are told, the ISR without those that left."""

from collections.abc import Sequence

from kafkapy.cluster.controller_context import ControllerContext, Replica
from kafkapy.cluster.elections import without_replica
from kafkapy.cluster.partition_machine import PartitionMachine
from kafkapy.cluster.requests import RequestBatch
from kafkapy.cluster.states import ReplicaState
from kafkapy.cluster.topic_znodes import LeaderIsr
from kafkapy.types import TopicPartition


class ReplicaMachine:
    """The controller's hand on replicas."""

    def __init__(self, context: ControllerContext, partitions: PartitionMachine, batch: RequestBatch) -> None:
        self._context = context
        self._partitions = partitions
        self._batch = batch

    def start_up(self) -> tuple[list[Replica], list[Replica]]:
        """Set the states from the live brokers; the replicas that are online, and those that are not."""
        online, offline = [], []
        for replica in self._context.replicas(self._context.partitions()):
            if self._context.is_online(replica):
                self._context.replica_states[replica] = ReplicaState.ONLINE
                online.append(replica)
            else:
                self._context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
                offline.append(replica)
        return online, offline

    def start_new(self, replicas: Sequence[Replica]) -> None:
        """They shall exist; the first leader's order makes them."""
        self._context.move_replicas(replicas, ReplicaState.NEW)

    def bring_online(self, replicas: Sequence[Replica]) -> None:
        """Their brokers are there: tell them who leads. New ones have just been told."""
        known = [found for found in replicas if self._context.replica_state(found) is not ReplicaState.NEW]
        self._context.move_replicas(replicas, ReplicaState.ONLINE)
        for replica in known:
            if replica.partition in self._context.leadership:
                self._batch.add_leader_and_isr([replica.broker], replica.partition)

    async def take_offline(self, replicas: Sequence[Replica]) -> None:
        """They stop (if their broker can still hear it) and leave the ISR; the others are told."""
        self._context.move_replicas(replicas, ReplicaState.OFFLINE)
        for broker in sorted({replica.broker for replica in replicas}):
            partitions = [replica.partition for replica in replicas if replica.broker == broker]
            for partition in partitions:
                self._batch.add_stop_replica(Replica(partition, broker), delete=False)
            led = [partition for partition in partitions if partition in self._context.leadership]
            await self._leave_isr(broker, led)
            leaderless = [partition for partition in partitions if partition not in self._context.leadership]
            if leaderless:
                self._batch.add_update_metadata(self._context.brokers, leaderless)

    def delete(self, replicas: Sequence[Replica]) -> None:
        """Their brokers remove them and say when that is done."""
        self._context.move_replicas(replicas, ReplicaState.DELETION_STARTED)
        for replica in replicas:
            self._batch.add_stop_replica(replica, delete=True)

    async def _leave_isr(self, broker: int, partitions: Sequence[TopicPartition]) -> None:
        remaining = list(partitions)
        while remaining:
            states = await self._partitions.read_states(remaining)
            changed = {}
            for partition, state in states.items():
                if broker in state.isr:
                    changed[partition] = self._without(broker, state)
                else:
                    self._left(partition, state, broker)

            def written(partition: TopicPartition, state: LeaderIsr) -> None:
                self._left(partition, state, broker)

            remaining = await self._partitions.write_states(changed, written)

    def _without(self, broker: int, state: LeaderIsr) -> LeaderIsr:
        left = without_replica(state.leader, state.isr, broker)
        return LeaderIsr(left.leader, state.leader_epoch + 1, left.isr, self._context.epoch, state.zk_version)

    def _left(self, partition: TopicPartition, state: LeaderIsr, broker: int) -> None:
        self._context.leadership[partition] = state
        if partition.topic not in self._context.topics_to_delete:
            others = [found for found in self._context.assignment(partition).replicas if found != broker]
            self._batch.add_leader_and_isr(others, partition)
