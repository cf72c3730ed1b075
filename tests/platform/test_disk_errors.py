import errno
import logging
from pathlib import Path

import pytest

from harness.storage.batches import batch
from kafkapy.platform.disk_errors import as_storage_error, is_passing, storage_error
from kafkapy.platform.errors import KafkaStorageError
from tests.storage.support import Failures, open_log


def test_a_failing_log_is_logged_once_until_it_succeeds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            error = storage_error(log, "written", OSError(28, "No space left on device"))
            assert isinstance(error, KafkaStorageError)
        assert [record.message.partition(": ")[2][:40] for record in caplog.records] == [
            "[Errno 28] No space left on device. Clie"
        ]
        log.append_as_leader(batch(), 0)
        storage_error(log, "written", OSError(28, "No space left on device"))
    assert len(caplog.records) == 2


def test_only_the_systems_errors_are_translated(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with (
        pytest.raises(KafkaStorageError, match="orders-0 can't be read: broken") as caught,
        as_storage_error(log, "read"),
    ):
        raise OSError("broken")
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(ValueError, match="other"), as_storage_error(log, "read"):
        raise ValueError("other")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EFBIG])
def test_a_full_disk_does_not_take_the_data_directory_offline(tmp_path: Path, number: int) -> None:
    log = open_log(tmp_path)
    told: list[tuple[str, int | None]] = []
    log.storage.set_owner(Failures(told))
    error = OSError(number, "refused")
    storage_error(log, "written", error)
    assert is_passing(error)
    assert told == []


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), OSError(errno.EROFS, "worn out"), OSError("odd")])
def test_a_broken_disk_is_reported(tmp_path: Path, error: OSError) -> None:
    log = open_log(tmp_path)
    told: list[tuple[str, int | None]] = []
    log.storage.set_owner(Failures(told))
    storage_error(log, "written", error)
    assert told == [(log.directory, error.errno)]
