"""The state machine of replicas (``states.py`` has the states): requests to their brokers, and changes of the ISR."""

from collections.abc import Sequence

from kafkapy.controller.context import ControllerContext, Replica
from kafkapy.controller.elections import without_replica
from kafkapy.controller.partition_machine import PartitionMachine
from kafkapy.controller.requests import RequestBatch
from kafkapy.controller.states import ReplicaState
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.turns import OneByOne
from kafkapy.types import TopicPartition


class ReplicaMachine:
    """Changes the state of replicas."""

    def __init__(self, context: ControllerContext, partitions: PartitionMachine, batch: RequestBatch) -> None:
        self._context = context
        self._partitions = partitions
        self._batch = batch

    async def set_initial_states(self) -> tuple[list[Replica], list[Replica]]:
        """Set the states from the live brokers; returns the online replicas, and the others."""
        online: list[Replica] = []
        offline: list[Replica] = []
        async for partition in OneByOne(self._context.partitions()):
            for replica in self._context.replicas([partition]):
                is_online = self._context.is_online(replica)
                state = ReplicaState.ONLINE if is_online else ReplicaState.DELETION_INELIGIBLE
                self._context.replica_states[replica] = state
                (online if is_online else offline).append(replica)
        return online, offline

    async def start_new(self, replicas: Sequence[Replica]) -> None:
        """Set the state New for new replicas; the first LeaderAndIsr of their partition creates them."""
        async for replica in OneByOne(replicas):
            self._context.move_replica(replica, ReplicaState.NEW)

    async def finish_new(self, replicas: Sequence[Replica]) -> None:
        """Set the state Online or Offline for new replicas, by their brokers, when their partitions have leaders."""
        async for replica in OneByOne(replicas):
            online = self._context.is_online(replica)
            self._context.move_replica(replica, ReplicaState.ONLINE if online else ReplicaState.OFFLINE)

    async def bring_online(self, replicas: Sequence[Replica]) -> None:
        """Send the leadership of these replicas' partitions to their brokers, which are live (again)."""
        async for replica in OneByOne(replicas):
            if (
                self._context.move_replica(replica, ReplicaState.ONLINE)
                and replica.partition in self._context.leadership
            ):
                self._batch.add_leader_and_isr([replica.broker], replica.partition)

    async def take_offline(self, replicas: Sequence[Replica]) -> None:
        """Send StopReplica to the brokers that are registered, and remove the replicas from the ISR."""
        by_broker: dict[int, list[TopicPartition]] = {}
        async for replica in OneByOne(replicas):
            if self._context.move_replica(replica, ReplicaState.OFFLINE):
                by_broker.setdefault(replica.broker, []).append(replica.partition)
        async for broker, partitions in OneByOne(sorted(by_broker.items())):
            led: list[TopicPartition] = []
            leaderless: list[TopicPartition] = []
            async for partition in OneByOne(partitions):
                self._batch.add_stop_replica(Replica(partition, broker), delete=False)
                (led if partition in self._context.leadership else leaderless).append(partition)
            await self._leave_isr(broker, led)
            if leaderless:
                self._batch.add_update_metadata(self._context.brokers, leaderless)

    async def delete(self, replicas: Sequence[Replica]) -> None:
        """Send requests to delete the files of these replicas, whose state is Offline; each broker answers."""
        async for replica in OneByOne(replicas):
            if self._context.move_replica(replica, ReplicaState.DELETION_STARTED):
                self._batch.add_stop_replica(replica, delete=True)

    async def _leave_isr(self, broker: int, partitions: Sequence[TopicPartition]) -> None:
        # The store refuses to overwrite a state that is not the known one. States in which the broker is not in sync
        # are read, since they are not overwritten: a leader with an older protocol may have added it.
        known = {each: state for each in partitions if broker in (state := self._context.leadership[each]).isr}
        remaining = list(partitions)
        while remaining:
            states = await self._partitions.read_states([each for each in remaining if each not in known]) | known
            changed = {}
            async for partition in OneByOne(remaining):
                if partition not in states:
                    continue
                if broker in states[partition].isr:
                    changed[partition] = self._without(broker, states[partition])
                else:
                    self._left(partition, states[partition], broker)

            def written(partition: TopicPartition, state: LeaderIsr) -> None:
                self._left(partition, state, broker)

            remaining, known = await self._partitions.write_states(changed, written), {}

    def _without(self, broker: int, state: LeaderIsr) -> LeaderIsr:
        left = without_replica(state.leader, state.isr, broker)
        return LeaderIsr(left.leader, state.leader_epoch + 1, left.isr, self._context.epoch, state.zk_version)

    def _left(self, partition: TopicPartition, state: LeaderIsr, broker: int) -> None:
        self._context.leadership[partition] = state
        if partition.topic not in self._context.topics_to_delete:
            others = [found for found in self._context.assignment(partition).replicas if found != broker]
            self._batch.add_leader_and_isr(others, partition)
