"""Worker processes: results, failures, cancellation, and their ends."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest

from kafkapy.platform import portable, worker_pool
from kafkapy.platform.worker import JobCancelledError
from kafkapy.platform.worker_pool import Facts, Job, JobFailedError, WorkerDiedError, WorkerPool, WorkerStartError

JOB = "tests.platform.worker_jobs"
PATIENCE_S = 30
UNTIL_CANCELLED = {"wait": 3600}


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(niceness=3) as pool:
        yield pool


def _running(pool: WorkerPool, **more: object) -> Job:
    """A job that has begun and ends when it is cancelled."""
    said: SimpleQueue[Facts] = SimpleQueue()
    job = pool.submit(JOB, {**UNTIL_CANCELLED, **more}, said.put)
    assert said.get(timeout=PATIENCE_S) == {"waiting": True}
    return job


def _gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_one_process_does_one_job_after_the_other(pool: WorkerPool) -> None:
    said: list[Facts] = []
    first = pool.submit(JOB, {"say": [{"at": 1}, {"at": 2}], "echo": 1}, said.append)
    second = pool.submit(JOB, {"echo": 2})
    results = [job.future.result(PATIENCE_S) for job in (first, second)]
    assert said == [{"at": 1}, {"at": 2}]
    assert [result["echo"] for result in results] == [1, 2]
    assert {result["pid"] for result in results} == set(pool.process_ids)
    assert results[0]["nice"] == min(os.nice(0) + 3, 19)


@pytest.mark.skipif(sys.platform != "linux", reason="the idle policy is Linux's")
def test_a_job_in_steps_runs_on_idle_processors(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(1) as threads:  # a sandbox may forbid it
        can_be_idle = threads.submit(portable.become_idle).result() is not None
    policies = pool.submit(JOB, {"steps": 3}).future.result(PATIENCE_S)["policies"]
    assert policies == [os.SCHED_IDLE if can_be_idle else os.SCHED_OTHER] * 3


def test_a_failure_keeps_its_class_and_the_process_continues(pool: WorkerPool) -> None:
    with pytest.raises(OSError, match="refused") as refused:
        pool.submit(JOB, {"refuse": 28}).future.result(PATIENCE_S)
    assert refused.value.errno == 28
    with pytest.raises(JobFailedError, match="bad batch"):
        pool.submit(JOB, {"blame": "bad batch"}).future.result(PATIENCE_S)
    assert pool.submit(JOB, {}).future.result(PATIENCE_S)["pid"] in pool.process_ids


def test_a_death_is_noticed_and_the_next_job_gets_a_new_process(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDiedError, match="ended with 7"):
        pool.submit(JOB, {"die": 7}).future.result(PATIENCE_S)
    job = _running(pool)
    os.kill(pool.process_ids[0], signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="ended with -9"):
        job.future.result(PATIENCE_S)
    assert pool.submit(JOB, {"echo": 3}).future.result(PATIENCE_S)["echo"] == 3


def test_a_process_that_is_killed_while_it_writes_has_died(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def breaks_off(_: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        script = """read job; printf '{"id": 1, "progr'; kill -9 $$"""
        return start(["sh", "-c", script], **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", breaks_off)
        job = pool.submit(JOB, {})
        with pytest.raises(WorkerDiedError, match="ended with -9"):
            job.future.result(PATIENCE_S)
    assert pool.submit(JOB, {"echo": 3}).future.result(PATIENCE_S)["echo"] == 3


def test_without_a_thread_a_job_fails_or_waits_for_another_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with WorkerPool(2) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(Thread, "start", refuse)
            job = pool.submit(JOB, {})
            with pytest.raises(WorkerStartError, match="can't start new thread"):
                job.future.result(PATIENCE_S)
        running = _running(pool)
        with monkeypatch.context() as patch:
            patch.setattr(Thread, "start", refuse)
            waiting = pool.submit(JOB, {"echo": 3})
        assert len(pool.process_ids) == 1
        running.cancel()
        assert waiting.future.result(PATIENCE_S)["echo"] == 3


def test_running_and_waiting_jobs_can_be_cancelled(pool: WorkerPool) -> None:
    running = _running(pool)
    waiting = pool.submit(JOB, {})
    waiting.cancel()
    with pytest.raises(JobCancelledError):
        waiting.future.result(0)
    running.cancel()
    with pytest.raises(JobCancelledError):
        running.future.result(PATIENCE_S)
    running.cancel()  # after its end: nothing happens
    assert pool.submit(JOB, {"echo": 1}).future.result(PATIENCE_S)["echo"] == 1


def test_a_job_that_is_cancelled_while_the_process_starts_is_cancelled(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: SimpleQueue[Job] = SimpleQueue()
    monkeypatch.setattr(worker_pool, "_environment", lambda: jobs.get().cancel() or dict(os.environ))
    job = pool.submit(JOB, UNTIL_CANCELLED)
    jobs.put(job)
    with pytest.raises(JobCancelledError):
        job.future.result(PATIENCE_S)


def test_closing_ends_processes_during_their_jobs() -> None:
    pool = WorkerPool(2)
    running = [_running(pool), _running(pool)]
    waiting = pool.submit(JOB, {})
    pids = pool.process_ids
    assert len(set(pids)) == 2
    pool.close()
    assert all(_gone(pid) for pid in pids)
    for job in (*running, waiting):
        with pytest.raises(JobCancelledError):
            job.future.result(PATIENCE_S)
    assert pool.process_ids == []


def test_closing_while_a_process_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool()
    starting, closing = Event(), Event()

    def environment() -> dict[str, str]:
        starting.set()
        assert closing.wait(PATIENCE_S)
        return dict(os.environ)

    monkeypatch.setattr(worker_pool, "_environment", environment)
    job = pool.submit(JOB, UNTIL_CANCELLED)
    assert starting.wait(PATIENCE_S)
    pool.is_closed = True
    closing.set()
    with pytest.raises(JobCancelledError):
        job.future.result(PATIENCE_S)
    pool.close()
    assert pool.process_ids == []


@pytest.mark.parametrize("script", ["exec sleep 1000", "exec sleep 1000 >&-"], ids=["silent", "mute"])
def test_a_process_that_does_not_end_is_killed(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``close`` kills a process that keeps its output open; one that closes its output is killed at once."""
    monkeypatch.setattr(worker_pool, "END_S", 0.05)
    stubborn = tmp_path / "python"
    stubborn.write_text(f"#!/bin/sh\necho '{{\"progress\":{{}}}}'; {script}\n")
    stubborn.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stubborn))
    pool = WorkerPool()
    said: SimpleQueue[Facts] = SimpleQueue()
    pids: list[int] = []
    job = pool.submit(
        JOB,
        {},
        lambda facts: (pids.extend(worker.process.pid for worker in pool._workers if worker.process), said.put(facts)),
    )
    said.get(timeout=PATIENCE_S)
    if ">&-" in script:
        with pytest.raises(WorkerDiedError, match="ended with -9"):
            job.future.result(PATIENCE_S)
    pool.close()
    with pytest.raises((JobCancelledError, WorkerDiedError)):
        job.future.result(PATIENCE_S)
    assert all(_gone(pid) for pid in pids)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_waiting_task_may_be_cancelled() -> None:
    """As when a signal ends a start during a recovery."""

    async def scenario() -> list[BaseException | None]:
        with WorkerPool() as pool:
            jobs = [_running(pool), pool.submit(JOB, {"echo": 1})]
            for waiting in [asyncio.wrap_future(job.future) for job in jobs]:
                waiting.cancel()
            await asyncio.sleep(0)
        return [job.future.exception(PATIENCE_S) for job in jobs]

    assert [type(each) for each in asyncio.run(scenario())] == [JobCancelledError, JobCancelledError]


def test_idle_processes_end() -> None:
    with WorkerPool(linger_s=0.01) as pool:
        pid = pool.submit(JOB, {}).future.result(PATIENCE_S)["pid"]
        for worker in list(pool._workers):
            worker.thread.join(PATIENCE_S)
        assert _gone(pid)
        assert pool.submit(JOB, {}).future.result(PATIENCE_S)["pid"] != pid


def test_an_interpreter_that_can_not_be_started_fails_the_job(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerStartError, match=r"can.t be started: .*/nowhere/python"):
        pool.submit(JOB, {}).future.result(PATIENCE_S)
