"""Random operations on a log whose process and disk may die at each of them, against a list of batches.

The ordinary run has the same few histories each time; with ``KAFKAPY_SIMULATIONS`` that many random histories are run
(``make simulate``: thousands).
"""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness.storage.batches import START_MS, marker
from kafkapy.config.log_config import LogConfig
from kafkapy.config.own_keys import FLUSH_AS_KAFKA, FLUSH_BEFORE_ACK
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import MAGIC
from kafkapy.records.compression import ZSTD
from kafkapy.records.errors import UnsupportedForMessageFormatError
from kafkapy.records.record import Record, encode_batch, encode_legacy
from kafkapy.turns import finish
from kafkapy.types import NO_OFFSET
from tests.simulation.disk import CHANGES, Fault
from tests.simulation.durable import Survival
from tests.simulation.machine import Died, Subject
from tests.simulation.model import Aborted, Change, Stored

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
    cleanup_policy=st.sampled_from([("delete",), ("compact",), ("compact",), ("compact", "delete")]),
    min_cleanable_dirty_ratio=st.just(0.01),
    delete_retention_ms=st.sampled_from([0, 0, 86_400_000]),
    message_format_version=st.sampled_from(["2.7-IV2", "2.7-IV2", "0.10.2", "0.9.0"]),
    compression_type=st.sampled_from(["producer", "producer", "producer", "lz4", "uncompressed"]),
)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(max_size=12), st.sampled_from([b"x" * 90, b"y" * 250]))
RECORDS = st.lists(st.tuples(KEYS, VALUES, st.integers(-30, 30)), min_size=1, max_size=4)
PRODUCERS = st.integers(1, 3)

Drawn = list[tuple[bytes, bytes | None, int]]
"""Key, value, and how far before or behind its time a record is."""


