from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.files import Files
from kafkapy.platform.flusher import InlineFlusher
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.data_directory import DataDirectory, MetaProperties, parse_partition
from kafkapy.storage.errors import (
    BrokerIdMismatchError,
    ClusterIdMismatchError,
    ForeignDirectoryError,
    UnknownIdentityVersionError,
)
from kafkapy.types import TopicPartition

OURS = MetaProperties(1, "o2tiW_b9QVyBj9RJPsfm6Q")


def _directory(path: Path) -> DataDirectory:
    return DataDirectory(Files(), str(path))


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("orders", None),
        ("-1", None),
        ("orders-x", None),
        ("a b-0", None),
    ],
)
def test_folder_names(name: str, partition: TopicPartition | None) -> None:
    assert parse_partition(name) == partition


def test_real_kafkas_identity_is_read() -> None:
    assert _directory(GOLDEN).read_identity() == OURS


def test_identity_is_written_in_kafkas_form_and_only_when_it_changes(tmp_path: Path) -> None:
    directory = _directory(tmp_path)
    assert directory.read_identity() is None
    directory.check_identity(OURS)
    directory.write_identity(OURS, (GOLDEN / "meta.properties").read_text().splitlines()[1][1:])
    assert (tmp_path / "meta.properties").read_bytes() == (GOLDEN / "meta.properties").read_bytes()
    directory.write_identity(OURS, "later")
    assert b"later" not in (tmp_path / "meta.properties").read_bytes()
    directory.check_identity(OURS)


def test_anothers_directory_is_refused(tmp_path: Path) -> None:
    directory = _directory(tmp_path)
    directory.write_identity(OURS, "")
    with pytest.raises(ClusterIdMismatchError, match="choose another directory"):
        directory.check_identity(MetaProperties(1, "another"))
    with pytest.raises(BrokerIdMismatchError, match="set broker"):
        directory.check_identity(MetaProperties(2, OURS.cluster_id))
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=x\n")
    assert directory.read_identity() is None
    directory.check_identity(OURS)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\x00=\xfe\nversion=0\n"])
def test_a_damaged_identity_is_ignored_with_a_warning(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    directory = _directory(tmp_path)
    assert directory.read_identity() is None
    assert "meta.properties is damaged" in caplog.text
    directory.write_identity(OURS, "today")
    assert directory.read_identity() == OURS


def test_the_identity_of_a_newer_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    with pytest.raises(UnknownIdentityVersionError, match="version '1', this broker knows version 0"):
        _directory(tmp_path).read_identity()


def test_the_clean_marker_counts_once(tmp_path: Path) -> None:
    directory = _directory(tmp_path)
    assert not directory.is_clean()
    directory.mark_clean()
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b""
    assert directory.is_clean()
    directory.remove_clean_marker()
    assert not directory.is_clean()


def test_the_offsets_of_a_partition_come_from_all_checkpoints() -> None:
    checkpoints = _directory(GOLDEN).read_checkpoints(clean=True)
    assert checkpoints[TopicPartition("seg", 0)] == Checkpointed(True, 204, 80, 204)


@pytest.mark.parametrize(
    "content", [b"\0" * 50, b"0\n5\na 0 1\n", b"7\n0\n", b"0\n1\na 0 99999999999999999999\n", b"0\n1000000000\n"]
)
def test_a_damaged_checkpoint_is_ignored_with_a_warning(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(content)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\na 0 7\n")
    assert _directory(tmp_path).read_checkpoints(clean=False) == {
        TopicPartition("a", 0): Checkpointed(clean=False, high_watermark=7)
    }
    assert "going on without it: after an unclean stop every log is read from its start" in caplog.text


@pytest.mark.parametrize(("content", "compacted"), [("0\n1\nc 1 3\n", ["c"]), ("0\n0\n", []), ("damaged", ["a"])])
def test_logs_that_may_have_been_compacted(tmp_path: Path, content: str, compacted: list[str]) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\na 0 7\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text(content)
    found = _directory(tmp_path).read_checkpoints(clean=False)
    assert [partition.topic for partition, each in found.items() if each.was_compacted] == compacted


def test_an_unchanged_checkpoint_is_not_written_again(tmp_path: Path) -> None:
    directory = _directory(tmp_path)
    path = tmp_path / "replication-offset-checkpoint"
    offsets = {TopicPartition("a", 0): 5}
    directory.write_checkpoint(path.name, offsets, InlineFlusher())
    assert path.read_text() == "0\n1\na 0 5\n"
    path.unlink()
    directory.write_checkpoint(path.name, offsets, InlineFlusher())
    assert not path.exists()
    offsets[TopicPartition("a", 0)] = 6
    directory.write_checkpoint(path.name, offsets, InlineFlusher())
    assert path.exists()


def test_partitions_and_leftovers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    doomed, second = f"gone-0.{'0' * 32}-delete", f"b-0.{'1' * 32}-future"
    future = f"b-0.{'0' * 32}-future"
    for name in ("a-0", doomed, future, second):
        (tmp_path / name).mkdir()
    (tmp_path / "kafkapy-metadata.sqlite").touch()
    found = _directory(tmp_path).list_partitions()
    assert found.partitions == [TopicPartition("a", 0)]
    assert found.futures == {TopicPartition("b", 0): f"{tmp_path}/{future}"}
    assert found.leftovers == [f"{tmp_path}/{second}", f"{tmp_path}/{doomed}"]
    assert f"{tmp_path}/{second} is removed: {tmp_path}/{future} is another copy of it" in caplog.text


@pytest.mark.parametrize("name", ["lost+found", f"lost+found.{'0' * 32}-future", "a-0.1234-future", "a-0-future"])
def test_a_folder_of_no_partition_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ForeignDirectoryError, match=r"is not a partition's folder"):
        _directory(tmp_path).list_partitions()


def test_the_name_of_a_deleted_folder_is_short_enough(tmp_path: Path) -> None:
    directory = _directory(tmp_path)
    name = Path(directory.deleted_path(TopicPartition("t" * 249, 12))).name
    assert len(name) == 255
    assert name.endswith("-delete")
    assert Path(directory.deleted_path(TopicPartition("t", 1))).name.startswith("t-1.")
