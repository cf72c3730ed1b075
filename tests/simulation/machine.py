"""The log under test on a disk that dies, and the model beside it; ``test_log`` has the operations."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkapy.config.log_config import LogConfig
from kafkapy.records.errors import RecordBatchTooLargeError
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.storage.log import Log, Storage
from kafkapy.storage.log_directory import LogManager
from kafkapy.testing.clock import ManualClock
from kafkapy.testing.disk import Crashed, SimulatedDisk
from kafkapy.testing.durable import Survival
from tests.simulation.checks import check_against_rebuild, check_indexes, check_memory
from tests.simulation.flusher import SlowFlusher
from tests.simulation.model import Aborted, Change, Model, Stored, stored_in
from tests.storage.support import PARTITION, START_MS, contents

Result = TypeVar("Result")

MEMORY = Path("/dev/shm")  # a file system in memory, where there is one


class Subject:
    """One partition of one broker process after another, all on the same disk."""

    def __init__(self, config: LogConfig, seed: int) -> None:
        self.config = config
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.disk = SimulatedDisk(str(self.directory), seed)
        self.data = self.directory / "data"
        self.now_ms = START_MS
        self.model = Model()
        self.survival: Survival | None = None
        """How the next crash ends the machine; None: only the process dies."""
        self._open()

    def close(self) -> None:
        shutil.rmtree(self.directory)

    # processes

    def _open(self) -> None:
        if hasattr(self, "manager"):
            self.manager.directories.unlock()
        self.clock = ManualClock(self.now_ms)
        self.flusher = SlowFlusher()
        storage = Storage(self.clock, self.disk, self.flusher)
        self.manager = LogManager([str(self.data)], self.config, self.clock, storage=storage)
        self.manager.load(lambda _: self.config)
        self.log: Log = self.manager.get_or_create(PARTITION, self.config)

    def stop(self) -> None:
        """A clean stop and start."""

        def stop_and_start() -> None:
            self.manager.shutdown()
            self._open()

        before = (self.log.log_start_offset, self.log.high_watermark, self.log.log_end_offset)
        if self.attempt(stop_and_start, Change()) is not Died:
            # Not marked as clean when the disk refuses: then the last checkpoints count.
            self.model.check_survivors(self.log, Change(), None)
            if not self.disk.faults:
                after = (self.log.log_start_offset, self.log.high_watermark, self.log.log_end_offset)
                assert after == before, (before, after)
            self.model.take_over(self.log)
            self.check_all()

    def die(self, change: Change) -> None:
        """The process ended in the middle of ``change``; the next one must find what was promised."""
        promised = self.log.durability.data_offset if self.survival else None
        start = self.log.log_start_offset
        while True:
            if self.survival:
                self.disk.cut_power(self.survival)
            else:
                self.disk.restart()
            if self.disk.random.random() < 0.3:  # the new process dies too, while it recovers
                self.disk.crash_after(self.disk.random.randrange(30))
            try:
                self._open()
            except Crashed:
                continue
            break
        self.disk.restart()
        self.model.check_survivors(self.log, change, promised)
        # Without power an older and longer log may be back, that began higher.
        assert self.survival or self.log.log_start_offset <= max(start, change.drops_below)
        self.model.take_over(self.log)
        self.survival = None
        self.check_all()
        self.check_second_start()

    def check_second_start(self) -> None:
        """What one recovery left is what another leaves, but for files that wait for their removal."""
        before = contents(self.data)
        end = self.log.log_end_offset
        self._open()
        assert self.log.log_end_offset == end
        after = contents(self.data)
        changed = [name for name in before | after if after.get(name) != before.get(name)]
        assert all(name.endswith(".deleted") for name in changed), [
            (name, before.get(name), after.get(name)) for name in changed
        ]

    def attempt(self, action: Callable[[], Result], change: Change) -> "Result | type[Died]":
        """Do ``action``; when the process dies in it, start the next one and return ``Died``."""
        try:
            return action()
        except Crashed:
            self.die(change)
            return Died

    # truth

    def check_all(self) -> None:
        """Everything that costs a look at every file."""
        check_memory(self.log)
        check_indexes(self.log)
        assert stored_in(self.log) == self.model.batches
        check_against_rebuild(self.log, has_lost_beginning=self.model.has_lost_beginning)

    def check_offsets(self) -> None:
        """The cheap part, after each step. A data directory that is offline is open to the next process only."""
        if self.manager.directories.offline:
            self.die(Change())
        log, model = self.log, self.model
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (
            model.start,
            model.high_watermark,
            model.end,
        )
        assert model.start <= model.high_watermark <= model.end
        assert log.recovery_point <= log.log_end_offset

    # what several operations share

    def append(self, records: bytearray, append: Callable[[bytearray], object]) -> bool:
        """Append one batch, whose stored bytes the log leaves in ``records``; return whether it is in."""
        change = Change()
        change.adds = Adds(records)
        try:
            result = self.attempt(lambda: append(records), change)
        except RecordBatchTooLargeError:
            assert len(records) > self.config.segment_bytes
            return False
        except KafkaStorageError:
            assert self.disk_is_failing
            # Refused before it was written, or written and not flushed.
            if self.log.log_end_offset != self.model.end:
                self.model.add(bytes(records))
            else:
                self.model.refused.add(bytes(records))
            return False
        if result is Died:
            return False
        self.model.add(bytes(records))
        return True

    @property
    def disk_is_failing(self) -> bool:
        return bool(self.disk.faults)

    def note_aborted(self, producer_id: int, first_offset: int) -> None:
        self.model.aborted.append(Aborted(producer_id, first_offset, self.model.end - 1))


class Died:
    """What ``attempt`` returns when the process died."""


class Adds(set[bytes]):
    """The bytes of a buffer as they are when somebody asks: the log gives a batch its offsets in place."""

    def __init__(self, records: bytearray) -> None:
        super().__init__()
        self._records = records

    def __contains__(self, content: object) -> bool:
        return content == bytes(self._records)


__all__ = ["Died", "Stored", "Subject"]
