"""The ids of topics in LeaderAndIsr, and the directories of topics that were deleted and created again (KIP-516)."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kafkapy.metadata.errors import NotLeaderOrFollowerError, StaleControllerEpochError
from kafkapy.storage.errors import InconsistentTopicIdError
from kafkapy.types import NO_TOPIC_ID, TopicPartition
from tests.replication.logs import TP, Node, batch, state

ID, OTHER = UUID(int=1), UUID(int=2)


def become(node: Node, topic_id: UUID = NO_TOPIC_ID, epoch: int = 0) -> None:
    node.replicas.become_leader_or_follower(TP, replace(state(epoch=epoch), topic_id=topic_id))


def file_of(path: Path) -> Path:
    return path / str(TP) / "partition.metadata"


def test_a_new_log_gets_the_id_and_an_older_controller_does_not_take_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    become(node, ID)
    assert file_of(tmp_path).exists()
    become(node, epoch=1)
    assert node.replicas.partitions[TP].log.topic_id == ID
    with pytest.raises(StaleControllerEpochError):
        become(node, ID, epoch=1)
    with pytest.raises(StaleControllerEpochError):
        become(node, OTHER, epoch=0)


def test_an_id_is_taken_in_the_same_epoch(tmp_path: Path) -> None:
    node = Node(tmp_path)
    become(node)
    assert not file_of(tmp_path).exists()
    become(node, ID)
    assert file_of(tmp_path).exists()
    with pytest.raises(StaleControllerEpochError):
        become(node, ID)


def test_a_directory_of_an_earlier_topic_is_not_served_and_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path)
    become(node, ID)
    node.replicas.append(TP, batch(3))
    node.logs.shutdown()
    node = Node(tmp_path)
    node.known.add(TP)
    with pytest.raises(InconsistentTopicIdError):
        become(node, OTHER)
    assert f"{TP} is not served" in caplog.text
    with pytest.raises(NotLeaderOrFollowerError):
        node.replicas.partition(TP)
    log = node.logs.get(TP)
    assert log is not None
    assert (log.log_end_offset, log.topic_id) == (3, ID)


def test_a_partition_that_is_served_ends_when_its_topic_is_another(tmp_path: Path) -> None:
    node = Node(tmp_path)
    become(node, ID)
    with pytest.raises(InconsistentTopicIdError):
        become(node, OTHER, epoch=1)
    assert TP not in node.replicas.partitions
    assert node.logs.get(TP) is not None


def test_a_copy_to_another_directory_has_the_id(tmp_path: Path) -> None:
    node = Node(tmp_path / "one", log_dirs=[str(tmp_path / "one"), str(tmp_path / "two")])
    home = node.replicas
    home.become_leader_or_follower(TP, state())
    source = Path(node.logs.directory_of(TP) or "")
    target = tmp_path / ("two" if source.name == "one" else "one")
    home.alter_log_dir(TP, str(target))
    future = node.logs.future(TP)
    assert future is not None
    assert future.topic_id == NO_TOPIC_ID
    become(node, ID)
    assert future.topic_id == ID
    other = TopicPartition("t", 1)
    home.become_leader_or_follower(other, replace(state(), topic_id=ID))
    beside = tmp_path / ("two" if node.logs.directory_of(other) == str(tmp_path / "one") else "one")
    home.alter_log_dir(other, str(beside))
    copied = node.logs.future(other)
    assert copied is not None
    assert copied.topic_id == ID


def test_a_copy_of_an_earlier_topic_is_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path / "one", log_dirs=[str(tmp_path / "one"), str(tmp_path / "two")])
    home = node.replicas
    home.become_leader_or_follower(TP, state())
    target = tmp_path / ("two" if node.logs.directory_of(TP) == str(tmp_path / "one") else "one")
    home.alter_log_dir(TP, str(target))
    future = node.logs.future(TP)
    assert future is not None
    future.assign_topic_id(OTHER)
    become(node, ID)
    assert node.logs.future(TP) is None
    assert "A copy that had not ended is deleted" in caplog.text
    assert node.replicas.partitions[TP].log.topic_id == ID
