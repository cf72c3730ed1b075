import asyncio
import time

import pytest
from kazoo.exceptions import AuthFailedError

from kafkapy.metadata.exchange.metadata_changes import NodeChange, changes
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from kafkapy.metadata.exchange.zookeeper_tree import connected
from kafkapy.metadata.store import Create
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.security import kazoo_client
from kafkapy.security.certificates import Authority
from kafkapy.security.zookeeper import DigestLogin
from tests.metadata.fake_zookeeper import SERVERS, FakeZooKeeper
from tests.metadata.metadata_samples import NODES, tree, without
from tests.metadata.zookeeper_server import ZooKeeperServer, client_tls, server_tls


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeZooKeeper:
    fake = FakeZooKeeper()
    monkeypatch.setattr(kazoo_client, "KazooClient", fake.client)
    return fake


def _write(source: MetadataTree, chroot: str = "/kafka") -> None:
    with connected(ZooKeeperAddress(SERVERS, chroot)) as there:
        there.write(source, changes(source, there.read()))


def _read(chroot: str = "/kafka") -> MetadataTree:
    with connected(ZooKeeperAddress(SERVERS, chroot)) as there:
        return there.read()


@pytest.mark.parametrize("chroot", ["", "/kafka", "/a/b"])
def test_an_exported_tree_is_imported_unchanged(server: FakeZooKeeper, chroot: str) -> None:
    assert _read(chroot) == MetadataTree({})
    _write(tree(), chroot)
    found = _read(chroot)
    assert changes(tree(), found) == []
    assert (found.broker_id_sequence, found.live_brokers) == (1, ())
    _write(without("/brokers/topics/flights", "/config/users/bob"), chroot)
    assert changes(without("/brokers/topics/flights", "/config/users/bob"), _read(chroot)) == []


def test_nodes_of_running_brokers_are_kept(server: FakeZooKeeper) -> None:
    for path, data in NODES.items():
        if path not in server.tree.nodes:
            server.put(path, data)
    server.put("/brokers/ids/2", b"{}", owner=9)
    server.put("/brokers/ids/10", b"{}", owner=9)
    server.put("/brokers/ids/odd", b"{}", owner=9)
    server.put("/controller", b"{}", owner=9)
    server.put("/consumers/c", b"{}", owner=9)
    server.put("/config/changes/config_change_0000000000", b"{}")
    server.put("/zookeeper/quota")
    server.put("/mine/own")
    found = _read("")
    assert changes(tree(), found) == []
    assert found.live_brokers == (2, 10)


def test_a_node_that_goes_meanwhile_is_left_out(server: FakeZooKeeper) -> None:
    _write(tree(), "")
    server.vanishing = {"/consumers"}
    assert changes(_read(""), tree()) == [NodeChange("gone", "/consumers")]


def test_large_trees_are_written_in_several_multis(server: FakeZooKeeper) -> None:
    many = MetadataTree({**NODES, **{f"/consumers/{number}": b"" for number in range(1000)}}, 1)
    _write(many)
    assert changes(many, _read()) == []
    assert 5 < server.multis < 10
    large = MetadataTree({**NODES, **{f"/consumers/{number}": bytes(100_000) for number in range(9)}}, 1)
    server.multis = 0
    _write(large)
    assert server.multis > 4
    assert changes(large, _read()) == []


def test_no_broker_starts_on_a_part_of_the_tree(server: FakeZooKeeper) -> None:
    """The cluster's id and the controller epoch, which a start checks, come when all else is there."""
    server.meanwhile = lambda: seen.append(set(server.tree.nodes))
    seen: list[set[str]] = []
    _write(MetadataTree(NODES, 3))
    last = {"/kafka/cluster/id", "/kafka/controller_epoch"}
    (before,) = (each for each in seen if not each & last and f"/kafka{max(NODES)}" in each)
    assert set(server.tree.nodes) - before == last
    assert server.tree.nodes["/kafka/brokers/seqid"].version == 3


def test_somebody_else_who_writes_is_noticed(server: FakeZooKeeper) -> None:
    with connected(ZooKeeperAddress(SERVERS, "")) as there:
        found = changes(tree(), there.read())
        server.put("/consumers", b"")
        with pytest.raises(MetadataError, match=r"could not be written .NodeExistsError.: is something else"):
            there.write(tree(), found)


def test_generated_broker_ids_are_counted_on(server: FakeZooKeeper) -> None:
    _write(MetadataTree(NODES, 3))
    assert _read().broker_id_sequence == 3
    _write(MetadataTree(NODES, 2))
    assert _read().broker_id_sequence == 3
    _write(MetadataTree({"/consumers": None}, 2), "/without")


def test_no_server_and_a_refusing_one_are_a_sentence(server: FakeZooKeeper) -> None:
    server.refuses = AuthFailedError("no")
    with pytest.raises(MetadataError, match=rf"the ZooKeeper at {SERVERS}/kafka refuses .AuthFailedError"):
        _read()
    server.is_running = False
    with pytest.raises(MetadataError, match=f"no ZooKeeper answers at {SERVERS}"):
        _read()


AUTHORITY = Authority("authority", time.time_ns() // 1_000_000)


@pytest.mark.parametrize(
    ("password", "authority", "said"),
    [
        ("secret", AUTHORITY, None),
        ("wrong", AUTHORITY, "refuses .it does not accept the user and password of section Client of broker.jaas.$"),
        ("secret", Authority("other", 0), r"within 2 s \(.*certificate.*\): is it running, is the address right"),
    ],
)
def test_a_tree_is_read_from_a_secured_server(password: str, authority: Authority, said: str | None) -> None:
    def read(port: int) -> MetadataTree:
        security = client_tls(authority, AUTHORITY)._replace(
            login=DigestLogin("kafka", password, "section Client of broker.jaas")
        )
        with connected(ZooKeeperAddress(f"127.0.0.1:{port}", ""), security, 2.0) as there:
            return there.read()

    async def main() -> None:
        async with ZooKeeperServer(server_tls(AUTHORITY, "127.0.0.1")) as server:
            server.requires_sasl = True
            server.apply([Create("/cluster"), Create("/cluster/id", b"{}")], 1)
            if said is None:
                assert (await asyncio.to_thread(read, server.port)).nodes["/cluster/id"] == b"{}"
                return
            with pytest.raises(MetadataError, match=said):
                await asyncio.to_thread(read, server.port)

    asyncio.run(main())
