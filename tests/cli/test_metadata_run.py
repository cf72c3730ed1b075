"""``kafkapy metadata`` between a data directory, a ZooKeeper (a stand-in) and documents."""

import asyncio
import fcntl
import io
import json
import sys
from pathlib import Path

import pytest

from kafkapy.cli.metadata_run import DocumentPlace, MetadataPlace, OwnPlace, ZooKeeperPlace
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.exchange.metadata_changes import changes
from kafkapy.metadata.exchange.metadata_json import encode_document
from kafkapy.metadata.exchange.metadata_tree import MetadataTree
from kafkapy.security import kazoo_client
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from tests.cli.conftest import Run
from tests.metadata.fake_zookeeper import SERVERS, FakeZooKeeper
from tests.metadata.metadata_samples import CLUSTER_ID, NODES, tree
from tests.platform.lock_holder import held_by_another

CHROOT = f"{SERVERS}/kafka"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeZooKeeper:
    fake = FakeZooKeeper()
    monkeypatch.setattr(kazoo_client, "KazooClient", fake.client)
    return fake


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a broker that has stopped."""
    return _stopped(tmp_path / "data", "4")


def _stopped(path: Path, broker_id: str) -> Path:
    async def start_and_stop() -> None:
        config = BrokerConfig.from_properties(
            {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": broker_id}
        )
        async with BrokerServer(config, ManualClock(1)):
            pass

    asyncio.run(start_and_stop())
    return path


def _kafka(server: FakeZooKeeper, chroot: str = "/kafka") -> None:
    for path, content in NODES.items():
        if chroot + path not in server.tree.nodes:
            server.put(chroot + path, content)


def _directory(tmp_path: Path, *partitions: str, broker_id: int = 1, cluster_id: str = CLUSTER_ID) -> Path:
    path = tmp_path / "kafka-logs"
    path.mkdir()
    (path / "meta.properties").write_text(f"version=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n")
    for name in partitions:
        (path / name).mkdir()
    return path


def test_metadata_is_exported_and_imported_again(run: Run, server: FakeZooKeeper, data: Path) -> None:
    planned = run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT, "--dry-run")
    assert planned.code == 0
    assert "/cluster/id" in planned.out
    assert "would write: " in planned.out
    assert "/kafka" not in server.tree.nodes
    done = run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT)
    assert done.code == 0
    assert f"  broker.id=4\n  zookeeper.connect={CHROOT}\n  log.dirs={data}\n" in done.out
    again = json.loads(run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT, "--json").out)
    assert (again["changes"], again["warnings"], again["dry_run"]) == ([], [], False)
    server.set("/kafka/controller_epoch", b"5")
    refused = run("metadata", "import", "--data", f"{data}", "--zookeeper", CHROOT)
    assert refused.code == 1
    assert "older: controller epoch 1, what would replace it has 5" in refused.err
    shown = run("metadata", "import", "--data", f"{data}", "--zookeeper", CHROOT, "--dry-run")
    assert shown.code == 0
    assert "warning: this would be refused: " in shown.err
    assert "other   /controller_epoch" in shown.out
    imported = run("metadata", "import", "--data", f"{data}", "--zookeeper", CHROOT, "--overwrite")
    assert "written: 0 new nodes, 1 changed, 0 removed" in imported.out


def test_a_generated_broker_id_stays_in_the_directory_and_is_not_generated_again(
    run: Run, server: FakeZooKeeper, tmp_path: Path
) -> None:
    data = _stopped(tmp_path / "data", "-1")
    done = run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT)
    assert "  no broker.id: meta.properties has the generated one, 1001\n" in done.out
    assert server.tree.nodes["/kafka/brokers/seqid"].version == 1
    assert run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT, "--overwrite").code == 0
    assert server.tree.nodes["/kafka/brokers/seqid"].version == 1


def test_settings_that_an_export_leaves_out_are_named(run: Run, server: FakeZooKeeper, data: Path) -> None:
    place = OwnPlace(str(data))
    before = place.read()
    own = MetadataTree({**before.nodes, "/config/topics/t": b'{"version":1,"config":{"kafkapy.flush":"ack"}}'})
    place.write(own, changes(own, before), 1)
    done = run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT)
    assert done.code == 0
    assert "warning: left out, since Apache Kafka does not know them: kafkapy.flush of topics t." in done.err
    assert "warning" not in run("metadata", "export", "--data", f"{data}", "--file", f"{data}/m.json").err


def test_metadata_is_exported_to_a_document_and_imported(run: Run, data: Path, tmp_path: Path) -> None:
    on_terminal = run("metadata", "export", "--data", f"{data}", "--file", "-")
    document = json.loads(on_terminal.out)
    file = tmp_path / "m.json"
    assert run("metadata", "export", "--data", f"{data}", "--file", f"{file}").code == 0
    assert json.loads(file.read_text()) == document
    document["nodes"]["/controller_epoch"] = "9"
    file.write_text(json.dumps(document))
    assert run("metadata", "export", "--data", f"{data}", "--file", f"{file}").code == 1
    imported = run("metadata", "import", "--data", f"{data}", "--file", f"{file}", "--overwrite", "--json")
    assert json.loads(imported.out)["changes"] == [{"kind": "other", "path": "/controller_epoch"}]
    piped = run("metadata", "import", "--data", f"{data}", "--file", "-", stdin=on_terminal.out.encode())
    assert "NEWER: controller epoch 9" in piped.err


def test_a_document_may_have_a_relative_path(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("metadata", "export", "--data", "data", "--file", "metadata.json").err == ""
    assert run("metadata", "import", "--data", "data", "--file", "metadata.json").code == 0


def test_a_directory_of_kafka_gets_its_metadata_from_zookeeper(run: Run, server: FakeZooKeeper, tmp_path: Path) -> None:
    _kafka(server)
    path = _directory(tmp_path, "flights-0", "orders-0")
    config = tmp_path / "server.properties"
    config.write_text(f"broker.id=1\nlog.dirs={path}\nnum.partitions=3\n")
    imported = run("metadata", "import", "--config", f"{config}", "--zookeeper", CHROOT)
    assert imported.code == 0
    lines = [line.split() for line in imported.out.splitlines()]
    for expected in (["topics", "1"], ["partitions", "2"], ["configured", "users", "1"], ["controller", "epoch", "7"],
                     ["last", "producer", "id", "block", "2000-2999"], ["ACLs", "on", "resources", "1"]):  # fmt: skip
        assert expected in lines
    assert "without a folder, which will be empty: flights-1" in imported.err
    assert "which are not served: orders-0" in imported.err
    exported = run("metadata", "export", "--data", f"{path}", "--zookeeper", f"{SERVERS}/other")
    assert exported.code == 0
    assert "broker.id=1" in exported.out


def test_without_a_broker_id_the_advice_has_the_id_of_the_replicas(
    run: Run, server: FakeZooKeeper, tmp_path: Path
) -> None:
    _kafka(server)
    path = _directory(tmp_path)
    (path / "meta.properties").unlink()
    refused = run("metadata", "import", "--data", f"{path}", "--zookeeper", CHROOT, "--only-this-broker")
    assert "does not say which broker it belongs to" in refused.err
    assert run("metadata", "import", "--data", f"{path}", "--zookeeper", CHROOT).code == 0
    assert "broker.id=1" in run("metadata", "export", "--data", f"{path}", "--zookeeper", f"{SERVERS}/other").out


def test_only_one_broker_of_several_is_imported(run: Run, server: FakeZooKeeper, tmp_path: Path) -> None:
    _kafka(server)
    server.set("/kafka/brokers/topics/flights", b'{"version":2,"partitions":{"0":[2,1],"1":[1]}}')
    path = _directory(tmp_path, "flights-0", "flights-1")
    refused = run("metadata", "import", "--data", f"{path}", "--zookeeper", CHROOT)
    assert "spread over the brokers 1, 2" in refused.err
    taken = run("metadata", "import", "--data", f"{path}", "--zookeeper", CHROOT, "--only-this-broker", "--json")
    assert json.loads(taken.out)["summary"]["brokers"] == [1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["import"], "give either --zookeeper HOST:PORT/CHROOT or --file FILE"),
        (["import", "--zookeeper", CHROOT, "--file", "f"], "give either --zookeeper"),
        (["import", "--zookeeper", "nonsense"], "'nonsense' is no address of a ZooKeeper"),
        (["import", "--zookeeper", f"{SERVERS}/empty"], f"{SERVERS}/empty holds no cluster: check the address"),
        (["import", "--file", "missing.json"], "missing.json holds no cluster: check the file's name"),
        (["import", "--file", "/"], "/ can't be read: Is a directory"),
        (["export", "--file", "/missing/f"], "/missing/f can't be written: No such file or directory"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    run: Run, server: FakeZooKeeper, data: Path, words: list[str], said: str
) -> None:
    refused = run("metadata", *words, "--data", f"{data}")
    assert refused.code == 1
    assert said in refused.err
    assert refused.err.count("\n") == 1


def test_places_without_metadata_are_reported(run: Run, server: FakeZooKeeper, tmp_path: Path) -> None:
    nowhere = run("metadata", "export", "--data", f"{tmp_path}/nowhere", "--zookeeper", CHROOT)
    assert "data directory" in nowhere.err
    empty = run("metadata", "export", "--data", f"{tmp_path}", "--zookeeper", CHROOT)
    assert "has no metadata of kafkapy" in empty.err
    assert list(tmp_path.iterdir()) == []  # not even a lock file, since it may not be a data directory
    (tmp_path / "kafkapy-metadata.sqlite").touch()
    assert "has no metadata of kafkapy" in run("metadata", "export", "--data", f"{tmp_path}", "--file", "-").err


def test_import_is_refused_while_brokers_run(run: Run, server: FakeZooKeeper, data: Path) -> None:
    _kafka(server)
    server.put("/kafka/brokers/ids/1", b"{}", owner=3)
    for way in ("import", "export"):
        refused = run("metadata", way, "--data", f"{data}", "--zookeeper", CHROOT, "--overwrite")
        assert refused.code == 1
        assert "running" in refused.err


def test_another_clusters_directory_is_refused(run: Run, server: FakeZooKeeper, tmp_path: Path) -> None:
    _kafka(server)
    path = _directory(tmp_path, cluster_id="other")
    assert "belongs to cluster other" in run("metadata", "import", "--data", f"{path}", "--zookeeper", CHROOT).err


def test_a_directory_in_use_is_refused(run: Run, data: Path) -> None:
    with held_by_another(data / ".lock"):
        refused = run("metadata", "export", "--data", f"{data}", "--file", "-")
        assert refused.code == 1
        assert "is in use by another process" in refused.err
    assert run("metadata", "export", "--data", f"{data}", "--file", "-").code == 0
    with (data / ".lock").open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_concurrent_changes_of_the_target_are_detected(run: Run, server: FakeZooKeeper, data: Path) -> None:
    server.meanwhile = lambda: server.ensure_path("/kafka/admin/another")
    server.put("/kafka/admin")
    noticed = run("metadata", "export", "--data", f"{data}", "--zookeeper", CHROOT)
    assert noticed.code == 1
    assert f"{CHROOT} differs from what was written, at /admin/another" in noticed.err


@pytest.mark.parametrize("kind", ["own", "document", "zookeeper"])
def test_a_place_is_empty_and_then_returns_the_written_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(kazoo_client, "KazooClient", FakeZooKeeper().client)
    place: MetadataPlace = {
        "own": OwnPlace(str(tmp_path)),
        "document": DocumentPlace(str(tmp_path / "m.json")),
        "zookeeper": ZooKeeperPlace(f"{SERVERS}/kafka", BrokerConfig.from_properties({})),
    }[kind]
    names = {"own": f"{tmp_path}/kafkapy-metadata.sqlite", "document": f"{tmp_path}/m.json"}
    assert str(place) == names.get(kind, f"{SERVERS}/kafka")
    assert place.read() == MetadataTree({})
    place.write(tree(), changes(tree(), MetadataTree({})), 1)
    assert changes(tree(), place.read()) == []


def test_a_document_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encode_document(tree()))))
    assert DocumentPlace("-").read() == tree()
