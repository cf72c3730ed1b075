"""Two writes of a checkpoint at a time: one in the flusher's thread, one that can't wait for it."""

import errno
from pathlib import Path

import pytest

from kafkapy.platform.files import Files
from kafkapy.platform.flusher import InlineFlusher
from kafkapy.storage.checkpoints import CheckpointFile, OffsetCheckpoint
from kafkapy.types import TopicPartition
from tests.storage.slow_flusher import SlowFlusher

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def file(path: Path) -> CheckpointFile:
    return CheckpointFile(OffsetCheckpoint(Files(), str(path)))


def raised(_error: OSError) -> None:
    raise AssertionError("nothing was refused")


def test_an_empty_checkpoint_is_written_the_first_time(path: Path, file: CheckpointFile) -> None:
    assert file.read() == {}
    file.write({}, InlineFlusher(), raised)
    assert path.read_text() == "0\n0\n"


def test_a_late_write_does_not_replace_a_newer_one(path: Path, file: CheckpointFile) -> None:
    flusher = SlowFlusher()
    file.write({A: 5}, InlineFlusher(), raised)
    file.write({A: 80}, flusher, raised)
    assert file.highest(A) == 80, "it may be on the disk at any moment"
    file.write({A: 10, B: 1}, InlineFlusher(), raised)
    flusher.catch_up()
    assert path.read_text() == "0\n2\na 0 10\nb 1 1\n"
    assert (file.highest(A), file.highest(B), file.highest(TopicPartition("c", 0))) == (10, 1, 0)


def test_the_last_request_wins_even_if_the_file_has_its_content_already(path: Path, file: CheckpointFile) -> None:
    flusher = SlowFlusher()
    file.write({A: 5}, InlineFlusher(), raised)
    file.write({A: 80}, flusher, raised)
    file.write({A: 5}, flusher, raised)
    flusher.catch_up()
    assert path.read_text() == "0\n1\na 0 5\n"
    assert file.highest(A) == 5


def test_a_refused_write_does_not_count_as_written(path: Path, file: CheckpointFile) -> None:
    path.with_name("checkpoint.tmp").mkdir()
    refusals: list[int | None] = []
    file.write({A: 5}, InlineFlusher(), lambda error: refusals.append(error.errno))
    assert refusals == [errno.EISDIR]
    with pytest.raises(IsADirectoryError):
        file.write({A: 5}, InlineFlusher(), None)
    assert file.highest(A) == 0
    path.with_name("checkpoint.tmp").rmdir()
    file.write({A: 5}, InlineFlusher(), raised)
    assert path.exists()
