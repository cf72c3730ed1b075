"""Several brokers of one cluster in this process, for coroutines: ``async with AsyncCluster(brokers=3) as cluster``."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kafkapy.records.record import Headers, Record
from kafkapy.testing.async_broker import AsyncBroker
from kafkapy.testing.broker import WAIT_S
from kafkapy.testing.cluster import THREAD_NAME
from kafkapy.testing.contents.records import RecordSelection, TopicRecord
from kafkapy.testing.contents.topics import TopicShape
from kafkapy.testing.errors import BrokerNotRunningError
from kafkapy.testing.hosting.cluster_surface import ClusterMember, ClusterSurface
from kafkapy.testing.hosting.settings import texts
from kafkapy.testing.loop.calls import check_process
from kafkapy.testing.loop.thread import LoopThread
from kafkapy.types import NO_TIMESTAMP

T = TypeVar("T")

NOT_STARTED: Final = "the cluster was not started: use it as `async with AsyncCluster() as cluster:`"


class AsyncClusterBroker(ClusterMember, AsyncBroker):
    """``ClusterBroker`` with coroutines for methods; ``pause`` and ``resume`` are plain calls."""

    async def start(self) -> Self:
        """See ``ClusterBroker.start``."""
        if self._thread is None:
            raise BrokerNotRunningError(NOT_STARTED)
        await self._call(self._host.start())
        return self

    async def close(self) -> None:
        """See ``ClusterBroker.close``."""
        await self.stop()


class AsyncCluster(ClusterSurface[AsyncClusterBroker]):
    """``Cluster`` with coroutines for methods, so that the test's event loop can serve its clients meanwhile.

    The brokers themselves run on their own loop in their own thread here too.
    """

    kind = AsyncClusterBroker

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # lifecycle

    async def start(self) -> Self:
        """See ``Cluster.start``."""
        if self._thread is not None:
            check_process(self._thread.process)
        async with self._lifecycle:
            if self._thread is None:
                try:
                    self._thread = LoopThread(THREAD_NAME)
                    self._thread.start()
                    self._give_brokers(self._thread)
                    await self._call(self._hosted.start())
                except BaseException:
                    await self._close()
                    raise
        return self

    async def close(self) -> None:
        """See ``Cluster.close``."""
        if not self._is_inherited:
            async with self._lifecycle:
                await self._close()

    async def _close(self) -> None:
        thread = self._thread
        if thread is not None:
            self._give_brokers(None)
            try:
                if thread.is_running:
                    await asyncio.wrap_future(thread.submit(self._hosted.close()))
            finally:
                thread.close()
                self._thread = None

    # roles

    async def controller(self) -> AsyncClusterBroker:
        """See ``Cluster.controller``."""
        return self._broker(await self._call(self._hosted.controller()))

    async def leader(self, topic: str, partition: int = 0, *, timeout_s: float = WAIT_S) -> AsyncClusterBroker:
        """See ``Cluster.leader``."""
        return self._broker(await self._call(self._hosted.leader(topic, partition, timeout_s)))

    async def coordinator(self, group: str, *, timeout_s: float = WAIT_S) -> AsyncClusterBroker:
        """See ``Cluster.coordinator``."""
        return self._broker(await self._call(self._hosted.coordinator(group, timeout_s)))

    async def wait_until_in_sync(self, topic: str | None = None, *, timeout_s: float = WAIT_S) -> None:
        """See ``Cluster.wait_until_in_sync``."""
        await self._call(self._hosted.in_sync(topic, timeout_s))

    # topics and records

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """See ``Cluster.create_topic``."""
        shape = TopicShape(partitions, replication_factor, texts(configs or {}))
        await self._call(self._hosted.create_topic(name, shape))

    async def delete_topic(self, name: str) -> None:
        """See ``Cluster.delete_topic``."""
        await self._call(self._hosted.delete_topic(name))

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int = NO_TIMESTAMP,
    ) -> TopicRecord:
        """See ``Cluster.produce``."""
        return await self._call(self._hosted.produce(topic, partition, Record(key, value, timestamp, headers)))

    async def records(
        self, topic: str, *, partition: int | None = None, read_committed: bool = False
    ) -> list[TopicRecord]:
        """See ``Cluster.records``."""
        return await self._call(self._hosted.records(RecordSelection(topic, partition, read_committed), WAIT_S))

    async def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        read_committed: bool = False,
        timeout_s: float = WAIT_S,
    ) -> list[TopicRecord]:
        """See ``Cluster.wait_for_records``."""
        selection = RecordSelection(topic, partition, read_committed)
        return await self._call(self._hosted.wait_for_records(selection, count, timeout_s))

    # the network

    async def separate(self, *groups: Iterable[int]) -> None:
        """See ``Cluster.separate``."""
        await self._call(self._hosted.separate([tuple(group) for group in groups]))

    async def heal(self) -> None:
        """See ``Cluster.heal``."""
        if not self._is_inherited:
            await self._call(self._hosted.heal())

    @asynccontextmanager
    async def separated(self, *groups: Iterable[int]) -> AsyncIterator[None]:
        """See ``Cluster.separated``."""
        await self.separate(*groups)
        try:
            yield
        finally:
            await self.heal()

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        thread = self._thread  # another thread may close it meanwhile
        if thread is None:
            coroutine.close()
            raise BrokerNotRunningError(NOT_STARTED)
        return await asyncio.wrap_future(thread.submit(coroutine))
