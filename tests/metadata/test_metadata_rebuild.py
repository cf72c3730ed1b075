from pathlib import Path
from uuid import UUID

import pytest

from harness.storage.batches import batch
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.exchange.metadata_rebuild import KEEP_ALL, UNSEEN_PRODUCER_IDS, rebuilt
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.storage.log.producer_state import ProducerEntry, encode_snapshot
from kafkapy.storage.partition_metadata import encode_partition_metadata
from kafkapy.types import NO_TOPIC_ID, TopicPartition

IDENTITY = MetaProperties(4, "o2tiW_b9QVyBj9RJPsfm6Q")
CONFIG = BrokerConfig.from_properties({"transaction.state.log.num.partitions": "1"})


def _rebuilt(*paths: Path, identity: MetaProperties | None = IDENTITY) -> tuple[MetadataTree, list[str]]:
    files = Files()
    return rebuilt(files, [DataDirectory(files, str(path)) for path in paths], identity, CONFIG)


def _batch_of_epoch(epoch: int) -> bytes:
    content = batch(1)
    content[12:16] = epoch.to_bytes(4, "big")
    return bytes(content)


def test_topics_are_rebuilt_from_their_folders(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one / "t-0", two / "t-2", one / "__transaction_state-0", one / "__consumer_offsets-0"):
        path.mkdir(parents=True)
    (one / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n7 20\n")
    (two / "t-2" / f"{0:020}.log").write_bytes(_batch_of_epoch(5))
    (one / f"gone-0.{'0' * 32}-delete").mkdir()
    (one / "t-0" / f"{9:020}.snapshot").write_bytes(encode_snapshot([ProducerEntry(3000), ProducerEntry(2)]))
    (two / "t-2" / f"{9:020}.snapshot").write_bytes(b"damaged")
    topic_id = UUID(int=5)
    (two / "t-2" / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
    tree, said = _rebuilt(one, two)
    tree.check()
    assert tree.topics()["t"].topic_id == topic_id
    assert tree.topics()["__consumer_offsets"].topic_id == NO_TOPIC_ID
    assert tree.cluster_id == IDENTITY.cluster_id
    assert tree.replicas() == {
        TopicPartition(topic, index): (4,)
        for topic, index in (
            ("__consumer_offsets", 0),
            ("__transaction_state", 0),
            ("t", 0),
            ("t", 1),
            ("t", 2),
        )
    }
    assert tree.state(TopicPartition("t", 0)) == LeaderIsr(4, 8, (4,), 1)
    assert tree.state(TopicPartition("t", 1)) is None
    assert tree.state(TopicPartition("t", 2)) == LeaderIsr(4, 6, (4,), 1)
    assert tree.state(TopicPartition("__consumer_offsets", 0)) == LeaderIsr(4, 0, (4,), 1)
    configs = tree.configs("topics")
    assert configs["t"] == KEEP_ALL
    assert configs["__consumer_offsets"]["cleanup.policy"] == "compact"
    assert tree.producer_ids is not None
    assert tree.producer_ids.last == 3000 + UNSEEN_PRODUCER_IDS
    assert said[:2] == [
        "__consumer_offsets has 1 partitions here and 50 by the configuration: are folders missing?",
        "t partition 1 has no folder and will be empty",
    ]
    assert said[2].startswith("configurations of topics")
    assert len(said) == 3


def test_a_damaged_checkpoint_is_replaced_by_the_batches(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")
    (folder / f"{0:020}.log").write_bytes(_batch_of_epoch(5))
    (folder / f"{1:020}.log").write_bytes(b"")
    state = _rebuilt(tmp_path)[0].state(TopicPartition("t", 0))
    assert state is not None
    assert state.leader_epoch == 6


@pytest.mark.parametrize("identity", [None, MetaProperties(None, "x"), MetaProperties(1, None)])
def test_a_rebuild_needs_meta_properties(tmp_path: Path, identity: MetaProperties | None) -> None:
    with pytest.raises(MetadataError, match=f"no meta.properties in {tmp_path} says whose"):
        _rebuilt(tmp_path, identity=identity)


def test_a_folder_of_too_large_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t-2000000000").mkdir()
    with pytest.raises(MetadataError, match="t-2000000000 would be one of more than 100000 partitions"):
        _rebuilt(tmp_path)
