import logging
from pathlib import Path

import pytest

from kafkapy.storage.disk_errors import as_storage_error, storage_error
from kafkapy.storage.errors import KafkaStorageError
from tests.storage.support import batch, open_log


def test_a_failing_log_says_so_once_until_it_is_well_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
