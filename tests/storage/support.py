"""Helpers of the tests of the log: a log on a clock that tests advance."""

from pathlib import Path

from harness.storage.batches import PARTITION, START_MS, batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import FileSlice
from kafkapy.records.batch import iterate_headers
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.errors import UnrecalledBatchError
from kafkapy.storage.log.log import AppendResult, Log, NoOwner, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.recovery.recovery import load
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    checkpointed: Checkpointed | None = None,
    *,
    storage: Storage | None = None,
    start: int = 0,
) -> Log:
    """A log in ``directory``, new or of an earlier test step."""
    storage = storage or Storage(ManualClock(START_MS))
    log = Log(PARTITION, str(directory / "orders-0"), config or LogConfig(), storage)
    load(log, checkpointed or Checkpointed(log_start_offset=start))
    return log


def reopen(log: Log, *, clean: bool = True, config: LogConfig | None = None) -> Log:
    """The log after a clean stop and start, or after a crash in which the process lost its memory."""
    if clean:
        log.close()
    else:
        log.release()
    again = Log(log.topic_partition, log.directory, config or log.config, Storage(log.storage.clock))
    load(again, Checkpointed(clean, log.recovery_point, log.log_start_offset, log.high_watermark))
    return again


def append(log: Log, records: bytearray, leader_epoch: int = 0, *, from_client: bool = True) -> AppendResult:
    """Append a batch as Produce does: after a search for earlier batches if that is necessary, and without a pause."""
    try:
        return log.append_as_leader(records, leader_epoch, from_client=from_client)
    except UnrecalledBatchError as error:
        checked = error.checked
    finish(log.recall_batches())
    return log.append_as_leader(checked, leader_epoch, from_client=from_client)


def fill(log: Log, batches: int, count: int = 1, *, value: bytes = b"v" * 100) -> None:
    """Append and commit batches whose timestamps grow by 10 ms."""
    for place in range(batches):
        log.append_as_leader(batch(count, timestamp=START_MS + 10 * place, value=value), 0)
    log.update_high_watermark(log.log_end_offset)


def offsets_of(records: FileSlice | bytes) -> list[int]:
    """The base offset of each batch in ``records``."""
    content = records.read() if isinstance(records, FileSlice) else records
    return [header.base_offset for _, header in iterate_headers(content)]


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below ``directory``, by its relative name."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def crash(manager: LogManager) -> None:
    """Do the system's part when a process is killed: close descriptors and locks, write nothing."""
    for log in manager.all_logs():
        log.release()
    manager.directories.unlock()


class Failures(NoOwner):
    """Adds the path and the number of each error of a failed disk to ``found``."""

    def __init__(self, found: list[tuple[str, int | None]]) -> None:
        self._found = found

    def disk_failed(self, path: str, error: OSError) -> None:
        self._found.append((path, error.errno))
