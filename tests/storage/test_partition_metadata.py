"""``partition.metadata``: the id of the topic that a directory belongs to."""

import errno
import logging
from pathlib import Path
from uuid import UUID

import pytest

from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.errors import InconsistentTopicIdError
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.partition_metadata import (
    PARTITION_METADATA_NAME,
    decode_partition_metadata,
    encode_partition_metadata,
)
from kafkapy.storage.recovery.recovery import load
from kafkapy.testing.clock import ManualClock
from kafkapy.types import NO_TOPIC_ID, TopicPartition
from tests.replication.logs import batch

ID = UUID("3527f443-ca90-4ab9-bb49-e26c6a5b2ea6")
OTHER = UUID(int=7)
CONTENT = b"version: 0\ntopic_id: NSf0Q8qQSrm7SeJsalsupg"
"""As Apache Kafka 3.9.1 writes it."""


def opened(path: Path, *, keeps_topic_ids: bool = True, files: Files | None = None) -> Log:
    storage = Storage(ManualClock(), files or Files(), keeps_topic_ids=keeps_topic_ids)
    log = Log(TopicPartition("t", 0), str(path / "t-0"), LogConfig(), storage)
    load(log, Checkpointed(clean=True))
    return log


def test_the_file_is_that_of_apache_kafka() -> None:
    assert encode_partition_metadata(ID) == CONTENT
    assert decode_partition_metadata(CONTENT) == decode_partition_metadata(CONTENT + b"\n") == ID
    assert decode_partition_metadata(CONTENT.replace(b": 0", b": 1") + b"\nlater: 1\n") == ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0",
        CONTENT.replace(b": 0", b": -1"),
        CONTENT.replace(b": 0", b": x"),
        b"version 0 0\ntopic_id: AA",
        b"version: 0\ntopic_id: AA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"\xff\n\xff",
    ],
)
def test_a_damaged_file_counts_as_missing_and_is_written_again(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path).release()
    path = tmp_path / "t-0" / PARTITION_METADATA_NAME
    path.write_bytes(content)
    log = opened(tmp_path)
    assert log.topic_id == NO_TOPIC_ID
    assert "is damaged" in caplog.text
    log.assign_topic_id(ID)
    assert path.read_bytes() == CONTENT


def test_an_id_stays(tmp_path: Path) -> None:
    log = opened(tmp_path)
    path = tmp_path / "t-0" / PARTITION_METADATA_NAME
    log.assign_topic_id(NO_TOPIC_ID)
    assert not path.exists()
    log.assign_topic_id(ID)
    log.assign_topic_id(ID)
    log.append_as_leader(batch(), 0)
    assert str(path) in log.paths_to_sync(1, 0)
    with pytest.raises(InconsistentTopicIdError, match="earlier topic"):
        log.assign_topic_id(OTHER)
    log.close()
    assert path.read_bytes() == CONTENT
    assert opened(tmp_path).topic_id == ID


def test_a_cluster_without_ids_keeps_no_file(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.assign_topic_id(ID)
    log.close()
    assert opened(tmp_path, keeps_topic_ids=False).topic_id == NO_TOPIC_ID
    assert not (tmp_path / "t-0" / PARTITION_METADATA_NAME).exists()


class RefusingFiles(Files):
    """A disk that refuses ``partition.metadata`` with ``code``, while it is set."""

    code = 0

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        if self.code and path.endswith(PARTITION_METADATA_NAME):
            raise OSError(self.code, "refused")
        super().replace(path, data, sync=sync)


def test_a_full_disk_gets_the_file_at_the_next_flush(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = RefusingFiles()
    log = opened(tmp_path, files=files)
    files.code = errno.ENOSPC
    with caplog.at_level(logging.WARNING):
        log.assign_topic_id(ID)
    assert "can't be written now" in caplog.text
    assert log.topic_id == ID
    log.append_as_leader(batch(), 0)
    files.code = 0
    log.flush()
    assert (tmp_path / "t-0" / PARTITION_METADATA_NAME).read_bytes() == CONTENT


def test_a_broken_disk_refuses_the_id(tmp_path: Path) -> None:
    files = RefusingFiles()
    log = opened(tmp_path, files=files)
    files.code = errno.EIO
    with pytest.raises(KafkaStorageError):
        log.assign_topic_id(ID)
