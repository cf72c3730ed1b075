"""Brokers of one cluster on a stand-in for a ZooKeeper; ``compat_tests/cluster`` has processes and a real one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.client import Client, batch
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.exchange.exported import NotExportedError
from kafkapy.metadata.exchange.metadata_changes import changes
from kafkapy.metadata.exchange.metadata_file import metadata_path, read_file_tree, write_file_tree
from kafkapy.metadata.exchange.metadata_tree import MetadataTree
from kafkapy.metadata.store import Create, StoreFileError, StoreUnreachableError
from kafkapy.metadata.znodes import ForeignDataError
from kafkapy.server.dispatch.releases import cut
from kafkapy.server.handlers import ALL_APIS
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.storage.errors import ClusterIdMismatchError
from tests.metadata.zookeeper_server import ZooKeeperServer
from tests.server.harness import run, until


def _broker(path: Path, zookeeper: ZooKeeperServer, broker_id: int, **keys: str) -> BrokerServer:
    properties = {
        "broker.id": str(broker_id),
        "log.dirs": str(path / str(broker_id)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": f"127.0.0.1:{zookeeper.port}/kafka",
        "zookeeper.session.timeout.ms": "4000",
        **{name.replace("__", "."): value for name, value in keys.items()},
    }
    return BrokerServer(BrokerConfig.from_properties(properties))


@asynccontextmanager
async def _two(path: Path) -> AsyncIterator[tuple[ZooKeeperServer, BrokerServer, BrokerServer]]:
    async with (
        ZooKeeperServer() as zookeeper,
        _broker(path, zookeeper, 1) as first,
        _broker(path, zookeeper, 2) as second,
    ):
        yield zookeeper, first, second


def test_two_brokers_share_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _two(tmp_path) as (_, first, second):
            assert list(first.services.apis["PLAINTEXT"]) == list(cut(ALL_APIS, "2.7", for_brokers=True))
            assert sorted(second.services.metadata.image.brokers) == [1, 2], "it has waited for the metadata"
            client = await Client.connect(first)
            await client.create_topic("t", partitions=2)
            await until(lambda: "t" in second.services.metadata.image.topics)
            leaders = [second.services.metadata.image.topics["t"].partitions[index].leader for index in (0, 1)]
            assert sorted(leaders) == [1, 2]
            for broker, leader in ((first, 1), (second, 2)):
                direct = await Client.connect(broker)
                partition = leaders.index(leader)
                assert (await direct.produce("t", batch(b"v"), partition=partition)).error_code == 0
                assert (await direct.produce("t", batch(b"v"), partition=1 - partition)).error_code == 6

    run(scenario())


def test_a_session_that_expires_is_followed_by_another_registration(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _two(tmp_path) as (zookeeper, first, second):
            store, fence = first.services.store, first.services.fence
            client = await Client.connect(second)
            epoch = fence.broker_epoch
            zookeeper.end_session(store.session_id)
            await until(lambda: second.services.controller.is_active)
            await until(lambda: fence.broker_epoch > epoch)
            await until(lambda: sorted(second.services.metadata.image.brokers) == [1, 2])
            assert not first.services.controller.is_active
            await client.create_topic("later", partitions=2)
            await until(lambda: "later" in first.services.metadata.image.topics)

    run(scenario())


def test_ids_are_generated_and_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper:
            for expected in (1001, 1002):
                broker = _broker(tmp_path, zookeeper, -1, log__dirs=str(tmp_path / str(expected)))
                for _ in range(2):
                    async with broker:
                        assert broker.config.broker_id == expected
                    broker = _broker(tmp_path, zookeeper, -1, log__dirs=str(tmp_path / str(expected)))

    run(scenario())


def test_a_failed_start_leaves_no_connection_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper, ZooKeeperServer() as other:
            async with _broker(tmp_path, zookeeper, 1):
                pass
            with pytest.raises(ClusterIdMismatchError, match="there is no cluster at the address"):
                await _broker(tmp_path, other, 1).start()
            assert list(other.tree.nodes) == ["/", "/kafka"]
            zookeeper.tree.nodes["/kafka/latest_producer_id_block"].data = b"foreign"
            with pytest.raises(ForeignDataError, match="/latest_producer_id_block"):
                await _broker(tmp_path, zookeeper, 1).start()
            assert (zookeeper.sessions, other.sessions) == ({}, {})
            port = zookeeper.port
        with pytest.raises(StoreUnreachableError, match=f"no ZooKeeper answers at 127.0.0.1:{port} within 50 ms"):
            await _broker(tmp_path, zookeeper, 1, zookeeper__connection__timeout__ms="50").start()

    run(scenario())


def _alone(path: Path) -> BrokerServer:
    """The broker of ``_broker`` without a ZooKeeper."""
    properties = {"broker.id": "1", "log.dirs": str(path / "1"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    return BrokerServer(BrokerConfig.from_properties(properties))


def _export(path: Path, zookeeper: ZooKeeperServer) -> MetadataTree:
    """The result of ``kafkapy metadata export`` for a ZooKeeper that is empty or has an older copy."""
    tree = read_file_tree(metadata_path(str(path / "1")))
    for each in ("/kafka", "/kafka/brokers"):
        if each not in zookeeper.tree.nodes:
            zookeeper.tree.apply([Create(each)], 1, 0)
    for each, data in sorted(tree.nodes.items()):
        if f"/kafka{each}" in zookeeper.tree.nodes:
            zookeeper.tree.nodes[f"/kafka{each}"].data = data
        else:
            zookeeper.tree.apply([Create(f"/kafka{each}", data)], 1, 0)
    return tree


def test_a_broker_that_was_alone_continues_in_a_cluster_and_alone_again(tmp_path: Path) -> None:
    """Its own store is set aside, so that no start without the ZooKeeper serves the metadata of before."""
    store = metadata_path(str(tmp_path / "1"))

    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper:
            async with _alone(tmp_path) as alone:
                client = await Client.connect(alone)
                await client.create_topic("t")
                assert (await client.produce("t", batch(b"v"))).base_offset == 0
            _export(tmp_path, zookeeper)
            for _ in range(2):
                async with _broker(tmp_path, zookeeper, 1) as joined:
                    client = await Client.connect(joined)
                    assert (await client.produce("t", batch(b"v"))).error_code == 0
            with pytest.raises(StoreFileError, match=r"start with zookeeper\.connect, or run kafkapy metadata import"):
                await _alone(tmp_path).start()
            assert "t" in read_file_tree(f"{store}.exported").topics()
            data = {path[6:]: node.data for path, node in zookeeper.tree.nodes.items() if path > "/kafka/"}
            write_file_tree(store, MetadataTree(data), changes(MetadataTree(data), MetadataTree({})), 1)
            async with _alone(tmp_path) as alone:
                client = await Client.connect(alone)
                assert (await client.produce("t", batch(b"v"))).base_offset == 3

    run(scenario())


def test_metadata_that_changed_after_the_export_are_not_left_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper:
            async with _alone(tmp_path):
                pass
            _export(tmp_path, zookeeper)
            async with _alone(tmp_path) as alone:
                await (await Client.connect(alone)).create_topic("later")
            with pytest.raises(NotExportedError, match=r"newer \(controller epoch 2\) than the ZooKeeper \(1\)"):
                await _broker(tmp_path, zookeeper, 1).start()
            assert "/kafka/controller" not in zookeeper.tree.nodes
            _export(tmp_path, zookeeper)
            async with _broker(tmp_path, zookeeper, 1) as joined:
                assert "later" in joined.services.metadata.image.topics

    run(scenario())


def _damage(store: Path) -> None:
    for path in (store, store.with_suffix(".journal")):
        path.write_bytes(b"damaged")


@pytest.mark.parametrize("damage", ["file", "node", "epoch"])
def test_own_metadata_that_cannot_be_compared_do_not_prevent_a_start(tmp_path: Path, damage: str) -> None:
    store = Path(metadata_path(str(tmp_path / "1")))

    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper:
            async with _alone(tmp_path):
                pass
            tree = _export(tmp_path, zookeeper)
            if damage == "file":
                _damage(store)
            elif damage == "epoch":
                other = MetadataTree({**tree.nodes, "/controller_epoch": b"foreign"})
                write_file_tree(str(store), other, changes(other, tree), 1)
            else:
                zero = MetadataTree({**tree.nodes, "/controller_epoch": b"0"})
                write_file_tree(str(store), zero, changes(zero, tree), 1)
                del zookeeper.tree.nodes["/kafka/controller_epoch"]
                zookeeper.tree.nodes["/kafka"].children.pop("controller_epoch")
            async with _broker(tmp_path, zookeeper, 1):
                pass

    run(scenario())
    assert not store.exists()
