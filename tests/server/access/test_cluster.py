"""Two brokers of a cluster with an authorizer, on a stand-in for a ZooKeeper."""

from collections.abc import Sequence
from pathlib import Path

from harness.client import batch, produce_request
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.security.acls import CLUSTER_NAME, AclEntry, ResourcePattern
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.metadata.zookeeper_server import ZooKeeperServer
from tests.server.access.guarded import ADMIN, AUTHORIZER, client_of
from tests.server.harness import run, until

CLUSTER = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, AclPatternType.LITERAL)
BROKERS = AclEntry("User:ANONYMOUS", "127.0.0.1", AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW)


def _broker(path: Path, zookeeper: ZooKeeperServer, broker_id: int) -> BrokerServer:
    properties = {
        "broker.id": str(broker_id),
        "log.dirs": str(path / str(broker_id)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": f"127.0.0.1:{zookeeper.port}/kafka",
        "zookeeper.session.timeout.ms": "4000",
        "authorizer.class.name": AUTHORIZER,
        "super.users": ADMIN,
    }
    return BrokerServer(BrokerConfig.from_properties(properties))


async def _set(broker: BrokerServer, *entries: AclEntry) -> None:
    access = broker.services.access
    assert access is not None

    async def update(_: object) -> Sequence[AclEntry]:
        return entries

    await access.acls.change(CLUSTER, update)


def _entries(broker: BrokerServer) -> tuple[AclEntry, ...]:
    access = broker.services.access
    assert access is not None
    return access.acls.authorizer.entries(CLUSTER)


def test_brokers_need_cluster_action_for_their_requests_to_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper, _broker(tmp_path, zookeeper, 1) as first:
            await _set(first, BROKERS)
            async with _broker(tmp_path, zookeeper, 2) as second:
                assert _entries(second) == (BROKERS,)
                clients = [await client_of(broker, ADMIN) for broker in (first, second)]
                answer = await clients[0].ask(CreateTopicsRequest([CreatableTopic("t", 1, 2)], 5000), 5)
                assert answer.topics[0].error_code == 0
                await until(lambda: "t" in second.services.metadata.image.topics)
                client = clients[second.services.metadata.image.topics["t"].partitions[0].leader - 1]
                answer = await client.ask(produce_request("t", batch(b"v"), acks=-1), 8)
                assert answer.responses[0].partition_responses[0].error_code == 0
                await _set(second)
                await until(lambda: _entries(first) == ())
                answer = await client.ask(produce_request("t", batch(b"v"), acks=-1), 8)
                assert answer.responses[0].partition_responses[0].error_code == 7, "the follower may not fetch"
                await _set(first, BROKERS)
                await until(lambda: _entries(second) == (BROKERS,))
                for _ in range(10):  # the follower tries again after a pause
                    answer = await client.ask(produce_request("t", batch(b"v"), acks=-1), 8)
                    if answer.responses[0].partition_responses[0].error_code == 0:
                        break
                assert answer.responses[0].partition_responses[0].error_code == 0
                for each in clients:
                    await each.close()

    run(scenario())
