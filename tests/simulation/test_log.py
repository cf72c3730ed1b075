"""Random operations on a log whose process and disk may die at each of them, against a list of batches.

The ordinary run tries the same few histories each time; ``KAFKAPY_SIMULATIONS`` asks for that many others (``make
simulate``: thousands).
"""

import errno
import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkapy.config.log_config import LogConfig
from kafkapy.config.own_keys import FLUSH_AS_KAFKA, FLUSH_BEFORE_ACK
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.storage.producer_entry import NO_OFFSET
from kafkapy.testing.disk import CHANGES, Fault
from kafkapy.testing.durable import Survival
from tests.simulation.machine import Died, Subject
from tests.simulation.model import Change
from tests.storage.support import START_MS, marker

HISTORIES = int(os.environ.get("KAFKAPY_SIMULATIONS", "0"))
STEPS = int(os.environ.get("KAFKAPY_SIMULATION_STEPS", "40"))

PHASES = [Phase.explicit, Phase.reuse, Phase.generate] + (
    [] if "KAFKAPY_NO_SHRINKING" in os.environ else [Phase.shrink]
)

CONFIGS = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([400, 1000, 3000]),
    index_interval_bytes=st.sampled_from([0, 100, 700]),
    flush_messages=st.sampled_from([1, 5, 2**63 - 1]),
    file_delete_delay_ms=st.sampled_from([0, 1000]),
    kafkapy_flush=st.sampled_from([FLUSH_AS_KAFKA, FLUSH_BEFORE_ACK]),
    retention_bytes=st.sampled_from([-1, -1, 500, 2000]),
    retention_ms=st.sampled_from([-1, -1, 50]),
)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(max_size=12), st.sampled_from([b"x" * 90, b"y" * 250]))
RECORDS = st.lists(st.tuples(KEYS, VALUES, st.integers(-30, 30)), min_size=1, max_size=4)
PRODUCERS = st.integers(1, 3)


