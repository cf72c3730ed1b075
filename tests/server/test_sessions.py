"""A broker whose session with the metadata store expires continues to serve its clients."""

from pathlib import Path

from harness.client import Client, batch, frame, values_of
from kafkapy.metadata.embedded import EmbeddedSession
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import run, running_broker, until


async def _commit(client: Client, offset: int) -> int:
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
    response = await client.ask(OffsetCommitRequest("g", topics=[topic]), 5)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def _coordinator_is_there(broker: BrokerServer, client: Client) -> None:
    while (await client.ask(FindCoordinatorRequest("g"), 2)).error_code or await _commit(client, 0):
        await broker.clock.sleep(5)


def test_a_broker_registers_again_and_serves_its_clients_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            store, fence = broker.services.store, broker.services.fence
            assert isinstance(store, EmbeddedSession)
            client, waiting = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            await _coordinator_is_there(broker, client)
            broker_epoch, controller_epoch = fence.broker_epoch, fence.controller_epoch
            written = 0

            async def serves() -> None:
                nonlocal written
                assert (await client.produce("t", batch(b"%d" % written), acks=-1)).base_offset == written
                written += 1
                fetched = (await client.fetch("t")).responses[0].partitions[0]
                assert values_of(fetched.records) == [b"%d" % at for at in range(written)]
                assert await _commit(client, written) == 0
                metadata = await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 5)
                assert metadata.topics[0].partitions[0].leader_id == 0

            await serves()
            await store.expire()
            assert not broker.services.controller.is_active
            await serves()
            waiting.send(frame(InitProducerIdRequest(None, 1000), 1))
            await serves()
            store.renew()
            await serves()
            await until(lambda: broker.services.controller.is_active and fence.controller_epoch > controller_epoch)
            assert waiting.decode(22, 1, await waiting.receive()).error_code == 0
            assert fence.controller_epoch == controller_epoch + 1
            stat = await store.exists("/brokers/ids/0")
            assert stat is not None
            assert stat.owner == store.session_id
            assert stat.czxid == fence.broker_epoch > broker_epoch
            await serves()
            await client.create_topic("later")
            assert (await client.produce("later", batch(b"x"), acks=-1)).error_code == 0
            await serves()

    run(scenario())
