"""Versions of CreateTopics; ``test_topic_answers`` compares its answers with those of Apache Kafka."""

import asyncio

from harness.cases.topic_cases import creatable
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.primitives import decode, encode
from kafkapy.server.handlers import create_topics
from tests.controller.harness import cluster
from tests.server.handlers.topic_context import ask


def test_every_version_creates() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            for version in range(7):
                request = CreateTopicsRequest(topics=[creatable(f"v{version}", configs={"retention.ms": "7"})])
                response = await ask(create_topics, started.controller, request, version)
                (topic,) = decode(type(response), encode(response, version), version).topics
                assert (topic.name, topic.error_code) == (f"v{version}", 0)
                if version >= 5:
                    assert (topic.num_partitions, topic.replication_factor) == (1, 1)
                    own = [(config.name, config.value) for config in topic.configs if config.config_source == 1]
                    assert own == [("retention.ms", "7")]
                else:
                    assert topic.num_partitions == -1

    asyncio.run(main())


def test_a_request_without_topics_is_answered_without_topics() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            assert (await ask(create_topics, started.controller, CreateTopicsRequest(), 5)).topics == []

    asyncio.run(main())
