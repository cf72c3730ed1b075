"""A broker in this process, for tests that are coroutines: ``async with AsyncBroker() as broker``."""

import asyncio
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kafkapy.records.record import Headers, Record
from kafkapy.testing.broker import LIMIT_S, THREAD_NAME, WAIT_S
from kafkapy.testing.contents.groups import GroupMember
from kafkapy.testing.contents.records import RecordSelection, TopicRecord
from kafkapy.testing.errors import BrokerNotRunningError
from kafkapy.testing.hosting.surface import HostedSurface
from kafkapy.testing.loop.calls import check_process
from kafkapy.testing.loop.thread import LoopThread
from kafkapy.types import NO_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from kafkapy.testing.contents.registry import EmbeddedRegistry

T = TypeVar("T")


class AsyncBroker(HostedSurface):
    """``Broker`` with coroutines for methods, so that the test's event loop can serve its clients meanwhile.

    The broker itself runs on its own loop in its own thread here too, so that a test which blocks its loop does not
    block the broker.
    """

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # lifecycle

    async def start(self) -> Self:
        """See ``Broker.start``."""
        if self._thread is not None:
            check_process(self._thread.process)
        async with self._lifecycle:
            is_first = self._thread is None
            try:
                if self._thread is None:
                    self._thread = LoopThread(THREAD_NAME)
                    self._thread.start()
                await self._call(self._host.start())
            except BaseException:
                if is_first:
                    await self._close()
                raise
        return self

    async def stop(self) -> None:
        """See ``Broker.stop``."""
        if not self._is_inherited:
            await self._call(self._host.stop())

    async def kill(self) -> None:
        """See ``Broker.kill``."""
        await self._call(self._host.kill())

    async def restart(self) -> None:
        """See ``Broker.restart``."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """See ``Broker.close``."""
        if not self._is_inherited:
            async with self._lifecycle:
                await self._close()

    async def _close(self) -> None:
        thread = self._thread
        if thread is not None:
            try:
                if thread.is_running:
                    await asyncio.wrap_future(thread.submit(self._host.close()))
            finally:
                thread.close()
                self._thread = None

    async def registry(self) -> "EmbeddedRegistry":
        """See ``Broker.registry``; its calls block, so use it and its client in another thread."""
        from kafkapy.testing.contents.registry import EmbeddedRegistry  # few tests need it

        session = await self._call(self._host.new_store_session())
        return EmbeddedRegistry(session, self._blocking_call)

    # topics, records, groups

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """See ``Broker.create_topic``."""
        await self._call(self._helpers.create_topic(name, partitions, configs or {}, replication_factor))

    async def delete_topic(self, name: str) -> None:
        """See ``Broker.delete_topic``."""
        await self._call(self._helpers.delete_topic(name))

    async def topics(self) -> dict[str, int]:
        """See ``Broker.topics``."""
        return await self._call(self._helpers.topics())

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
        """See ``Broker.produce``."""
        return await self._call(self._helpers.produce(topic, partition, Record(key, value, timestamp, headers)))

    async def records(
        self, topic: str, *, partition: int | None = None, read_committed: bool = False
    ) -> list[TopicRecord]:
        """See ``Broker.records``."""
        return await self._call(self._helpers.records(RecordSelection(topic, partition, read_committed)))

    async def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        read_committed: bool = False,
        timeout_s: float = WAIT_S,
    ) -> list[TopicRecord]:
        """See ``Broker.wait_for_records``."""
        return await self._call(
            self._helpers.wait_for_records(RecordSelection(topic, partition, read_committed), count, timeout_s)
        )

    async def groups(self) -> list[str]:
        """See ``Broker.groups``."""
        return await self._call(self._helpers.groups())

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """See ``Broker.committed``."""
        return await self._call(self._helpers.committed(group))

    async def lag(self, group: str) -> dict[TopicPartition, int]:
        """See ``Broker.lag``."""
        return await self._call(self._helpers.lag(group))

    async def wait_until_stable(
        self, group: str, *, members: int | None = None, timeout_s: float = WAIT_S
    ) -> list[GroupMember]:
        """See ``Broker.wait_until_stable``."""
        return await self._call(self._helpers.wait_until_stable(group, members, timeout_s))

    async def wait_until_caught_up(self, group: str, *, timeout_s: float = WAIT_S) -> None:
        """See ``Broker.wait_until_caught_up``."""
        await self._call(self._helpers.wait_until_caught_up(group, timeout_s))

    def _blocking_call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        thread = self._thread
        if thread is None:
            coroutine.close()
            raise BrokerNotRunningError("the broker is closed")
        return thread.call(coroutine, LIMIT_S)

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        thread = self._thread  # another thread may close it meanwhile
        if thread is None:
            coroutine.close()
            raise BrokerNotRunningError("the broker was not started: use it as `async with AsyncBroker() as broker:`")
        return await asyncio.wrap_future(thread.submit(coroutine))
