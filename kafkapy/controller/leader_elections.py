"""Elections while the leaders are alive: requested by a tool, by a broker that stops, or by the balance.

| requested by | elected | refused |
|---|---|---|
| ElectLeaders, preferred | the first replica, if it is alive and in sync | 80 |
| ElectLeaders, unclean | as after a leader's failure; if no replica in sync is alive, any live one | 83 |
| ``/admin/preferred_replica_election`` (legacy tool) | as ElectLeaders, preferred | a line in the log |
| the balance, by ``leader.imbalance.*`` | the same, where too many leaders have moved | a line in the log |
| ControlledShutdown | the first live replica in sync on a broker that does not stop | the partition remains |

All of them write the partition's state and send the requests as ``PartitionMachine.elect`` does.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from kafkapy.controller.context import ControllerContext, ControllerWriter, Replica
from kafkapy.controller.elections import Elected, elect_controlled_shutdown, elect_offline, elect_preferred
from kafkapy.controller.partition_machine import Election, PartitionMachine
from kafkapy.controller.replica_machine import ReplicaMachine
from kafkapy.controller.requests import RequestBatch
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    BrokerNotAvailableError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidTopicError,
    PreferredLeaderNotAvailableError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from kafkapy.metadata.store import Delete, NoNodeError
from kafkapy.metadata.znodes import LeaderIsr, PreferredElectionZNode
from kafkapy.turns import OneByOne
from kafkapy.types import NO_EPOCH, TopicPartition

logger: Final = logging.getLogger(__name__)

# One object each: a request may name a million partitions.
_UNKNOWN: Final = UnknownTopicOrPartitionError("The partition does not exist.")
_DELETED: Final = InvalidTopicError("The topic is being deleted.")
_NEVER_LED: Final = EligibleLeadersNotAvailableError("The partition has never had a leader.")
_NOT_NEEDED: Final = ElectionNotNeededError("The partition has a leader of this kind.")


class LeaderElections:
    """Part of the active controller; ``flush`` sends the requests that have been gathered in the batch."""

    def __init__(
        self,
        context: ControllerContext,
        writer: ControllerWriter,
        partitions: PartitionMachine,
        replicas: ReplicaMachine,
        batch: RequestBatch,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._writer = writer
        self._partitions = partitions
        self._replicas = replicas
        self._batch = batch
        self._flush = flush

    async def elect(self, asked: Iterable[TopicPartition], *, unclean: bool) -> dict[TopicPartition, int | BrokerError]:
        """Hold the elections that a client requests; return the new leader of each partition, or the error."""
        answers: dict[TopicPartition, int | BrokerError] = {}
        electable: list[TopicPartition] = []
        async for partition in OneByOne(dict.fromkeys(asked)):
            refusal = self._refusal(partition, unclean=unclean)
            if refusal is None:
                electable.append(partition)
            else:
                answers[partition] = refusal
        if not electable:
            return answers
        failed = await self._elect(electable, self._unclean_election if unclean else self._preferred_election)
        for partition in electable:
            if partition not in failed:
                answers[partition] = self._context.leadership[partition].leader
            elif unclean:
                answers[partition] = EligibleLeadersNotAvailableError(f"no replica of {partition} is alive")
            else:
                leader = self._preferred(partition)
                answers[partition] = PreferredLeaderNotAvailableError(
                    f"broker {leader}, the preferred leader of {partition}, is not alive and in sync"
                )
        return answers

    async def elect_requested(self) -> None:
        """Hold the elections that the legacy tool has written into its znode, and delete the znode.

        Bytes that can't be read are deleted too, with an error in the log: the znode is a request, not a state.
        """
        try:
            node = await self._writer.store.get(PreferredElectionZNode.PATH)
        except NoNodeError:
            return
        try:
            asked = PreferredElectionZNode.decode(node.data)
        except ValueError as error:
            logger.error("%s can't be read and is deleted: %s", PreferredElectionZNode.PATH, error)
            asked = []
        for partition, answer in (await self.elect(asked, unclean=False)).items():
            if isinstance(answer, BrokerError) and not isinstance(answer, ElectionNotNeededError):
                logger.warning("The preferred leader of partition %s was not elected: %s", partition, answer)
        await self._writer.write([Delete(PreferredElectionZNode.PATH)])

    async def balance(self, tolerated_percentage: int) -> None:
        """Give leadership back to preferred leaders, for each broker that has lost more than this share of it.

        While the replicas of any partition move, nothing is done, as in Kafka.
        """
        if self._context.reassigning:
            return
        preferring: dict[int, list[TopicPartition]] = {}
        async for partition in OneByOne(self._context.partitions()):
            if partition.topic not in self._context.topics_to_delete and partition in self._context.leadership:
                preferring.setdefault(self._preferred(partition), []).append(partition)
        for broker, partitions in preferring.items():
            moved = [found for found in partitions if self._context.leadership[found].leader != broker]
            if 100 * len(moved) > tolerated_percentage * len(partitions):
                electable = [
                    found for found in moved if self._preferred_election(found, self._context.leadership[found])
                ]
                if electable:
                    logger.info("Broker %d gets %d partitions back that it should lead", broker, len(electable))
                    await self._elect(electable, self._preferred_election)

    async def shut_down(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Move leadership away from a broker that is about to stop; return the partitions that it still leads.

        Only partitions with several replicas count. The broker also leaves the ISR of those that it follows. Raises
        ``StaleBrokerEpochError``, and for a broker that is not registered ``BrokerNotAvailableError``, or a plain
        ``BrokerError`` if it has sent an epoch.
        """
        live = self._context.brokers.get(broker)
        if live is None and broker_epoch != NO_EPOCH:
            raise BrokerError(f"broker {broker} is not registered")  # 2.7.2 has no code for it in this case
        if live is None:
            raise BrokerNotAvailableError(f"broker {broker} is not registered")
        if NO_EPOCH != broker_epoch < live.epoch:
            raise StaleBrokerEpochError(f"broker {broker} is registered with epoch {live.epoch} now")
        logger.info("Broker %d is about to stop", broker)
        self._context.stopping.add(broker)
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        async for replica in OneByOne(self._context.replicas_on([broker])):
            partition = replica.partition
            if self._is_replicated(partition) and partition.topic not in self._context.topics_to_delete:
                (led if self._context.leadership[partition].leader == broker else followed).append(partition)
        await self._elect(led, self._shutdown_election)
        for partition in followed:
            self._batch.add_stop_replica(Replica(partition, broker), delete=False)
        await self._flush()
        await self._replicas.take_offline([Replica(partition, broker) for partition in followed])
        await self._flush()
        return [found for found in led if self._context.leadership[found].leader == broker]

    async def _elect(self, partitions: Collection[TopicPartition], election: Election) -> set[TopicPartition]:
        """Hold the elections and send the requests; return the partitions that have no new leader."""
        elected: set[TopicPartition] = set()

        def noted(partition: TopicPartition, state: LeaderIsr) -> Elected | None:
            outcome = election(partition, state)
            (elected.discard if outcome is None else elected.add)(partition)
            return outcome

        await self._partitions.elect(list(partitions), noted)
        await self._flush()
        return set(partitions) - elected

    def _refusal(self, partition: TopicPartition, *, unclean: bool) -> BrokerError | None:
        if not self._context.assignment(partition).replicas:
            return _UNKNOWN
        if partition.topic in self._context.topics_to_delete:
            return _DELETED
        state = self._context.leadership.get(partition)
        if state is None:
            return _NEVER_LED
        has_leader = state.leader in self._context.live if unclean else state.leader == self._preferred(partition)
        return _NOT_NEEDED if has_leader else None

    def _preferred(self, partition: TopicPartition) -> int:
        return self._context.assignment(partition).replicas[0]

    def _is_replicated(self, partition: TopicPartition) -> bool:
        return partition in self._context.leadership and len(self._context.assignment(partition).replicas) > 1

    def _preferred_election(self, partition: TopicPartition, state: LeaderIsr) -> Elected | None:
        replicas = self._context.assignment(partition).replicas
        return elect_preferred(replicas, state.isr, self._context.online_replicas(partition))

    def _unclean_election(self, partition: TopicPartition, state: LeaderIsr) -> Elected | None:
        replicas = self._context.assignment(partition).replicas
        return elect_offline(replicas, state.isr, self._context.online_replicas(partition), unclean=True)

    def _shutdown_election(self, partition: TopicPartition, state: LeaderIsr) -> Elected | None:
        replicas = self._context.assignment(partition).replicas
        online = [
            broker for broker in replicas if self._context.is_online(Replica(partition, broker), include_stopping=True)
        ]
        return elect_controlled_shutdown(replicas, state.isr, online, self._context.stopping)
