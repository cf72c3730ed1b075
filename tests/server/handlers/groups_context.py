"""Calls a handler; request and response are encoded and decoded in a version, as on the wire."""

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any, TypeVar

from kafkapy.metadata.image import BrokerInfo, Endpoint, MetadataImage, PartitionInfo, TopicImage
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.primitives import Message, Reader, Writer
from kafkapy.server.dispatch.encoding import Filled
from kafkapy.turns import in_turns
from tests.coordinator.world import World

M = TypeVar("M", bound=Message)
HERE, ELSEWHERE = 0, 1


def image(*topics: str, leader: int = HERE, partitions: int = 1) -> MetadataImage:
    partition = PartitionInfo(leader, 0, (leader,), (leader,))
    endpoints = {"PLAINTEXT": Endpoint("elsewhere", 9093, "PLAINTEXT")}
    return MetadataImage(
        "cluster",
        HERE,
        {ELSEWHERE: BrokerInfo(ELSEWHERE, endpoints)},
        {name: TopicImage(name, dict.fromkeys(range(partitions), partition)) for name in topics},
    )


def through(message: M, version: int) -> M:
    writer = Writer()
    message.write(writer, version)
    reader = Reader(memoryview(writer.getvalue()))
    read = type(message).read(reader, version)
    reader.expect_end()
    return read


class Asker:
    """A world with topic ``t``, and its services for handlers."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.world.broker.image = image("t", GROUP_METADATA_TOPIC)
        self.services = SimpleNamespace(
            group_coordinator=self.world.coordinator,
            clock=self.world.clock,
            metadata=self.world.broker,
            config=SimpleNamespace(broker_id=HERE),
            topic_admin=None,
            log_manager=SimpleNamespace(storage=SimpleNamespace(verifies_transactions=False)),
        )

    def context(self, version: int, client_id: str | None = "client") -> Any:
        return SimpleNamespace(
            services=self.services,
            header=SimpleNamespace(api_version=version, client_id=client_id),
            session=SimpleNamespace(peer_host="127.0.0.1", listener="PLAINTEXT"),
            own_endpoint=lambda: ("here", 9092),
            rights=lambda: None,
        )

    def ask(self, handler: Any, request: Any, version: int, **fields: Any) -> Any:
        """The response, as the client reads it; waits for it if need be."""

        async def run() -> Any:
            answer = handler.handle(self.context(version, **fields), through(request, version))
            if inspect.isgenerator(answer):
                answer = await in_turns(answer)
            return await answer if inspect.isawaitable(answer) else answer

        response = asyncio.run(run())
        if isinstance(response, Filled):
            response = response.decoded()
        assert isinstance(response, response_class(request.API_KEY))
        return through(response, version)
