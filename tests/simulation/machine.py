"""The log under test on a disk that can crash, and the model beside it; ``test_log`` has the operations."""

import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from harness.storage.batches import PARTITION, START_MS
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import MAGIC, assign
from kafkapy.records.errors import CorruptRecordError, RecordBatchTooLargeError
from kafkapy.records.validate import validate_produced
from kafkapy.storage.compaction.cleaner import LogCleaner
from kafkapy.storage.compaction.compaction import batches_in
from kafkapy.storage.data_directory import CLEAN_SHUTDOWN_NAME
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.producer_state import encode_snapshot
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from tests.simulation.checks import check_against_rebuild, check_indexes, check_memory, check_resent
from tests.simulation.disk import Crashed, SimulatedDisk
from tests.simulation.durable import Survival
from tests.simulation.flusher import SlowFlusher
from tests.simulation.model import Aborted, Change, Model, Stored, stored_in
from tests.storage.compacting import InlinePool
from tests.storage.support import contents, crash

Result = TypeVar("Result")

BROKER = BrokerConfig.from_properties(
    {
        "broker.id": "0",
        "log.dirs": "none",
        "log.cleaner.backoff.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "1100000",
        "log.cleaner.io.buffer.size": "1024",
    }
)

MAX_OPEN_FILES = 20  # the files of a dead log are closed only when Python collects it

MEMORY = Path("/dev/shm")  # a file system in memory, where there is one


