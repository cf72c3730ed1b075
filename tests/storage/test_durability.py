import errno
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Descriptor, Files
from kafkapy.platform.portable import Buffer
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from tests.storage.slow_flusher import SlowFlusher
from tests.storage.support import contents, fill, open_log, reopen

ACK = LogConfig(kafkapy_flush="ack")


class Syncs(Files):
    """Records which files were fsynced; files with ``broken`` in their names fail once."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.broken = ""

    def sync_path(self, path: str) -> None:
        name = Path(path).name
        if self.broken and self.broken in name:
            self.broken = ""
            raise OSError(errno.ENOSPC, "no room", path)
        super().sync_path(path)
        self.names.append(name)

    def take(self) -> list[str]:
        names, self.names = self.names, []
        return names


def _open(path: Path, config: LogConfig | None = None) -> tuple[Log, SlowFlusher, Syncs]:
    flusher, files = SlowFlusher(), Syncs()
    log = open_log(path, config, storage=Storage(ManualClock(START_MS), files, flusher))
    flusher.close()
    files.take()
    return log, flusher, files


def _append(log: Log, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_leader(batch(), 0)


def test_a_roll_makes_the_segment_before_durable_later(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path)
    fill(log, 3)
    log.roll()
    assert (log.recovery_point, files.take()) == (0, [])
    flusher.catch_up()
    stem = "00000000000000000000"
    assert log.recovery_point == log.durability.data_offset == 3
    assert files.take() == [
        f"{stem}.log", "orders-0", tmp_path.name, f"{stem}.index", f"{stem}.timeindex",
        "leader-epoch-checkpoint", "00000000000000000003.snapshot",
    ]  # fmt: skip


def test_requests_during_an_fsync_share_the_next_one(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path)
    for _ in range(4):
        fill(log, 1)
        log.roll()
    assert len(flusher.waiting) == 1
    flusher.catch_up()
    assert (log.recovery_point, len(flusher.waiting)) == (1, 1)
    assert [name for name in files.take() if name.endswith(".log")] == [f"{0:020d}.log"]
    flusher.catch_up()
    assert (log.recovery_point, len(flusher.waiting)) == (4, 0)
    assert [name for name in files.take() if name.endswith(".log")] == [f"{base:020d}.log" for base in (1, 2, 3)]


def test_flush_messages_is_done_beside_the_loop_and_owed(tmp_path: Path) -> None:
    log, flusher, _ = _open(tmp_path, LogConfig(flush_messages=3))
    told: list[int] = []
    log.durability.listener = lambda: told.append(log.recovery_point)
    _append(log, 2)
    assert (log.durability.is_owing, log.durability.settled_end_offset) == (False, 2)
    _append(log, 2)
    assert (log.durability.is_owing, log.durability.settled_end_offset, len(flusher.waiting)) == (True, 0, 1)
    assert [log.durability.is_settled(end) for end in (3, 4)] == [False, True]
    flusher.catch_up()
    assert (told, log.recovery_point, log.durability.is_owing) == ([3], 3, False)
    assert (log.durability.settled_end_offset, len(flusher.waiting)) == (4, 0)
    _append(log, 1)
    assert not flusher.waiting
    _append(log, 1)
    flusher.catch_up()
    assert log.recovery_point == 6


def test_what_stays_after_a_truncation_is_flushed_again_if_it_was_owed(tmp_path: Path) -> None:
    """Otherwise a leader's high watermark would stay at the start of the segment that was cut."""
    log, flusher, _ = _open(tmp_path, LogConfig(flush_messages=3))
    _append(log, 3)
    flusher.catch_up()
    assert (log.recovery_point, log.durability.is_owing) == (3, False)
    log.truncate_to(2)
    assert (log.durability.is_owing, log.durability.settled_end_offset, len(flusher.waiting)) == (True, 0, 1)
    flusher.catch_up()
    assert (log.durability.is_owing, log.durability.settled_end_offset, log.recovery_point) == (False, 2, 2)
    _append(log, 1)
    assert (log.durability.settled_end_offset, len(flusher.waiting)) == (3, 0)
    log.truncate_to(0)
    assert (log.durability.is_owing, log.durability.settled_end_offset) == (False, 0)


def test_a_truncation_that_nothing_waits_for_begins_no_flush(tmp_path: Path) -> None:
    log, flusher, _ = _open(tmp_path)
    _append(log, 3)
    log.truncate_to(2)
    assert (log.durability.is_owing, len(flusher.waiting)) == (False, 0)


