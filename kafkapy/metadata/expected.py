"""The topics of the metadata store: the metadata image must have them before it is whole (``image.py``)."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafkapy.clock import Clock
from kafkapy.metadata.image import MetadataCache
from kafkapy.metadata.store import MetadataStore, Node, StoreError
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.metadata.znodes import ForeignDataError, PartitionStateZNode, TopicsZNode, TopicZNode, decoded
from kafkapy.turns import OneByOne, pause
from kafkapy.types import TopicPartition

RETRY_MS: Final = 1_000
"""The pause between two looks into the store while the image is partial, and before another try after an error."""
LOOKED_UP: Final = 100
"""Missing partitions that one look concerns: most of them are on their way."""
REPORT_S: Final = 10
"""How often a log line says that the image is still partial."""

logger: Final = logging.getLogger(__name__)


class ExpectedMetadata:
    """Compares the metadata image of a broker with the metadata store while the image is partial."""

    def __init__(self, clock: Clock, store: MetadataStore, cache: MetadataCache) -> None:
        self._clock = clock
        self._store = store
        self._cache = cache
        self._settling: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None
        cache.add_listener(lambda *_: self._count_new_topics())

    async def expect(self) -> None:
        """Read which partitions exist, and expect them in the image. Call it before each registration.

        The controller tells the broker of a partition that is created later, since it is registered then. Raises
        ``StoreError``.
        """
        names = await self._store.children(TopicsZNode.PATH)
        partitions: list[TopicPartition] = []
        async for name, indexes in OneByOne((await self._assigned(names)).items()):
            partitions += [TopicPartition(name, index) for index in indexes]
            if name in INTERNAL_TOPICS:
                self._cache.set_partition_count(name, len(indexes))
        self._cache.expect(partitions)
        if self._settling is None and not self._cache.is_whole:
            self._settling = asyncio.create_task(self._settle(), name="expected-metadata")

    def stop(self) -> None:
        """Stop looking into the store."""
        for task in (self._settling, self._counting):
            if task is not None:
                task.cancel()

    async def _settle(self) -> None:
        """Until the image is whole, drop expected partitions that the controller will not send."""
        reported_s = self._clock.monotonic_s()
        try:
            while not self._cache.is_whole:
                await self._clock.sleep(RETRY_MS)
                missing = self._cache.missing(LOOKED_UP)
                if self._clock.monotonic_s() - reported_s >= REPORT_S:
                    reported_s = self._clock.monotonic_s()
                    what = f"{missing[0]} and others" if missing else "the live brokers"
                    logger.warning("Requests wait for metadata: the controller has not sent %s yet", what)
                try:
                    self._cache.stop_expecting(await self._never_sent(missing))
                except StoreError as error:
                    logger.debug("The topics that exist could not be read: %s", error)
        finally:
            self._settling = None

    async def _never_sent(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those of ``partitions`` that have been deleted, or have no state yet that a controller could send."""
        assigned = await self._assigned({each.topic for each in partitions})
        states = await self._store.get_many([PartitionStateZNode.path(each) for each in partitions])
        return [
            each
            for each, state in zip(partitions, states, strict=True)
            if each.partition not in assigned.get(each.topic, ()) or _is_unreadable(each, state)
        ]

    async def _assigned(self, topics: Iterable[str]) -> Mapping[str, Collection[int]]:
        """The partitions of each topic that exists and can be read: the controller logs an error for the others."""
        names = list(topics)
        assigned = {}
        for name, node in zip(
            names, await self._store.get_many([TopicZNode.path(each) for each in names]), strict=True
        ):
            await pause()
            if node is not None:
                try:
                    assigned[name] = decoded(TopicZNode.path(name), node.data, TopicZNode.decode).partitions.keys()
                except ForeignDataError:
                    continue
        return assigned

    def _count_new_topics(self) -> None:
        if self._counting is None and self._uncounted():
            self._counting = asyncio.create_task(self._count(), name="count-partitions")

    def _uncounted(self) -> list[str]:
        """The internal topics that were created after this broker's start."""
        topics, counts = self._cache.image.topics, self._cache.partition_counts
        return [name for name in INTERNAL_TOPICS if name not in counts and name in topics]

    async def _count(self) -> None:
        try:
            while names := self._uncounted():
                try:
                    for name, indexes in (await self._assigned(names)).items():
                        self._cache.set_partition_count(name, len(indexes))
                except StoreError as error:
                    logger.debug("The partitions of %s could not be counted: %s", names, error)
                if self._uncounted():
                    await self._clock.sleep(RETRY_MS)
        finally:
            self._counting = None


def _is_unreadable(partition: TopicPartition, state: Node | None) -> bool:
    if state is None:
        return True
    version = state.stat.version
    try:
        decoded(PartitionStateZNode.path(partition), state.data, lambda data: PartitionStateZNode.decode(data, version))
    except ForeignDataError:
        return True
    return False
