import asyncio

from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
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