def test_before_the_acknowledgement_only_the_log_is_fsynced_once_for_many(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path, ACK)
    _append(log)
    flusher.catch_up()
    assert files.take() == ["00000000000000000000.log", "orders-0", tmp_path.name]
    assert (log.durability.data_offset, log.recovery_point, log.durability.is_owing) == (1, 0, True)
    _append(log, 5)
    assert (len(flusher.waiting), log.durability.settled_end_offset, log.durability.is_settled(2)) == (1, 1, False)
    flusher.catch_up()
    # The fsync that was asked for by the second append began before it knew of the others.
    assert (log.durability.data_offset, log.durability.is_settled(3), len(flusher.waiting)) == (2, False, 1)
    flusher.catch_up()
    assert (log.durability.settled_end_offset, len(flusher.waiting)) == (6, 0)
    assert files.take() == ["00000000000000000000.log"] * 2
    log.roll()
    _append(log)
    flusher.close()
    assert (log.durability.data_offset, log.recovery_point) == (7, 6)
    assert files.take()[-3:] == ["00000000000000000006.log", "orders-0", tmp_path.name]


def test_records_in_the_log_become_owed_when_flush_is_set_to_ack(tmp_path: Path) -> None:
    log, flusher, _ = _open(tmp_path)
    _append(log, 3)
    log.update_config(ACK)
    assert log.durability.settled_end_offset == 0
    log.update_config(LogConfig())
    assert log.durability.is_owing
    flusher.catch_up()
    assert (log.durability.is_owing, log.durability.settled_end_offset) == (False, 3)
    again, flusher, _ = _open(tmp_path, ACK)
    again.durability.sync_if_configured()
    assert again.durability.data_offset == 3


def test_after_a_failed_fsync_no_mark_moves_before_all_was_written_again(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path)
    for broken in (True, False, False):
        fill(log, 50)
        files.broken = "00000000000000000000.log" if broken else ""
        log.roll()
        written: list[str] = []
        flusher.catch_up()
        assert log.recovery_point == (0 if broken else log.segments.active.base_offset), written
        assert not flusher.waiting
    assert [name for name in files.take() if name.endswith(".log")] == [f"{base:020d}.log" for base in (0, 50, 100)]


def test_an_fsync_planned_before_another_failed_moves_no_mark(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path, LogConfig(flush_messages=1))
    _append(log)
    files.broken = ".log"
    with pytest.raises(OSError, match="no room"):
        log.flush()
    assert len(flusher.waiting) == 1
    flusher.catch_up()  # this one succeeds without the pages that the other has lost
    assert (log.durability.data_offset, log.recovery_point, log.durability.is_settled(1)) == (0, 0, False)
    flusher.catch_up()  # and this one has written them again
    assert (log.durability.data_offset, log.recovery_point, log.durability.is_settled(1)) == (1, 1, True)


def test_a_failed_fsync_is_logged_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, flusher, files = _open(tmp_path, ACK)
    told: list[int] = []
    log.durability.listener = lambda: told.append(log.durability.data_offset)
    files.broken = ".log"
    log.append_as_leader(produced(0), 0)
    flusher.catch_up()
    assert (told, len(flusher.waiting), log.durability.settled_end_offset) == ([0], 0, 0)
    with pytest.raises(KafkaStorageError, match="can't be made durable"):
        log.durability.is_settled(1)
    assert caplog.text.count("can't be made durable") == 1
    assert log.append_as_leader(produced(0), 0).duplicate
    assert not log.durability.is_settled(1)
    flusher.catch_up()
    assert (told, log.durability.is_settled(1), log.recovery_point) == ([0, 1], True, 1)
    assert not flusher.waiting


def test_appends_during_a_failed_fsync_are_refused_with_it(tmp_path: Path) -> None:
    """Perhaps no other fsync is requested: a waiting request would wait until it times out."""
    log, flusher, files = _open(tmp_path, ACK)
    told: list[bool] = []

    def look() -> None:
        with pytest.raises(KafkaStorageError, match="can't be made durable"):
            told.append(log.durability.is_settled(3))

    log.durability.listener = look
    files.broken = ".log"
    _append(log)
    _append(log, 2)
    flusher.catch_up()
    assert (told, len(flusher.waiting)) == ([], 0)
    log.durability.listener = None
    log.durability.resume()
    flusher.catch_up()
    assert log.durability.is_settled(3)


def test_a_slow_fsync_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, flusher, _ = _open(tmp_path, ACK)
    clock = log.storage.clock
    assert isinstance(clock, ManualClock)
    _append(log)
    log.durability.resume()
    clock.advance(12_000)
    log.durability.resume()
    clock.advance(3_000)
    flusher.catch_up()
    _append(log)
    flusher.catch_up()
    said = [record.getMessage().partition("orders-0 ")[2] for record in caplog.records]
    assert [text.partition(":")[0] for text in said] == ["is not done after 12 s", "took 15 s"]


