"""Periodic jobs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkapy import turns
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.server.lifecycle.upkeep import LIMIT_REPORT_MS, NEVER_MS, LimitReport, Upkeep, keep_logs
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker


def test_jobs_repeat_until_stopped() -> None:
    clock = ManualClock()
    upkeep = Upkeep(clock)
    done: list[int] = []
    upkeep.every(100, "job", lambda: done.append(clock.now_ms()))
    upkeep.every(NEVER_MS, "never", lambda: done.append(0))
    clock.advance(350)
    assert len(done) == 3
    upkeep.stop()
    clock.advance(1000)
    assert len(done) == 3
    assert not clock.pending_timers()


def test_a_job_with_a_long_interval_runs_soon_for_the_first_time() -> None:
    clock = ManualClock(0)
    upkeep = Upkeep(clock)
    done: list[int] = []
    upkeep.every(300_000, "job", lambda: done.append(clock.now_ms()))
    clock.advance(400_000)
    assert done == [30_000, 330_000]


def test_a_job_that_fails_on_the_disk_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    upkeep = Upkeep(clock)
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise OSError("disk full")

    upkeep.every(100, "job", fail)
    for _ in range(2):
        clock.advance(100)
    assert len(tries) == 2
    assert caplog.messages == ["job: the job failed and will be tried again: disk full"] * 2


def test_no_job_runs_after_one_that_stops_the_upkeep() -> None:
    clock = ManualClock()
    upkeep = Upkeep(clock)
    done: list[int] = []
    upkeep.every(100, "a", upkeep.stop)
    upkeep.every(100, "b", lambda: done.append(1))
    clock.advance(500)
    assert done == []


def test_a_job_in_steps_lets_others_run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(turns, "UNTIMED_STEPS", 1)
    monkeypatch.setattr(turns, "FIRST_SLICE_S", 0)
    monkeypatch.setattr(turns, "SLICE_S", 0)

    async def scenario() -> None:
        clock = ManualClock()
        upkeep = Upkeep(clock)
        done: list[int] = []
        failure: list[Exception] = []

        def job() -> Iterator[None]:
            for at in range(5):
                done.append(at)
                yield
            if failure:
                raise failure.pop()

        upkeep.every(100, "job", job)
        clock.advance(100)
        await asyncio.sleep(0)
        assert 0 < len(done) < 5
        clock.advance(100)  # a running job is not started again
        for _ in range(20):
            await asyncio.sleep(0)
        assert done == [0, 1, 2, 3, 4]
        for error in (OSError("disk full"), LookupError("bug")):
            failure.append(error)
            clock.advance(100)
            for _ in range(20):
                await asyncio.sleep(0)
        assert caplog.messages[0] == "job: the job failed and will be tried again: disk full"
        assert len(caplog.messages) == 2
        clock.advance(100)
        await asyncio.sleep(0)
        count = len(done)
        upkeep.stop()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(done) <= count + 1

    asyncio.run(scenario())


class Jobs:
    def __init__(self) -> None:
        self.done: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.done.append(name)


def test_logs_are_kept_at_their_intervals() -> None:
    clock, jobs = ManualClock(), Jobs()
    upkeep = Upkeep(clock)
    config = BrokerConfig.from_properties({"log.flush.scheduler.interval.ms": "20000"})
    keep_logs(upkeep, jobs, config)  # type: ignore[arg-type]  # stands in for LogManager
    clock.advance(60_000)
    counts = {name: jobs.done.count(name) for name in set(jobs.done)}
    assert counts == {
        "checkpoint_high_watermarks": 12,
        "checkpoint_recovery_points": 1,
        "checkpoint_log_start_offsets": 1,
        "remove_expired_producers": 1,
        "enforce_retention": 1,
        "flush_due_logs": 3,
    }
    clock.advance(570_000)
    assert jobs.done.count("remove_expired_producers") == 2


def test_limits_that_were_hit_are_reported_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, hits = ManualClock(0), {"topics": 0, "groups": 0}
    upkeep = Upkeep(clock)
    report = LimitReport({f"{name} were refused": lambda name=name: hits[name] for name in hits})  # type: ignore[misc]
    upkeep.every(LIMIT_REPORT_MS, "limits", report)
    caplog.set_level("WARNING", "kafkapy.server.lifecycle.upkeep")
    said = []
    for topics, groups in ((0, 0), (3, 0), (3, 0), (5, 1)):
        hits.update(topics=topics, groups=groups)
        caplog.clear()
        clock.advance(LIMIT_REPORT_MS)
        said.append([record.getMessage() for record in caplog.records])
    assert said == [[], ["3 topics were refused"], [], ["2 topics were refused", "1 groups were refused"]]


def test_a_broker_reports_its_limits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            metrics = broker.services.metrics
            metrics.topics_refused_by_replica_limit = metrics.automatic_topics_delayed = metrics.producers_evicted = 2
            metrics.peer_lines.left_out = metrics.audit_lines.left_out = 2
            metrics.coordinators.refused_metadata = metrics.coordinators.skipped_records = 2
            broker.services.fetch_sessions.refused = 2
            clock.advance(LIMIT_REPORT_MS)

    run(scenario())
    said = [record.getMessage() for record in caplog.records if record.name == "kafkapy.server.lifecycle.upkeep"]
    assert len(said) == 8
    assert all(line.startswith("2 ") for line in said)
