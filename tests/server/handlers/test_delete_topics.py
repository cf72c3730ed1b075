"""Versions of DeleteTopics; ``test_topic_answers`` compares its answers with those of Apache Kafka."""

import asyncio

import pytest

from harness.cases.topic_cases import creatable
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.server.handlers import create_topics, delete_topics
from tests.controller.harness import cluster
from tests.server.handlers.topic_context import ask


def test_every_version_deletes() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            for version in range(6):
                request = CreateTopicsRequest(topics=[creatable("again")])
                await ask(create_topics, started.controller, request, 5)
                doomed = DeleteTopicsRequest(topic_names=["again"], timeout_ms=1000)
                response = await ask(delete_topics, started.controller, doomed, version)
                assert [(found.name, found.error_code) for found in response.responses] == [("again", 0)]

    asyncio.run(main())


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_a_timeout_a_deletion_is_answered_as_timed_out(timeout_ms: int) -> None:
    async def main() -> None:
        async with cluster(1) as started:
            await ask(create_topics, started.controller, CreateTopicsRequest(topics=[creatable("t")]), 5)
            request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=timeout_ms)
            response = await ask(delete_topics, started.controller, request, 5)
            assert [found.error_code for found in response.responses] == [7]

    asyncio.run(main())


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (5, 73)])
def test_deletion_switched_off(version: int, code: int) -> None:
    async def main() -> None:
        async with cluster(1, **{"delete.topic.enable": "false"}) as started:
            request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
            response = await ask(delete_topics, started.controller, request, version)
            assert [found.error_code for found in response.responses] == [code]

    asyncio.run(main())