class LogSimulation(RuleBasedStateMachine):
    @initialize(config=CONFIGS, seed=st.integers(0, 2**32))
    def begin(self, config: LogConfig, seed: int) -> None:
        self.subject = Subject(config, seed)
        self.time = START_MS

    def teardown(self) -> None:
        if hasattr(self, "subject"):
            self.subject.close()

    # writing

    def _encoded(self, records: list[tuple[bytes, bytes | None, int]], **fields: int | bool) -> bytearray:
        self.time += 10
        listed = [Record(key, value, self.time + delta) for key, value, delta in records]
        return bytearray(encode_batch(listed, **fields))  # type: ignore[arg-type]  # ints and bools

    def _epoch(self, more: int = 0) -> int:
        return max(self.subject.log.leader_epochs.latest, 0) + more

    @rule(records=RECORDS, compression=st.sampled_from([0, 0, 0, 1, 2, 3, 4]), new_epoch=st.integers(0, 1))
    def append(self, records: list[tuple[bytes, bytes | None, int]], compression: int, new_epoch: int) -> None:
        epoch = self._epoch(new_epoch)
        batch = self._encoded(records, compression=compression)
        self.subject.append(batch, lambda content: self.subject.log.append_as_leader(content, epoch))

    @rule(records=RECORDS, gap=st.sampled_from([0, 0, 1, 7, 2**31 - 1, 2**31]))
    def append_as_follower(self, records: list[tuple[bytes, bytes | None, int]], gap: int) -> None:
        batch = self._encoded(records, base_offset=self.subject.model.end + gap, partition_leader_epoch=self._epoch())
        self.subject.append(batch, self.subject.log.append_as_follower)

    @rule(records=RECORDS, producer_id=PRODUCERS, transactional=st.booleans(), new_epoch=st.booleans())
    def append_as_producer(
        self, records: list[tuple[bytes, bytes | None, int]], producer_id: int, transactional: bool, new_epoch: bool
    ) -> None:
        log = self.subject.log
        entry = log.producer_state.producers.get(producer_id)
        epoch, sequence = (entry.producer_epoch, entry.last_sequence + 1) if entry else (0, 0)
        has_open = entry is not None and entry.current_txn_first_offset != NO_OFFSET
        if new_epoch and not has_open:
            epoch, sequence = epoch + 1, 0
        batch = self._encoded(
            records,
            producer_id=producer_id,
            producer_epoch=max(epoch, 0),
            base_sequence=sequence,
            is_transactional=transactional or has_open,
        )
        again = bytearray(batch)
        if self.subject.append(batch, lambda content: self.subject.log.append_as_leader(content, self._epoch())):
            result = self.subject.log.append_as_leader(again, self._epoch())
            assert result.duplicate
            assert result.first_offset == self.subject.model.end - len(records)

    @rule(producer_id=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        entry = self.subject.log.producer_state.producers.get(producer_id)
        if entry is None or entry.current_txn_first_offset == NO_OFFSET:
            return
        first_offset = entry.current_txn_first_offset
        batch = marker(commit=commit, producer_id=producer_id, epoch=entry.producer_epoch)
        append = lambda content: self.subject.log.append_as_leader(content, self._epoch(), from_client=False)  # noqa: E731
        if self.subject.append(batch, append) and not commit:
            self.subject.note_aborted(producer_id, first_offset)

    @rule()
    def roll(self) -> None:
        self._maintain(self.subject.log.roll)

    def _maintain(self, action: Callable[[], object], change: Change | None = None) -> bool:
        """What adds nothing, and may be refused by the disk; return whether it was done."""
        try:
            return self.subject.attempt(action, change or Change()) is not Died
        except (OSError, KafkaStorageError):
            assert self.subject.disk_is_failing
            return False

    # moving the ends

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        model = self.subject.model
        offset = model.high_watermark + round(share * (model.end - model.high_watermark))
        model.high_watermark = offset
        assert self.subject.log.update_high_watermark(offset) == offset

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        model = self.subject.model
        offset = model.start + round(share * (model.high_watermark - model.start))
        if self._maintain(lambda: self.subject.log.advance_log_start_offset(offset), Change(drops_below=offset)):
            model.start = offset

    @precondition(lambda self: self.subject.model.batches and not self.subject.disk_is_failing)
    @rule(back=st.integers(0, 8))
    def truncate(self, back: int) -> None:
        model = self.subject.model
        ends = [each.first_offset for each in model.batches]
        offset = ends[-min(back, len(ends))] if back else model.end
        if self.subject.attempt(lambda: self.subject.log.truncate_to(offset), Change(keeps_below=offset)) is not Died:
            model.truncate(offset)

    @precondition(lambda self: not self.subject.disk_is_failing)
    @rule(offset=st.integers(-20, 20))
    def truncate_fully(self, offset: int) -> None:
        model = self.subject.model
        start = max(model.end + offset, 0)
        action = lambda: self.subject.log.truncate_fully_and_start_at(start)  # noqa: E731
        if self.subject.attempt(action, Change(keeps_below=0, drops_below=start)) is not Died:
            model.restart_at(start)

    @rule()
    def enforce_retention(self) -> None:
        log, model = self.subject.log, self.subject.model
        # The oldest segments below the high watermark may go, all of them or some; nothing else.
        if self._maintain(self.subject.manager.enforce_retention, Change(drops_below=model.high_watermark)):
            model.dropped_to(log)

    # upkeep

    @rule()
    def flush(self) -> None:
        if self._maintain(self.subject.log.flush) and not self.subject.disk_is_failing:
            assert self.subject.log.recovery_point == self.subject.model.end

    @rule(most=st.integers(1, 3))
    def the_disk_catches_up(self, most: int) -> None:
        self._maintain(lambda: self.subject.flusher.catch_up(most))

    @rule(which=st.integers(0, 2))
    def checkpoint(self, which: int) -> None:
        manager = self.subject.manager
        self._maintain(
            [
                manager.checkpoint_recovery_points,
                manager.checkpoint_high_watermarks,
                manager.checkpoint_log_start_offsets,
            ][which]
        )

    @rule(duration_ms=st.sampled_from([1, 2000]))
    def time_passes(self, duration_ms: int) -> None:
        self.subject.now_ms += duration_ms
        self._maintain(lambda: self.subject.clock.advance(duration_ms))

    @rule(config=CONFIGS)
    def configure(self, config: LogConfig) -> None:
        self.subject.config = config
        self.subject.log.update_config(config)

    # ends

    @precondition(lambda self: not self.subject.disk_is_failing)
    @rule()
    def stop_and_start(self) -> None:
        self.subject.stop()

    @rule(survival=st.sampled_from([None, *Survival]), changes=st.integers(0, 25))
    def a_crash_is_near(self, survival: Survival | None, changes: int) -> None:
        self.subject.survival = survival
        self.subject.disk.crash_after(changes)

    @rule(survival=st.sampled_from([None, *Survival]))
    def die(self, survival: Survival | None) -> None:
        self.subject.survival = survival
        self.subject.die(Change())

    @rule(after=st.integers(0, 10), times=st.integers(1, 3), code=st.sampled_from([errno.EIO, errno.ENOSPC]))
    def the_disk_will_fail(self, after: int, times: int, code: int) -> None:
        self.subject.disk.fail(Fault(CHANGES, after, times, code))

    @rule()
    def the_disk_is_well(self) -> None:
        self.subject.disk.faults = []

    # reading

    @rule(share=st.floats(0, 1), max_bytes=st.sampled_from([1, 100, 600, 100_000]), which=st.integers(0, 2))
    def read(self, share: float, max_bytes: int, which: int) -> None:
        log, model = self.subject.log, self.subject.model
        offset = model.start + round(share * (model.end - model.start))
        bound = [None, log.high_watermark, log.last_stable_offset][which]
        limit = model.end if bound is None else bound
        found = log.read(offset, max_bytes, up_to_offset=bound).records
        content = found if isinstance(found, bytes) else found.read()
        expected = model.from_offset(offset, limit)
        assert expected.startswith(content)
        assert bool(content) == bool(expected)
        if content:
            first = next(each for each in model.batches if each.last_offset >= offset)
            assert min(max_bytes, len(first.content)) <= len(content) <= max(max_bytes, len(first.content))

    @rule(share=st.floats(0, 1))
    def read_aborted(self, share: float) -> None:
        log, model = self.subject.log, self.subject.model
        offset = model.start + round(share * (model.end - model.start))
        found = log.aborted_transactions(offset, model.end)
        first = log.segments.first.base_offset
        expected = [each[:2] for each in model.aborted if each.last_offset >= max(offset, first)]
        assert sorted(found) == sorted(expected)

    @rule(back=st.integers(-100, 400))
    def look_up_time(self, back: int) -> None:
        model = self.subject.model
        wanted = self.time - back
        records = [
            (offset, at) for each in model.visible() for offset, at in each.timestamps() if offset >= model.start
        ]
        expected = next(((offset, at) for offset, at in records if at >= wanted), None)
        found = self.subject.log.lookup_timestamp(wanted)
        if found is None and expected is not None:
            # As Apache Kafka does: it looks into the first segment with such a timestamp, be it a deleted record's.
            hidden = [at for each in model.batches for offset, at in each.timestamps() if offset < model.start]
            assert any(at >= wanted for at in hidden)
        else:
            assert found == expected

    @invariant()
    def offsets_never_lie(self) -> None:
        if hasattr(self, "subject"):
            self.subject.check_offsets()

    @rule()
    def look_at_everything(self) -> None:
        self.subject.check_all()


LogSimulation.TestCase.settings = settings(
    max_examples=HISTORIES or 30,
    derandomize=not HISTORIES,
    stateful_step_count=STEPS,
    deadline=None,
    report_multiple_bugs=False,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestLog = LogSimulation.TestCase
