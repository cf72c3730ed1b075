import asyncio
from pathlib import Path

from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.exchange.metadata_changes import changes
from kafkapy.metadata.exchange.metadata_file import metadata_path, read_file_tree, write_file_tree
from kafkapy.metadata.exchange.metadata_tree import MetadataTree
from kafkapy.metadata.registration import ensure_persistent_paths
from kafkapy.testing.clock import ManualClock
from tests.metadata.metadata_samples import tree, without


def _write(path: str, source: MetadataTree) -> None:
    write_file_tree(path, source, changes(source, read_file_tree(path)), 5)


def test_no_file_is_an_empty_tree_and_stays_none(tmp_path: Path) -> None:
    path = metadata_path(str(tmp_path))
    assert read_file_tree(path) == MetadataTree({})
    assert list(tmp_path.iterdir()) == []


def test_written_metadata_is_read_again(tmp_path: Path) -> None:
    path = metadata_path(str(tmp_path))
    _write(path, tree())
    assert read_file_tree(path) == tree()
    shorter = without("/brokers/topics/flights", "/config/users/bob")
    _write(path, shorter)
    assert read_file_tree(path) == shorter
    names = ["kafkapy-metadata.journal", "kafkapy-metadata.reserve", "kafkapy-metadata.sqlite"]
    assert sorted(each.name for each in tmp_path.iterdir()) == names


def test_a_broker_starts_on_written_files_and_its_own_nodes_stay(tmp_path: Path) -> None:
    path = metadata_path(str(tmp_path))
    _write(path, tree())

    async def run() -> list[str]:
        store = EmbeddedStore(path, ManualClock(1))
        await store.open()
        session = store.session()
        await ensure_persistent_paths(session)
        await session.create("/config/changes/config_change_", b"{}", sequential=True)
        node = await session.get("/brokers/topics/flights")
        assert (node.stat.version, node.stat.created_ms) == (0, 5)
        assert (await session.get("/brokers/seqid")).stat.version == 1
        names = await session.children("/config/changes")
        await store.close()
        return names

    assert asyncio.run(run()) == ["config_change_0000000000"]
    carried = read_file_tree(path)
    assert carried == tree()
    _write(path, without("/consumers"))
    assert asyncio.run(run()) == ["config_change_0000000000", "config_change_0000000001"]


def test_a_number_of_a_sequential_child_is_not_used_twice(tmp_path: Path) -> None:
    path = metadata_path(str(tmp_path))
    _write(path, tree())

    async def add() -> str:
        store = EmbeddedStore(path, ManualClock(1))
        await store.open()
        made = await store.session().create("/consumers/n", sequential=True)
        await store.close()
        return made

    assert asyncio.run(add()) == "/consumers/n0000000000"
    _write(path, MetadataTree({**tree().nodes, "/consumers": b"changed"}, 1))
    assert asyncio.run(add()) == "/consumers/n0000000001"


def test_a_tree_without_the_sequence_of_broker_ids(tmp_path: Path) -> None:
    path = metadata_path(str(tmp_path))
    source = MetadataTree({"/consumers": None})
    _write(path, source)
    assert read_file_tree(path) == source