class Subject:
    """One partition of one broker process after another, all on the same disk."""

    def __init__(self, config: LogConfig, seed: int, *, is_alone: bool) -> None:
        """``is_alone``: there are no followers, so that each append is committed at once."""
        self.is_alone = is_alone
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.disk = SimulatedDisk(str(self.directory), seed, MAX_OPEN_FILES, self._clock_ms)
        self.data = self.directory / "data"
        self.now_ms = START_MS
        self.model = Model()
        self.use(config)
        self.unsafe_from: int | None = None
        """A process was killed after an fsync had failed: records from this offset on may be in memory only."""
        self.may_drop_below = 0
        """Batches below this offset may be gone: retention may delete them and fail afterwards."""
        self.survival: Survival | None = None
        """The changes that survive when the next crash ends the machine; None: only the process is killed."""
        self._open()

    def close(self) -> None:
        crash(self.manager)
        shutil.rmtree(self.directory)

    def use(self, config: LogConfig) -> None:
        """The topic's configuration from now on."""
        self.config = config
        self.model.has_old_formats |= config.message_format < MAGIC
        self.model.deletes_go |= not config.delete_retention_ms

    # processes

    def _open(self) -> None:
        if hasattr(self, "manager"):
            crash(self.manager)
        self.clock = ManualClock(self.now_ms)
        self.flusher = SlowFlusher()
        storage = Storage(self.clock, self.disk, self.flusher)
        self.manager = LogManager([str(self.data)], self.config, self.clock, storage=storage)
        load_logs(self.manager, lambda _: self.config)
        self.log: Log = self.manager.get_or_create(PARTITION, self.config)
        self.posted: deque[Callable[[], object]] = deque()
        self.pool = InlinePool(self.disk)
        self.pool.is_held = True
        self.cleaner = LogCleaner(self.manager, BROKER, self.posted.append, lambda _: self.pool)
        self.cleaner.start()

    def stop(self) -> None:
        """A clean stop and start."""

        def stop_and_start() -> None:
            self.cleaner.stop()
            self.manager.shutdown()
            self._open()

        before = (self.log.log_start_offset, self.log.high_watermark, self.log.log_end_offset)
        if self.attempt(stop_and_start, Change()) is not Died:
            # After an error of the disk the stop is not marked as clean: then the last checkpoints are used.
            self.model.check_survivors(self.log, Change(), None)
            if not self.disk.faults:
                after = (self.log.log_start_offset, self.log.high_watermark, self.log.log_end_offset)
                assert after == before, (before, after)
            self.model.take_over(self.log)
            self.check_all()

    def die(self, change: Change) -> None:
        """The process ended during ``change``; the next one must find all that was guaranteed."""
        promised = self._promised() if self.survival else None
        change.drops_below, self.may_drop_below = max(change.drops_below, self.may_drop_below), 0
        start = max(self.log.log_start_offset, self.model.start)  # a truncation lowers it before it cuts files
        while True:
            if self.survival:
                self.disk.cut_power(self.survival)
            else:
                self.disk.restart()
            if self.disk.random.random() < 0.3:  # the new process is killed too, while it recovers
                self.disk.crash_after(self.disk.random.randrange(30))
            was_clean = (self.data / CLEAN_SHUTDOWN_NAME).exists()
            try:
                self._open()
            except Crashed:
                continue
            break
        self.disk.restart()
        self._repair_damage()
        known = self.log.recovery_point if self.unsafe_from is None else min(self.log.recovery_point, self.unsafe_from)
        self.unsafe_from = known if self.disk.has_forfeited and not self.config.flush_before_ack else None
        self.model.check_survivors(self.log, change, promised)
        # After a power cut an older and longer log may be back, with a higher start.
        assert self.survival or self.log.log_start_offset <= max(start, change.drops_below)
        self.model.take_over(self.log)
        self.survival = None
        self.check_all()
        if was_clean:
            self._open()  # the first one to look into the files, and to know more of a producer than its last batch
        check_resent(self.log, self.model.batches)
        self.check_second_start()

    def _repair_damage(self) -> None:
        """Read all segments and cut damage: an fsync may have failed in an earlier process, and the bytes be lost."""
        with suppress(CorruptRecordError):
            stored_in(self.log)
            return
        assert self.survival
        assert self.unsafe_from is not None
        self.log.recovery_point = 0
        finish(self.manager.checkpoint_recovery_points())
        self.flusher.catch_up()
        self._open()

    def _promised(self) -> int:
        data_offset = self.log.durability.data_offset
        return data_offset if self.unsafe_from is None else min(data_offset, self.unsafe_from)

    def check_second_start(self) -> None:
        """A second recovery changes no file of the first, except files that wait for their removal, and snapshots.

        Segments that are read again get new snapshots, perhaps at other offsets.
        """
        before = contents(self.data)
        known = self._producers(), self.log.log_end_offset
        self._open()
        assert (self._producers(), self.log.log_end_offset) == known
        after = contents(self.data)
        changed = [name for name in before | after if after.get(name) != before.get(name)]
        assert all(name.endswith((".deleted", ".snapshot")) for name in changed), [
            (name, before.get(name), after.get(name)) for name in changed
        ]

    def _producers(self) -> list[bytes]:
        return [encode_snapshot([entry]) for _, entry in sorted(self.log.producer_state.producers.items())]

    def attempt(self, action: Callable[[], Result], change: Change) -> "Result | type[Died]":
        """Do ``action``; when the process is killed in it, start the next one and return ``Died``."""
        self.model.stable = self.log.last_stable_offset
        try:
            return action()
        except Crashed:
            self.die(change)
            return Died

    # compaction

    @property
    def retention_bound(self) -> int:
        """The offset below which retention may delete batches."""
        return self.model.high_watermark if self.config.delete else self.model.start

    def retain(self, action: Callable[[], object]) -> None:
        """Do ``action``, which may delete old segments."""
        self.may_drop_below = self.retention_bound if self.disk_is_failing else 0
        action()

    def clean(self, steps: int) -> None:
        """Let the cleaner choose a log; the worker, the disk and the broker do ``steps`` of the work, in any order."""
        self.retain(lambda: self.pass_time(int(BROKER["log.cleaner.backoff.ms"])))
        for _ in range(steps):
            due = [
                *[job.run for job in self.pool.jobs if not job.future.done()],
                *([self._hear] if self.posted else []),
                *([lambda: self.flusher.catch_up(1)] if self.flusher.waiting else []),
            ]
            if not due:
                break
            self.disk.random.choice(due)()

    def _hear(self) -> None:
        self.posted.popleft()()

    def _clock_ms(self) -> int:
        return self.clock.now_ms()

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.clock.advance(duration_ms)

    # checks

    def check_all(self) -> None:
        """Do the checks that read every file."""
        check_memory(self.log, has_old_formats=self.model.has_old_formats)
        check_indexes(self.log)
        assert stored_in(self.log) == self.model.batches
        model = self.model
        check_against_rebuild(self.log, has_lost_beginning=model.has_lost_beginning, is_compacted=model.is_compacted)

    def check_offsets(self) -> None:
        """Do the fast checks, after each step, unless the data directory is offline until the next process."""
        if self.manager.directories.offline:
            self.die(Change())
        log, model = self.log, self.model
        found = (log.log_start_offset, log.high_watermark, log.log_end_offset)
        assert found == (model.start, model.high_watermark, model.end), (found, model.batches[-3:])
        assert model.start <= model.high_watermark <= model.end
        assert log.recovery_point <= log.log_end_offset
        assert self.disk_is_failing or not self.cleaner.uncleanable

    # shared by several operations

    def append_as_leader(self, batch: bytearray, leader_epoch: int, *, from_client: bool = True) -> bool:
        """Append a producer's batch; return whether it was appended."""
        log = self.log
        end_offset = log.log_end_offset
        valid = validate_produced(
            bytearray(batch), log.policy, self.clock.now_ms(), from_client=from_client, first_offset=end_offset
        )
        expected = bytearray(valid.buffer)
        if valid.header.magic == MAGIC:
            assign(expected, 0, end_offset, leader_epoch)
        return self._append(expected, lambda: log.append_as_leader(batch, leader_epoch, from_client=from_client))

    def append_as_follower(self, batches: bytes) -> bool:
        """Append a leader's batches; return whether they were appended."""
        return self._append(batches, lambda: self.log.append_as_follower(batches))

    def _append(self, expected: bytes | bytearray, append: Callable[[], object]) -> bool:
        contents = [bytes(content) for _, content in batches_in(memoryview(expected))]
        try:
            result = self.attempt(append, Change(adds=set(contents)))
        except RecordBatchTooLargeError:
            assert len(expected) > self.config.segment_bytes
            return False
        except KafkaStorageError:
            assert self.disk_is_failing
            # Refused before it was written, or written and not flushed.
            if self.log.log_end_offset != self.model.end:
                self.model.add(contents)
            else:
                self.model.refused.update(contents)
            return False
        if result is Died:
            return False
        self.model.add(contents)
        if self.is_alone:
            self.commit(self.model.end)
        return True

    def commit(self, offset: int) -> None:
        """Move the high watermark."""
        self.model.high_watermark = offset
        assert self.log.update_high_watermark(offset) == offset

    @property
    def disk_is_failing(self) -> bool:
        return bool(self.disk.faults)

    def note_aborted(self, producer_id: int, first_offset: int) -> None:
        self.model.aborted.append(Aborted(producer_id, first_offset, self.model.end - 1))


class Died:
    """The result of ``attempt`` when the process was killed."""


__all__ = ["Died", "Stored", "Subject"]
