from pathlib import Path

import pytest

from kafkapy.metadata.exchange.metadata_checks import (
    Directories,
    check_identity,
    check_topic_configs,
    only_of_broker,
    require_one_broker,
    warnings,
)
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.types import TopicPartition
from tests.metadata.metadata_samples import CLUSTER_ID, NODES, tree

FLIGHTS = frozenset(TopicPartition("flights", index) for index in (0, 1))
SPREAD = {
    **NODES,
    "/brokers/topics/flights": b'{"version":2,"partitions":{"0":[1,2],"1":[2,1]}}',
    "/brokers/topics/flights/partitions/0/state": (
        b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":3,"isr":[2,1]}'
    ),
}


def _directory(path: Path, *names: str, broker_id: int | None = None) -> DataDirectory:
    for name in names:
        (path / name).mkdir(parents=True)
    if broker_id is not None:
        (path / "meta.properties").write_text(f"broker.id={broker_id}\nversion=0\ncluster.id={CLUSTER_ID}\n")
    return DataDirectory(Files(), str(path))


def test_directories_are_read(tmp_path: Path) -> None:
    one = _directory(tmp_path / "a", "flights-0", broker_id=1)
    other = _directory(tmp_path / "b", "flights-1", "gone-0.0123456789abcdef0123456789abcdef-delete")
    assert Directories.read([one, other]) == Directories(MetaProperties(1, CLUSTER_ID), FLIGHTS)
    assert Directories.read([other]).identity is None


def test_directories_of_two_brokers_or_with_a_strange_folder_are_refused(tmp_path: Path) -> None:
    one, two = _directory(tmp_path / "a", ".", broker_id=1), _directory(tmp_path / "b", ".", broker_id=2)
    with pytest.raises(MetadataError, match="different brokers"):
        Directories.read([one, two])
    with pytest.raises(MetadataError, match="stranger is not a partition"):
        Directories.read([_directory(tmp_path / "c", "stranger")])


def test_another_clusters_directory_is_refused() -> None:
    check_identity(tree(), Directories(None, FLIGHTS), "d")
    check_identity(tree(), Directories(MetaProperties(1, None), FLIGHTS), "d")
    check_identity(tree(), Directories(MetaProperties(1, CLUSTER_ID), FLIGHTS), "d")
    with pytest.raises(MetadataError, match="d belongs to cluster other"):
        check_identity(tree(), Directories(MetaProperties(1, "other"), FLIGHTS), "d")


def test_warnings() -> None:
    mine = MetaProperties(1, CLUSTER_ID)
    assert warnings(tree(), Directories(mine, FLIGHTS)) == []
    assert warnings(tree(), Directories(None, frozenset())) == []
    (missing,) = warnings(tree(), Directories(mine, frozenset({TopicPartition("flights", 0)})))
    assert missing == "partitions without a folder, which will be empty: flights-1"
    ending = MetadataTree({**tree().nodes, "/admin/delete_topics/flights": None})
    assert warnings(ending, Directories(mine, frozenset({TopicPartition("flights", 0)}))) == []
    strangers = frozenset(TopicPartition("x", index) for index in range(7))
    (unknown,) = warnings(tree(), Directories(mine, FLIGHTS | strangers))
    assert unknown.endswith("which are not served: x-0, x-1, x-2, x-3, x-4 and 2 more")
    (elsewhere,) = warnings(tree(), Directories(MetaProperties(2, CLUSTER_ID), FLIGHTS))
    assert elsewhere == "no partition has a replica on broker 2, whose data directory this is"


def test_metadata_of_several_brokers_is_refused() -> None:
    require_one_broker(tree(), 1)
    require_one_broker(tree(), None)
    require_one_broker(MetadataTree({}), None)
    for other in (MetadataTree(SPREAD), tree()):
        with pytest.raises(MetadataError, match="spread over the brokers 1, 2"):
            require_one_broker(other, 2)
    with pytest.raises(MetadataError, match="spread over the brokers 1, 2"):
        require_one_broker(MetadataTree(SPREAD), None)


def test_the_replicas_of_one_broker() -> None:
    state = {"/brokers/topics/flights/partitions/1/state": NODES["/brokers/topics/flights/partitions/1/state"]}
    taken = only_of_broker(MetadataTree({**SPREAD, **state}, 4), 1)
    require_one_broker(taken, 1)
    led = taken.state(TopicPartition("flights", 0))
    assert led is not None
    assert (led.leader, led.leader_epoch, led.isr) == (1, 4, (1,))
    assert taken.broker_id_sequence == 4
    with pytest.raises(MetadataError, match="broker 2 is not in sync for flights-1"):
        only_of_broker(MetadataTree(SPREAD), 2)
    unstarted = {path: data for path, data in SPREAD.items() if not path.endswith("0/state")}
    with pytest.raises(MetadataError, match="broker 1 is not in sync for flights-0"):
        only_of_broker(MetadataTree(unstarted), 1)


def test_settings_of_topics() -> None:
    assert check_topic_configs(tree()) == []
    later = MetadataTree({**NODES, "/config/topics/flights": b'{"version":1,"config":{"later.key":"1"}}'})
    (sentence,) = check_topic_configs(later)
    assert sentence.endswith("does not know and ignores: later.key of flights")
    odd = MetadataTree({**NODES, "/config/topics/flights": b'{"version":1,"config":{"retention.ms":"soon"}}'})
    with pytest.raises(
        MetadataError, match=r"^/config/topics/flights: Invalid value soon for configuration retention.ms"
    ):
        check_topic_configs(odd)
