"""Versions of CreatePartitions; ``test_topic_answers`` compares its answers with those of Apache Kafka."""

import asyncio

from harness.cases.topic_cases import creatable
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.primitives import decode, encode
from kafkapy.server.handlers import create_partitions, create_topics
from tests.controller.harness import cluster
from tests.server.handlers.topic_context import ask


def test_every_version_adds_partitions() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            await ask(create_topics, broker, CreateTopicsRequest(topics=[creatable("t")]), 5)
            for version in range(4):
                topic = CreatePartitionsTopic(name="t", count=version + 2, assignments=None)
                request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
                response = await ask(create_partitions, broker, request, version)
                (result,) = decode(type(response), encode(response, version), version).results
                assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
                assert len(broker.node.cache.image.topics["t"].partitions) == version + 2

    asyncio.run(main())
