import asyncio

import pytest

from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.registration import (
    BrokerIdTakenError,
    check_cluster_id,
    cluster_id,
    ensure_persistent_paths,
    generated_broker_id,
    register,
)
from kafkapy.metadata.store import NoChildrenForEphemeralsError, ensure_path
from kafkapy.metadata.znodes import PERSISTENT_PATHS, BrokerEndpoint, BrokerIdZNode, ForeignDataError
from kafkapy.storage.errors import ClusterIdMismatchError
from kafkapy.testing.clock import ManualClock

ENDPOINTS = [BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)]


def test_the_broker_epoch_is_the_registrations_czxid() -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        first, second = store.session(), store.session()
        await ensure_persistent_paths(first)
        await ensure_persistent_paths(second)
        assert all([await first.exists(path) for path in PERSISTENT_PATHS])
        epoch = await register(first, clock, 1, ENDPOINTS, "r")
        node = await second.get("/brokers/ids/1")
        assert node.stat.czxid == epoch
        assert node.stat.version == 1
        assert BrokerIdZNode.decode(1, node.data) == BrokerIdZNode(1, tuple(ENDPOINTS), "r", clock.now_ms())
        assert await register(first, clock, 1, ENDPOINTS, "r") == epoch
        with pytest.raises(BrokerIdTakenError, match=r"broker\.id"):
            await register(second, clock, 1, ENDPOINTS, None)
        await first.close()
        assert await register(second, clock, 1, ENDPOINTS, None) > epoch

    asyncio.run(main())


def test_an_error_of_the_store_is_raised() -> None:
    async def main() -> None:
        session = EmbeddedStore(None, ManualClock()).session()
        await session.create("/brokers", b"", ephemeral=True)
        with pytest.raises(NoChildrenForEphemeralsError):
            await ensure_persistent_paths(session)

    asyncio.run(main())


@pytest.mark.parametrize(("random", "expected"), [(b"\x00" * 16, "A" * 22), (b"\xfb" * 16, "A_v7-_v7-_v7-_v7-_v7-w")])
def test_the_cluster_id_is_made_once(random: bytes, expected: str) -> None:
    async def main() -> None:
        store = EmbeddedStore(None, ManualClock()).session()
        made = await cluster_id(store, lambda _size: random)
        assert made == expected
        assert await cluster_id(store, lambda size: b"\x01" * size) == made

    asyncio.run(main())


def test_an_id_that_no_broker_has_made_is_left_as_it_is() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, ManualClock()).session()
        await ensure_path(store, "/cluster/id", b'{"version":"1"}')
        with pytest.raises(ForeignDataError, match=r"the node /cluster/id in the cluster's metadata holds .*no 'id'"):
            await cluster_id(store, lambda size: b"\x01" * size)
        assert (await store.get("/cluster/id")).data == b'{"version":"1"}'

    asyncio.run(main())


def test_a_data_directory_of_another_cluster_is_refused_before_anything_is_written() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, ManualClock()).session()
        with pytest.raises(ClusterIdMismatchError, match=r"there is no cluster at the address of zookeeper\.connect"):
            await check_cluster_id(store, "known")
        assert await store.children("/") == []
        found = await cluster_id(store, lambda size: b"\x01" * size)
        await check_cluster_id(store, found)
        with pytest.raises(ClusterIdMismatchError, match=f"belongs to cluster known, and .* leads to cluster {found}"):
            await check_cluster_id(store, "known")

    asyncio.run(main())


def test_generated_broker_ids_differ() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, ManualClock()).session()
        assert [await generated_broker_id(store, 1000) for _ in range(3)] == [1001, 1002, 1003]

    asyncio.run(main())


def test_an_address_that_another_broker_has_registered_is_refused() -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        first, second = store.session(), store.session()
        await ensure_persistent_paths(first)
        await first.create("/brokers/ids/7", b"foreign")
        await register(first, clock, 1, ENDPOINTS, None)
        same = [BrokerEndpoint("OTHER", "PLAINTEXT", "h", 9092)]
        with pytest.raises(
            BrokerIdTakenError, match=r"Broker 1 is registered already with the address of OTHER, h:9092"
        ):
            await register(second, clock, 2, same, None)
        assert await second.exists("/brokers/ids/2") is None
        await register(second, clock, 2, [BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9093)], None)
        assert await register(first, clock, 1, ENDPOINTS, None)

    asyncio.run(main())
