"""The controllers and metadata of several brokers in one process, on one store, with a record of their requests."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

from kafkapy.clock import Clock, SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.listeners import EndPoint
from kafkapy.metadata.embedded import EmbeddedSession, EmbeddedStore
from kafkapy.metadata.store import Check, Operation, Outcome, StoreError
from kafkapy.network.peer import Handle, LocalChannel
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkapy.server.handlers.leader_and_isr import Results, states_of
from kafkapy.server.lifecycle.node import MetadataNode
from kafkapy.turns import finish


class RecordingSession(EmbeddedSession):
    """Records every successful operation except the checks."""

    writes: list[Operation]

    async def transactions(self, multis: Iterable[Sequence[Operation]]) -> list[Outcome]:
        asked = [list(multi) for multi in multis]
        before = len(self.writes)
        outcomes = await super().transactions(asked)
        done = [
            operation
            for multi, outcome in zip(asked, outcomes, strict=True)
            if not isinstance(outcome, StoreError)
            for operation in multi
            if not isinstance(operation, Check)
        ]
        self.writes[before:before] = done
        return outcomes


class FakeBroker:
    """A broker without logs: it keeps its metadata, and answers all other requests with success."""

    def __init__(self, cluster: "Cluster", broker_id: int, settings: Mapping[str, str]) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.config = BrokerConfig.from_properties({**settings, "broker.id": str(broker_id)})
        self.session = RecordingSession(cluster.store, cluster.store.session().session_id)
        cluster.store._sessions[self.session.session_id] = self.session
        self.session.writes = cluster.writes
        self.node = MetadataNode(self.config, cluster.clock, self.session, cluster.channel, Random(1))
        self.received: list[Message] = []
        self.stop_error = 0
        self.lost: set[tuple[str, int]] = set()
        """Partitions whose data directory has failed."""

    async def start(self) -> "FakeBroker":
        self.cluster.handles[self.id] = self.handle
        self.cluster.brokers[self.id] = self
        await self.node.prepare()
        await self.node.start([EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 19400 + self.id)])
        await self.cluster.settle()
        return self

    async def kill(self) -> None:
        del self.cluster.handles[self.id]
        del self.cluster.brokers[self.id]
        await self.node.stop()
        await self.cluster.settle()

    def handle(self, request: Message, version: int) -> Message:
        self.received.append(request)
        self.cluster.requests.append((self.id, version, request))
        match request:
            case UpdateMetadataRequest():
                self.node.fence.check(request.controller_epoch, request.broker_epoch)
                finish(self.node.cache.apply(request))
                return UpdateMetadataResponse()
            case LeaderAndIsrRequest():
                response = LeaderAndIsrResponse()
                results = Results(response, version)
                for topic, topic_id, state in states_of(request):
                    code = 56 if (topic, state.partition_index) in self.lost else 0
                    results.add(topic, topic_id, state.partition_index, code)
                return response
            case StopReplicaRequest():
                return StopReplicaResponse(error_code=self.stop_error)
            case _:
                raise AssertionError(f"the controller sent {request!r}")


class Cluster:
    """Several such brokers."""

    def __init__(self, store: EmbeddedStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.handles: dict[int, Handle] = {}
        self.channel = LocalChannel(self.handles)
        self.brokers: dict[int, FakeBroker] = {}
        self.writes: list[Operation] = []
        self.requests: list[tuple[int, int, Message]] = []

    async def start(self, broker_id: int, **settings: str) -> FakeBroker:
        return await FakeBroker(self, broker_id, settings).start()

    @property
    def controller(self) -> FakeBroker:
        (found,) = [broker for broker in self.brokers.values() if broker.node.controller.is_active]
        return found

    async def settle(self) -> None:
        """Let the controllers work until all events are handled."""
        for _ in range(3):
            for broker in list(self.brokers.values()):
                await broker.node.controller._events.join()
            for _ in range(20):
                await asyncio.sleep(0)

    def forget(self) -> None:
        self.writes.clear()
        self.requests.clear()


@asynccontextmanager
async def _cluster(*broker_ids: int, clock: Clock | None = None, **settings: str) -> AsyncIterator[Cluster]:
    clock = clock or SystemClock()
    store = EmbeddedStore(None, clock)
    await store.open()
    cluster = Cluster(store, clock)
    for broker_id in broker_ids:
        await cluster.start(broker_id, **settings)
    yield cluster
    for broker in list(cluster.brokers.values()):
        await broker.kill()
    await store.close()


def cluster(*broker_ids: int, clock: Clock | None = None, **settings: str) -> AbstractAsyncContextManager[Cluster]:
    """Brokers, the first of them the controller."""
    return _cluster(*broker_ids, clock=clock, **settings)