class LogSimulation(RuleBasedStateMachine):
    @initialize(config=CONFIGS, seed=st.integers(0, 2**32), is_alone=st.booleans(), is_old=st.sampled_from([0, 0, 1]))
    def begin(self, config: LogConfig, seed: int, is_alone: bool, is_old: int) -> None:
        self.is_old = bool(is_old)
        self.subject = Subject(self._allowed(config), seed, is_alone=is_alone)
        self.time = START_MS
        self.epoch = 0

    def _allowed(self, config: LogConfig) -> LogConfig:
        """Most histories have no old formats, as these make some checks weaker."""
        return config if self.is_old else replace(config, message_format_version=LogConfig().message_format_version)

    def teardown(self) -> None:
        if hasattr(self, "subject"):
            self.subject.close()

    # writing

    def _records(self, records: Drawn) -> list[Record]:
        self.time += 10
        return [Record(key, value, self.time + delta) for key, value, delta in records]

    def _encoded(self, records: Drawn, **fields: int | bool) -> bytearray:
        return bytearray(encode_batch(self._records(records), **fields))  # type: ignore[arg-type]  # ints and bools

    def _epoch(self, more: int = 0) -> int:
        """The next leader epoch of a controller, never lower than before, whatever epochs the log has dropped."""
        self.epoch += more
        return self.epoch

    @rule(records=RECORDS, compression=st.sampled_from([0, 0, 0, 1, 2, 3, 4]), new_epoch=st.integers(0, 1))
    def append(self, records: Drawn, compression: int, new_epoch: int) -> None:
        if self.subject.config.message_format < MAGIC and compression == ZSTD:
            compression = 0  # old formats lack this codec
        self.subject.append_as_leader(self._encoded(records, compression=compression), self._epoch(new_epoch))

    @rule(batches=st.lists(RECORDS, min_size=3, max_size=9))
    def append_many(self, batches: list[Drawn]) -> None:
        for records in batches:
            self.subject.append_as_leader(self._encoded(records), self._epoch())
            self.subject.check_offsets()

    @rule(records=RECORDS, gap=st.sampled_from([0, 0, 1, 7, 2**31 - 1, 2**31]))
    def append_as_follower(self, records: Drawn, gap: int) -> None:
        batch = self._encoded(records, base_offset=self.subject.model.end + gap, partition_leader_epoch=self._epoch())
        self.subject.append_as_follower(batch)

    @precondition(lambda self: self.is_old)
    @rule(records=RECORDS, magic=st.integers(0, 1), codec=st.integers(0, 3), is_leader=st.booleans())
    def append_in_an_old_format(self, records: Drawn, magic: int, codec: int, is_leader: bool) -> None:
        first = 0 if is_leader else self.subject.model.end
        numbered = [each._replace(offset=first + place) for place, each in enumerate(self._records(records))]
        entries = bytearray(encode_legacy(numbered, magic, compression=codec))
        if is_leader:
            self.subject.append_as_leader(entries, self._epoch())
        else:
            self.subject.append_as_follower(entries)

    @precondition(lambda self: self.subject.config.message_format == MAGIC)
    @rule(records=RECORDS, producer_id=PRODUCERS, transactional=st.booleans(), new_epoch=st.booleans())
    def append_as_producer(self, records: Drawn, producer_id: int, transactional: bool, new_epoch: bool) -> None:
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
        if self.subject.append_as_leader(batch, self._epoch()):
            # The batch is a duplicate, but may roll a full segment, which the disk may refuse.
            self._maintain(lambda: self._send_again(again, self.subject.model.end - len(records)))

    def _send_again(self, batch: bytearray, first_offset: int) -> None:
        result = self.subject.log.append_as_leader(batch, self._epoch())
        assert result.duplicate
        assert result.first_offset == first_offset

    @precondition(lambda self: self.subject.config.message_format == MAGIC)
    @rule(producer_id=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        entry = self.subject.log.producer_state.producers.get(producer_id)
        if entry is None or entry.current_txn_first_offset == NO_OFFSET:
            return
        first_offset = entry.current_txn_first_offset
        batch = marker(commit=commit, producer_id=producer_id, epoch=entry.producer_epoch)
        if self.subject.append_as_leader(batch, self._epoch(), from_client=False) and not commit:
            self.subject.note_aborted(producer_id, first_offset)

    @rule()
    def roll(self) -> None:
        self._maintain(self.subject.log.roll)

    def _maintain(self, action: Callable[[], object], change: Change | None = None) -> bool:
        """Do ``action``, which adds no batch and may fail because of the disk; return whether it was done."""
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
        self.subject.commit(offset)

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
        # An end within a gap before a batch would be lost at the next start, as in Apache Kafka.
        ends = [self.subject.log.segments.first.base_offset, *(each.last_offset + 1 for each in model.batches)]
        offset = ends[-min(back, len(ends) - 1) - 1]
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
        subject, model = self.subject, self.subject.model
        # With the policy delete some or all of the oldest segments below the high watermark may go; no others.
        retain = lambda: subject.retain(lambda: finish(subject.manager.enforce_retention()))  # noqa: E731
        if self._maintain(retain, Change(drops_below=subject.retention_bound)):
            model.dropped_to(subject.log)

    @rule(steps=st.sampled_from([1, 2, 3, 5, 8, 50]))
    def compact(self, steps: int) -> None:
        subject = self.subject
        if self._maintain(lambda: subject.clean(steps), Change(drops_below=subject.retention_bound)):
            subject.model.dropped_to(subject.log)
            subject.model.compacted(subject.log)

    @precondition(lambda self: self.subject.config.compact)
    @rule(batches=st.lists(RECORDS, min_size=3, max_size=9), steps=st.sampled_from([3, 5, 8, 50]))
    def write_and_compact(self, batches: list[Drawn], steps: int) -> None:
        self.append_many(batches)
        self.subject.commit(self.subject.model.end)
        self.roll()
        self.compact(steps)

    # upkeep

    @rule()
    def flush(self) -> None:
        if self._maintain(self.subject.log.flush) and not self.subject.disk_is_failing:
            assert self.subject.log.recovery_point == self.subject.model.end

    @rule(most=st.integers(1, 3))
    def the_disk_catches_up(self, most: int) -> None:
        if self._maintain(lambda: self.subject.flusher.catch_up(most)):
            self.subject.model.compacted(self.subject.log)

    @rule(which=st.integers(0, 2))
    def checkpoint(self, which: int) -> None:
        manager = self.subject.manager
        self._maintain(
            [
                lambda: finish(manager.checkpoint_recovery_points()),
                manager.checkpoint_high_watermarks,
                manager.checkpoint_log_start_offsets,
            ][which]
        )

    @rule(duration_ms=st.sampled_from([1, 2000]))
    def time_passes(self, duration_ms: int) -> None:
        subject = self.subject
        retain = lambda: subject.retain(lambda: subject.pass_time(duration_ms))  # noqa: E731
        if self._maintain(retain, Change(drops_below=subject.retention_bound)):
            subject.model.dropped_to(subject.log)

    @rule(config=CONFIGS)
    def configure(self, config: LogConfig) -> None:
        config = self._allowed(config)
        self.subject.use(config)
        self._maintain(lambda: self.subject.log.update_config(config))

    # ends

    @precondition(lambda self: not self.subject.disk_is_failing)
    @rule()
    def stop_and_start(self) -> None:
        self.subject.stop()

    @rule(survival=st.sampled_from([None, *Survival]), changes=st.integers(0, 60))
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
        expected = [each for each in model.aborted if each.last_offset >= max(offset, first)]
        # Compaction removes an entry with the last batch of its transaction.
        needed = [each[:2] for each in expected if not model.is_compacted or self._has_batches(each)]
        assert set(needed) <= set(found) <= {each[:2] for each in expected}
        assert len(found) == len(set(found))

    def _has_batches(self, aborted: Aborted) -> bool:
        return any(
            each.header.producer_id == aborted.producer_id
            and each.header.is_transactional
            and not each.header.is_control
            and aborted.first_offset <= each.first_offset < aborted.last_offset
            for each in self.subject.model.batches
        )

    @rule(back=st.integers(-100, 400))
    def look_up_time(self, back: int) -> None:
        model = self.subject.model
        wanted = self.time - back
        if not self.subject.config.message_format:
            with pytest.raises(UnsupportedForMessageFormatError):
                self.subject.log.lookup_timestamp(wanted)
            return
        records = [(offset, at) for offset, at in self._times(model.visible()) if offset >= model.start]
        expected = next(((offset, at) for offset, at in records if at >= wanted), None)
        found = self.subject.log.lookup_timestamp(wanted)
        if found is None and expected is not None:
            # As in Apache Kafka the first segment with such a timestamp is searched. The timestamp may be that of a
            # deleted record, of a batch that compaction has emptied, or of the file where no record has one.
            hidden = [at for offset, at in self._times(model.batches) if offset < model.start or at < 0]
            hidden += [each.header.max_timestamp for each in model.batches if not each.records]
            assert any(at >= wanted or at < 0 for at in hidden)
        else:
            assert found == expected

    @staticmethod
    def _times(batches: list[Stored]) -> list[tuple[int, int]]:
        return [(record.offset, record.timestamp) for each in batches for record in each.records]

    @invariant()
    def offsets_never_lie(self) -> None:
        if hasattr(self, "subject"):
            self.subject.check_offsets()

    @rule()
    def look_at_everything(self) -> None:
        self.subject.check_all()


SETTINGS = settings(
    max_examples=HISTORIES or 30,
    derandomize=not HISTORIES,
    stateful_step_count=STEPS,
    deadline=None,
    report_multiple_bugs=False,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def test_a_log_agrees_with_its_model(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.CRITICAL, logger="kafkapy")  # every history logs warnings, which would hide the example
    # Hypothesis also draws numbers from the source of loaded modules: histories would depend on other tests.
    monkeypatch.setattr(HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None)
    run_state_machine_as_test(LogSimulation, settings=SETTINGS)
