import asyncio

import pytest

from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.server.handlers import update_metadata
from tests.controller.harness import cluster
from tests.server.handlers.topic_context import ask


def test_only_the_newest_controller_changes_the_metadata() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            own = broker.node.fence.broker_epoch
            for controller_epoch, broker_epoch, code in ((1, own - 1, 77), (0, own, 11), (2, own, 0), (1, own, 11)):
                request = UpdateMetadataRequest(
                    controller_id=5, controller_epoch=controller_epoch, broker_epoch=broker_epoch
                )
                response = await ask(update_metadata, broker, request, 6)
                assert response.error_code == code
                assert (broker.node.cache.image.controller_id == 5) == (broker.node.fence.controller_epoch == 2)

    asyncio.run(main())


@pytest.mark.parametrize("grouped", [True, False])
def test_a_partition_that_can_not_exist_does_not_come_into_the_metadata(
    grouped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.controller
            request = UpdateMetadataRequest(controller_epoch=2, broker_epoch=broker.node.fence.broker_epoch)
            states = [
                UpdateMetadataPartitionState(topic, index, replicas=[1])
                for topic, index in (("../evil", 0), ("", 0), ("a\0b", 0), ("x" * 250, 0), ("t", -1), ("t", 1))
            ]
            if grouped:
                request.topic_states = [
                    UpdateMetadataTopicState(each.topic_name, partition_states=[each]) for each in states
                ]
            else:
                request.ungrouped_partition_states = states
            await ask(update_metadata, broker, request, 6)
            topics = broker.node.cache.image.topics
            assert {topic: list(found.partitions) for topic, found in topics.items()} == {"t": [1]}

    caplog.set_level("INFO")
    asyncio.run(main())
    assert "Refused the metadata of '../evil-0'" in caplog.text
