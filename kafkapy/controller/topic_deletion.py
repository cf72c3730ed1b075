"""Deletion of topics: every broker removes the topic from its metadata, its replicas stop and remove their files, its
nodes are deleted.

A replica on a broker that is not live, or never existed, makes its topic wait (*ineligible*) until that broker
registers. The topic's other replicas remove their files meanwhile, and other topics are not affected.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from kafkapy.controller.context import ControllerContext, ControllerWriter, Replica
from kafkapy.controller.replica_machine import ReplicaMachine
from kafkapy.controller.requests import RequestBatch
from kafkapy.controller.states import PartitionState, ReplicaState
from kafkapy.metadata.store import Delete, NoNodeError, SessionEndedError, StoreError
from kafkapy.metadata.znodes import ConfigEntity, ConfigZNode, DeleteTopicZNode, TopicZNode
from kafkapy.turns import OneByOne

TOPICS_TOGETHER: Final = 200
"""Topics that are started or deleted together: their nodes take one commit, their replicas one request per broker."""

logger = logging.getLogger(__name__)


class TopicDeletion:
    """Deletes the topics of ``context.topics_to_delete``; ``flush`` sends the gathered requests.

    Topics whose deletion is requested together are deleted together. A topic whose nodes the store refuses waits for
    the next change of any topic to delete; the error is in the log, and the other topics are not affected.
    """

    def __init__(
        self,
        context: ControllerContext,
        writer: ControllerWriter,
        replicas: ReplicaMachine,
        batch: RequestBatch,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._writer = writer
        self._replicas = replicas
        self._batch = batch
        self._flush = flush
        self._started: set[str] = set()
        self._ineligible: set[str] = set()
        self._failed: set[str] = set()

    async def enqueue(self, topics: Iterable[str]) -> None:
        """Delete these topics too."""
        added = set(topics)
        self._context.topics_to_delete |= added
        await self._resume(added)

    async def broker_is_back(self, brokers: Iterable[int]) -> None:
        """Continue with the topics that have waited for these brokers."""
        topics = {replica.partition.topic for replica in self._context.replicas_on(brokers)}
        self._ineligible -= topics
        await self._resume(topics)

    async def broker_is_gone(self, replicas: Iterable[Replica]) -> None:
        """Let the topics of these replicas wait: their brokers can't answer now."""
        await self.failed(list(replicas))

    async def deleted(self, replicas: Iterable[Replica]) -> None:
        """Note that these replicas have removed their files."""
        topics = set()
        async for replica in OneByOne(replicas):
            if self._in(replica, ReplicaState.DELETION_STARTED):
                self._context.move_replica(replica, ReplicaState.DELETION_SUCCESSFUL)
                topics.add(replica.partition.topic)
        await self._resume(topics)

    async def failed(self, replicas: Iterable[Replica]) -> None:
        """Note that these replicas could not remove their files; their topics wait."""
        async for replica in OneByOne(replicas):
            if self._in(replica, ReplicaState.DELETION_STARTED) or self._in(replica, ReplicaState.OFFLINE):
                self._context.move_replica(replica, ReplicaState.DELETION_INELIGIBLE)
                self._ineligible.add(replica.partition.topic)

    async def _resume(self, topics: set[str]) -> None:
        """Take the next step for these topics and for those whose last step failed."""
        done, ready = [], []
        async for topic in OneByOne(sorted((topics | self._failed) & self._context.topics_to_delete)):
            states = {self._context.replica_state(found) for found in self._replicas_of(topic)}
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                done.append(topic)
            elif topic not in self._ineligible and ReplicaState.DELETION_STARTED not in states:
                ready.append(topic)
        self._failed.clear()
        await self._each(self._complete, done)
        await self._each(self._begin, ready)

    async def _each(self, step: Callable[[Sequence[str]], Awaitable[None]], topics: Sequence[str]) -> None:
        """Take ``step`` with many topics at once; where that fails, with each alone."""
        for start in range(0, len(topics), TOPICS_TOGETHER):
            together = topics[start : start + TOPICS_TOGETHER]
            try:
                await step(together)
            except SessionEndedError:
                raise
            except (StoreError, ValueError):
                if len(together) > 1:
                    for topic in together:
                        await self._each(step, [topic])
                else:
                    logger.exception("The deletion of topic %s failed; it waits", together[0])
                    self._failed.update(together)

    def _in(self, replica: Replica, state: ReplicaState) -> bool:
        return self._context.replica_state(replica) is state

    def _replicas_of(self, topic: str) -> list[Replica]:
        return self._context.replicas(self._context.partitions([topic]))

    async def _begin(self, topics: Sequence[str]) -> None:
        async for topic in OneByOne(topics):
            if topic not in self._started:
                async for partition in OneByOne(self._context.partitions([topic])):
                    self._context.move_partition(partition, PartitionState.OFFLINE)
                    self._context.move_partition(partition, PartitionState.NON_EXISTENT)
                self._started.add(topic)
        self._batch.add_update_metadata(self._context.brokers, self._context.partitions(topics))
        await self._flush()
        here: list[Replica] = []
        async for topic in OneByOne(topics):
            away: set[int] = set()
            async for replica in OneByOne(self._replicas_of(topic)):
                if self._in(replica, ReplicaState.DELETION_SUCCESSFUL):
                    continue
                if self._context.is_online(replica):
                    here.append(replica)
                else:
                    away.add(replica.broker)
                    self._make_ineligible(replica)
            if away:
                logger.info("Topic %s is deleted when brokers %s are back", topic, sorted(away))
                self._ineligible.add(topic)
        await self._replicas.take_offline(here)
        await self._flush()
        await self._replicas.delete(here)
        await self._flush()

    def _make_ineligible(self, replica: Replica) -> None:
        if not self._in(replica, ReplicaState.DELETION_INELIGIBLE):
            if not self._in(replica, ReplicaState.OFFLINE):
                self._context.move_replica(replica, ReplicaState.OFFLINE)
            self._context.move_replica(replica, ReplicaState.DELETION_INELIGIBLE)

    async def _complete(self, topics: Sequence[str]) -> None:
        paths = []
        async for topic in OneByOne(topics):
            paths += await self._leaves_first(TopicZNode.path(topic))
            paths += [ConfigZNode.path(ConfigEntity.topic(topic)), DeleteTopicZNode.path(topic)]
        await self._writer.write([Delete(path) for path in paths])
        async for topic in OneByOne(topics):
            async for replica in OneByOne(self._replicas_of(topic)):
                self._context.move_replica(replica, ReplicaState.NON_EXISTENT)
            self._context.forget_topic(topic)
            self._started.discard(topic)
            self._ineligible.discard(topic)
            logger.info("Topic %s is deleted", topic)

    async def _leaves_first(self, path: str) -> list[str]:
        try:
            children = await self._writer.store.children(path)
        except NoNodeError:
            return []
        paths = []
        async for child in OneByOne(sorted(children, key=_numbers_in_order)):
            paths += await self._leaves_first(f"{path}/{child}")
        return [*paths, path]


def _numbers_in_order(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else -1, name)