def test_an_fsync_that_raises_another_exception_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, flusher, files = _open(tmp_path, ACK)

    def faulty(_path: str) -> None:
        raise ValueError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(files, "sync_path", faulty)
        _append(log)
        work, done = flusher.waiting.popleft()
        with pytest.raises(ValueError, match="a fault"):
            work()
        done()
    with pytest.raises(KafkaStorageError, match="the fsync has not ended"):
        log.durability.is_settled(1)
    log.durability.resume()
    flusher.catch_up()
    assert log.durability.is_settled(1)


def test_indexes_that_a_full_disk_refuses_are_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, flusher, files = _open(tmp_path, LogConfig(flush_messages=100, index_interval_bytes=0))

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", refused)
        _append(log, 100)
    assert (log.recovery_point, len(flusher.waiting)) == (0, 0)
    with pytest.raises(KafkaStorageError, match="can't be made durable"):
        log.durability.is_settled(100)
    log.durability.resume()
    flusher.catch_up()
    assert (log.recovery_point, log.durability.is_settled(100)) == (100, True)
    log.durability.resume()
    assert not flusher.waiting


def test_a_flush_that_runs_during_a_truncation_is_ignored(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path, ACK)
    _append(log, 10)
    log.truncate_to(5)
    assert log.durability.settled_end_offset == 0
    _append(log, 1)
    flusher.catch_up()
    assert log.durability.data_offset == 0
    flusher.close()
    assert log.durability.data_offset == 6
    files.broken = ".log"
    _append(log, 1)
    flusher.catch_up()
    _append(log, 1)
    log.truncate_to(7)
    flusher.close()
    assert (log.durability.data_offset, log.durability.settled_end_offset) == (7, 7)


def test_a_close_writes_the_bytes_of_a_failed_fsync_again(tmp_path: Path) -> None:
    config = LogConfig(flush_messages=10, index_interval_bytes=0)
    log, flusher, files = _open(tmp_path, config)
    _append(log, 10)
    work, done = flusher.waiting.popleft()
    files.broken = ".log"
    work()  # in the flusher's thread, while the broker stops: the result is ignored
    before = contents(tmp_path)
    rewritten: list[int] = []
    real_write = files.write_at

    def write_at(descriptor: Descriptor, data: Buffer, position: int) -> None:
        rewritten.append(position)
        real_write(descriptor, data, position)

    files.write_at = write_at  # type: ignore[method-assign]  # looks what is written
    log.close()
    assert rewritten.count(0) >= 2
    assert log.recovery_point == 10
    done()
    assert not flusher.waiting
    after = contents(tmp_path)
    assert after["orders-0/00000000000000000000.log"] == before["orders-0/00000000000000000000.log"]
    assert reopen(log).log_end_offset == 10


def test_flush_raises_the_error_of_the_disk(tmp_path: Path) -> None:
    log, _, files = _open(tmp_path)
    log.flush()
    _append(log)
    files.broken = ".timeindex"
    with pytest.raises(OSError, match="no room"):
        log.flush()
    assert (log.recovery_point, log.durability.data_offset) == (0, 0)
    log.flush()
    assert (log.recovery_point, log.durability.unflushed) == (1, 0)


@pytest.mark.parametrize("made_again", [False, True])
def test_a_flush_of_a_deleted_log_changes_no_file(tmp_path: Path, *, made_again: bool) -> None:
    clock, flusher = ManualClock(START_MS), SlowFlusher()
    manager = LogManager([str(tmp_path)], LogConfig(), clock, storage=Storage(clock, flusher=flusher))
    load_logs(manager)
    log = manager.get_or_create(PARTITION, LogConfig(flush_messages=1, index_interval_bytes=0))
    flusher.close()
    _append(log, 3)
    assert len(flusher.waiting) == 1, "the second and the third wait for the first"
    manager.delete(PARTITION)
    if made_again:
        manager.get_or_create(PARTITION)
    before = contents(tmp_path)
    flusher.close()
    clock.advance(0)
    assert contents(tmp_path) == before
    assert manager.directories.offline == []


def test_rewriting_ends_when_the_log_is_deleted(tmp_path: Path) -> None:
    log, flusher, files = _open(tmp_path, ACK)
    _append(log)
    files.broken = ".log"
    flusher.catch_up()
    _append(log)
    running = log.durability._running
    assert running is not None
    rewriting = running.rewriting
    assert rewriting is not None
    log.release()
    assert rewriting.is_cancelled
    flusher.close()
    assert log.durability.data_offset == 0
