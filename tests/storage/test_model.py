"""Random operations on a log and on a list: both hold the same records."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.storage.batches import START_MS, batch
from kafkapy.config.log_config import LogConfig
from kafkapy.records.batch import read_header
from kafkapy.records.record import read_records
from kafkapy.storage.log.log import Log
from tests.storage.support import open_log, reopen

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200)
Appended = tuple[int, int, bytes]
"""First offset, count, value."""


class LogMachine(RuleBasedStateMachine):
    log: Log
    batches: list[Appended]

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.log = open_log(self.directory, CONFIG)
        self.batches = []
        self.clock = START_MS

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    @rule(count=st.integers(1, 4), value=st.binary(max_size=400), epoch=st.integers(0, 1))
    def append(self, count: int, value: bytes, epoch: int) -> None:
        self.clock += 10
        epoch = max(self.log.leader_epochs.latest, 0) + epoch
        result = self.log.append_as_leader(batch(count, timestamp=self.clock, value=value), epoch)
        assert result.first_offset == self.end - count
        self.batches.append((result.first_offset, count, value))

    @rule()
    def commit(self) -> None:
        assert self.log.update_high_watermark(self.end) == self.end

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(back=st.integers(0, 6))
    def truncate(self, back: int) -> None:
        kept = self.batches[: len(self.batches) - back]
        offset = max(sum(kept[-1][:2]) if kept else self.log.log_start_offset, self.log.log_start_offset)
        self.log.truncate_to(offset)
        assert self.end == offset
        self.batches = [each for each in self.batches if each[0] + each[1] <= offset]

    @precondition(lambda self: self.log.high_watermark > self.log.log_start_offset)
    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start, high_watermark = self.log.log_start_offset, self.log.high_watermark
        self.log.advance_log_start_offset(start + int(share * (high_watermark - start)))

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        end = self.end
        self.log = reopen(self.log, clean=clean, config=CONFIG)
        assert self.end == end

    @rule(cut=st.integers(1, 500))
    def crash_with_a_torn_tail(self, cut: int) -> None:
        path = Path(self.log.segments.active.log.path)
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(max(size - cut, 0))
        self.log = reopen(self.log, clean=False, config=CONFIG)
        self.batches = [each for each in self.batches if each[0] + each[1] <= self.end]

    @invariant()
    def offsets_are_in_order(self) -> None:
        assert self.log.log_start_offset <= self.log.high_watermark <= self.end
        assert self.log.log_start_offset <= self.log.last_stable_offset <= self.log.high_watermark

    @invariant()
    def every_batch_reads_back(self) -> None:
        for first, count, value in self.batches:
            offset = max(first + count - 1, self.log.log_start_offset)
            if offset >= first + count:
                continue
            content = self.log.read(offset, 1).records
            assert not isinstance(content, bytes)
            whole = content.read()
            header = read_header(whole)
            assert (header.base_offset, header.last_offset, header.size) == (first, first + count - 1, len(whole))
            assert {record.value for record in read_records(whole, header)} == {value}

    @invariant()
    def timestamps_find_the_last_batch(self) -> None:
        visible = [each for each in self.batches if sum(each[:2]) > self.log.log_start_offset]
        if visible:
            latest = max(segment.max_timestamp for segment in self.log.segments if segment.size)
            found = self.log.lookup_timestamp(latest)
            assert found is not None
            assert found.timestamp == latest


LogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLog = LogMachine.TestCase
