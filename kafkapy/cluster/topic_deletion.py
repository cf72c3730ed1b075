"""How a topic goes: everybody forgets it, its replicas stop, then remove their files, then its nodes are deleted.

A replica on a broker that is away makes the topic wait (*ineligible*) until that broker is back.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable

from kafkapy.cluster.config_znodes import ConfigEntity, ConfigZNode
from kafkapy.cluster.controller_context import ControllerContext, Replica
from kafkapy.cluster.controller_writer import ControllerWriter
from kafkapy.cluster.replica_machine import ReplicaMachine
from kafkapy.cluster.requests import RequestBatch
from kafkapy.cluster.states import PartitionState, ReplicaState
from kafkapy.cluster.store import Delete, NoNodeError
from kafkapy.cluster.topic_znodes import DeleteTopicZNode, TopicZNode

logger = logging.getLogger(__name__)


class TopicDeletion:
    """Works through ``context.topics_to_delete``; ``flush`` sends what has been gathered in the batch."""

    def __init__(
        self,
        context: ControllerContext,
        writer: ControllerWriter,
        replicas: ReplicaMachine,
        batch: RequestBatch,
        flush: Callable[[], None],
    ) -> None:
        self._context = context
        self._writer = writer
        self._replicas = replicas
        self._batch = batch
        self._flush = flush
        self._started: set[str] = set()
        self._ineligible: set[str] = set()

    async def enqueue(self, topics: Iterable[str]) -> None:
        """Delete these too."""
        self._context.topics_to_delete.update(topics)
        await self.resume()

    async def broker_is_back(self, brokers: Iterable[int]) -> None:
        """Topics that waited for these brokers go on."""
        self._ineligible -= {replica.partition.topic for replica in self._context.replicas_on(brokers)}
        await self.resume()

    async def broker_is_gone(self, replicas: Iterable[Replica]) -> None:
        """These replicas, of topics that are being deleted, can't answer now."""
        await self.failed(list(replicas))

    async def deleted(self, replicas: Iterable[Replica]) -> None:
        """These replicas have removed their files."""
        answered = [found for found in replicas if self._in(found, ReplicaState.DELETION_STARTED)]
        self._context.move_replicas(answered, ReplicaState.DELETION_SUCCESSFUL)
        await self.resume()

    async def failed(self, replicas: Iterable[Replica]) -> None:
        """These replicas could not; their topics wait."""
        waiting = [
            found
            for found in replicas
            if self._in(found, ReplicaState.DELETION_STARTED) or self._in(found, ReplicaState.OFFLINE)
        ]
        self._context.move_replicas(waiting, ReplicaState.DELETION_INELIGIBLE)
        self._ineligible |= {found.partition.topic for found in waiting}
        await self.resume()

    async def resume(self) -> None:
        """Do what can be done now for every topic that has to go."""
        for topic in sorted(self._context.topics_to_delete):
            replicas = self._context.replicas(self._context.partitions([topic]))
            if all(self._in(found, ReplicaState.DELETION_SUCCESSFUL) for found in replicas):
                await self._complete(topic, replicas)
            elif topic not in self._ineligible and not any(
                self._in(found, ReplicaState.DELETION_STARTED) for found in replicas
            ):
                await self._begin(topic, replicas)

    def _in(self, replica: Replica, state: ReplicaState) -> bool:
        return self._context.replica_state(replica) is state

    async def _begin(self, topic: str, replicas: list[Replica]) -> None:
        partitions = list(self._context.partitions([topic]))
        if topic not in self._started:
            self._context.move_partitions(partitions, PartitionState.OFFLINE)
            self._context.move_partitions(partitions, PartitionState.NON_EXISTENT)
            self._started.add(topic)
        self._batch.add_update_metadata(self._context.brokers, partitions)
        self._flush()
        open_ones = [found for found in replicas if not self._in(found, ReplicaState.DELETION_SUCCESSFUL)]
        away = [found for found in open_ones if not self._context.is_online(found)]
        here = [found for found in open_ones if self._context.is_online(found)]
        self._context.move_replicas(
            [found for found in away if not self._in(found, ReplicaState.DELETION_INELIGIBLE)],
            ReplicaState.DELETION_INELIGIBLE,
        )
        await self._step(self._replicas.take_offline(here))
        self._replicas.delete(here)
        self._flush()
        if away:
            logger.info("Topic %s is deleted when brokers %s are back", topic, sorted({found.broker for found in away}))
            self._ineligible.add(topic)

    async def _step(self, step: Awaitable[None]) -> None:
        await step
        self._flush()

    async def _complete(self, topic: str, replicas: list[Replica]) -> None:
        self._context.move_replicas(replicas, ReplicaState.NON_EXISTENT)
        paths = await self._leaves_first(TopicZNode.path(topic))
        paths += [ConfigZNode.path(ConfigEntity.topic(topic)), DeleteTopicZNode.path(topic)]
        await self._writer.write([Delete(path) for path in paths])
        self._context.forget_topic(topic)
        self._started.discard(topic)
        logger.info("Topic %s is deleted", topic)

    async def _leaves_first(self, path: str) -> list[str]:
        try:
            children = await self._writer.store.children(path)
        except NoNodeError:
            return []
        paths = []
        for child in sorted(children, key=_numbers_in_order):
            paths += await self._leaves_first(f"{path}/{child}")
        return [*paths, path]


def _numbers_in_order(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else -1, name)
