"""The broker's end of ``worker``: starts worker processes, gives them jobs, receives their progress, cancels jobs.

A process is started for the first job and ends when there has been no job for some time. Each process has a thread here
that waits for its lines. Broker and workers exchange only small JSON messages: the jobs read and write files.
"""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Condition, Thread
from typing import Any, Final, Self

import kafkapy
from kafkapy.errors import BrokerError
from kafkapy.platform.worker import JobCancelledError

LINGER_S: Final = 10.0
END_S: Final = 2.0
LOW_PRIORITY: Final = 10
"""Niceness of background work, where it can't be limited to idle processors (``patience``)."""

PACKAGE_ROOT: Final = os.path.dirname(os.path.dirname(kafkapy.__file__))

Facts = dict[str, Any]


class JobFailedError(BrokerError):
    """The job can't process the content of a file; the message is the job's."""


class WorkerDiedError(BrokerError):
    """The process ended without an answer: killed, out of memory, or a fault in the job."""


class WorkerStartError(BrokerError):
    """The system can't start a process now: no memory, descriptors or processes are left."""


class Job:
    """A job that was submitted.

    ``future`` gets the job's result, or ``JobFailedError``, an ``OSError`` of the job, ``WorkerDiedError``,
    ``WorkerStartError`` or ``JobCancelledError``. It is completed, and ``on_progress`` is called, on a thread of the
    pool: callers on an event loop need ``call_soon_threadsafe``.
    """

    def __init__(self, pool: "WorkerPool", message: Facts, on_progress: Callable[[Facts], object]) -> None:
        self.future: Future[Facts] = Future()
        self.future.set_running_or_notify_cancel()  # else asyncio could cancel the future while the pool uses it
        self.message = message
        self.on_progress = on_progress
        self.is_cancelled = False
        self._pool = pool

    def cancel(self) -> None:
        """Cancel the job: a waiting job ends now, a running one at its next ``check``."""
        self._pool.cancel(self)


class WorkerPool:
    """Up to ``size`` worker processes of one niceness (0 to 19)."""

    def __init__(self, size: int = 1, *, niceness: int = 0, linger_s: float = LINGER_S) -> None:
        self.size = size
        self.niceness = niceness
        self.linger_s = linger_s
        self.is_closed = False
        self._changed = Condition()
        self._waiting: deque[Job] = deque()
        self._workers: list[_Worker] = []
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes that run now."""
        with self._changed:
            return [worker.process.pid for worker in self._workers if worker.process is not None]

    def submit(
        self, job: str, arguments: Mapping[str, Any], on_progress: Callable[[Facts], object] = lambda _: None
    ) -> Job:
        """Run the module ``job`` (see ``worker``) as soon as a process is free."""
        with self._changed:
            assert not self.is_closed, "the pool is closed"
            self._last_id += 1
            submitted = Job(self, {"id": self._last_id, "job": job, "arguments": arguments}, on_progress)
            self._waiting.append(submitted)
            busy = sum(worker.job is not None for worker in self._workers)
            if busy + len(self._waiting) > len(self._workers) < self.size:
                self._add_worker(submitted)
            self._changed.notify()
        return submitted

    def _add_worker(self, submitted: Job) -> None:
        """Start another worker; if the system refuses the thread and there is none, ``submitted`` fails."""
        worker = _Worker(self)
        try:
            worker.thread.start()  # it takes no job before ``_changed`` is released
        except RuntimeError as error:
            if not self._workers:
                self._waiting.remove(submitted)
                submitted.future.set_exception(WorkerStartError(f"A worker's thread can't be started: {error}"))
        else:
            self._workers.append(worker)

    def cancel(self, job: Job) -> None:
        """See ``Job.cancel``."""
        with self._changed:
            job.is_cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
                job.future.set_exception(JobCancelledError())
            for worker in self._workers:
                if worker.job is job:
                    worker.send_cancellation(job)

    def next_job(self, worker: "_Worker") -> Job | None:
        """Return the next job for ``worker``; None when the worker shall end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.is_closed, self.linger_s)
            if not self._waiting:
                self._workers.remove(worker)
                return None
            worker.job = self._waiting.popleft()
            return worker.job

    def done(self, worker: "_Worker") -> None:
        """Note that ``worker`` has no job any more."""
        with self._changed:
            worker.job = None

    def close(self) -> None:
        """End the processes, also during a job; jobs without a result are cancelled."""
        with self._changed:
            self.is_closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            workers = list(self._workers)
            for worker in workers:
                worker.hang_up()
            self._changed.notify_all()
        for job in waiting:
            job.future.set_exception(JobCancelledError())
        for worker in workers:
            worker.join()


class _Worker:
    """A process and the thread that waits for its messages."""

    def __init__(self, pool: WorkerPool) -> None:
        self.thread = Thread(target=self._work, name="kafkapy-worker", daemon=True)
        self.job: Job | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._pool = pool

    def _work(self) -> None:
        while (job := self._pool.next_job(self)) is not None:
            result: Facts | None = None
            error: Exception | None = None
            try:
                result = self._result(job)
            except (BrokerError, OSError, JobCancelledError) as refusal:
                error = refusal
            self._pool.done(self)
            if result is not None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
        self._end()

    def _result(self, job: Job) -> Facts:
        """Run ``job`` in the process; raises the errors of its future."""
        process = self._started()
        self._send(job.message)
        if job.is_cancelled:  # perhaps before the process was started
            self.send_cancellation(job)
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote
            answer = json.loads(line)
            if "progress" not in answer:
                return _result_of(answer)
            job.on_progress(answer["progress"])
        code = self._end()
        if self._pool.is_closed:
            raise JobCancelledError
        raise WorkerDiedError(f"The worker process ended with {code} during {job.message['job']}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            try:
                self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    [sys.executable, "-m", "kafkapy.platform.worker", str(self._pool.niceness)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=_environment(),
                )
            except OSError as error:
                raise WorkerStartError(f"A worker process can't be started: {error}") from error
            if self._pool.is_closed:  # ``close`` could not end a process that was not started yet
                self.hang_up()
        return self.process

    def send_cancellation(self, job: Job) -> None:
        """Tell the process to cancel ``job``."""
        self._send({"cancel": job.message["id"]})

    def _send(self, message: Facts) -> None:
        """Write one message; the end of a process is noticed when its output ends."""
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):  # ValueError: the input was closed in between
                process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
                process.stdin.flush()

    def hang_up(self) -> None:
        """End the process by ending its input."""
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(OSError):  # the process ended before it had read everything
                process.stdin.close()

    def join(self) -> None:
        """Wait for the end after ``hang_up``; kill the process if that takes long."""
        self.thread.join(END_S)
        process = self.process
        if self.thread.is_alive() and process is not None:
            process.kill()
        self.thread.join()

    def _end(self) -> int | None:
        """Wait until the process has ended; return its exit code."""
        self.hang_up()
        process, self.process = self.process, None
        if process is None:
            return None
        assert process.stdout is not None
        process.stdout.close()
        try:
            return process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _environment() -> dict[str, str]:
    """The environment of this process, with the path of this kafkapy."""
    paths = [PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _result_of(answer: Facts) -> Facts:
    if "result" in answer:
        result: Facts = answer["result"]
        return result
    if "cancelled" in answer:
        raise JobCancelledError
    if answer["errno"] is not None:
        raise OSError(answer["errno"], answer["error"])
    raise JobFailedError(answer["error"])
