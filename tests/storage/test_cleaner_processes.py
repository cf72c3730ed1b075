"""The cleaner with real worker processes, which are stopped or killed, or whose logs are deleted."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from harness.storage.batches import PARTITION
from kafkapy.platform import worker_pool
from kafkapy.storage.compaction.cleaner import LogCleaner
from kafkapy.storage.log.log import Log
from kafkapy.storage.log_manager import LogManager
from tests.storage.compacting import COMPACT, World, append, names_of, values_in

PATIENCE_S = 30
COMPACTED = [2, 3, 4, 5, 6]


class Workers:
    """A cleaner whose processes are stopped as soon as they exist, until ``let_go``."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.posted: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.started: SimpleQueue[int] = SimpleQueue()
        self.cleaner = LogCleaner(world.logs, world.config, self.posted.put)
        self.is_stopping = True
        real = subprocess.Popen

        def popen(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
            process = real(*arguments, **options)
            if self.is_stopping:
                process.send_signal(signal.SIGSTOP)
            self.started.put(process.pid)
            return process

        monkeypatch.setattr(worker_pool.subprocess, "Popen", popen)

    def begin(self) -> int:
        """Let the cleaner choose a log; return the process that it starts."""
        self.cleaner.start()
        self.world.clock.advance(0)
        return self.started.get(timeout=PATIENCE_S)

    def go_on(self) -> None:
        """Run until no compaction is running."""
        while self.cleaner._runs:
            self.posted.get(timeout=PATIENCE_S)()


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    workers = Workers(World(tmp_path), monkeypatch)
    yield workers
    workers.cleaner.stop()


def dirty_log(logs: LogManager) -> Log:
    log = logs.get_or_create(PARTITION, COMPACT)
    for number in range(6):
        append(log, (b"k%d" % (number % 2), b"v" * 300))
    append(log, (b"end", b"v"))
    return log


def test_a_killed_worker_is_replaced(workers: Workers) -> None:
    log = dirty_log(workers.world.logs)
    os.kill(workers.begin(), signal.SIGKILL)
    workers.go_on()
    assert sorted(values_in(log)) == list(range(7))
    workers.is_stopping = False
    workers.world.clock.advance(1000)
    workers.go_on()
    assert sorted(values_in(log)) == COMPACTED


def test_a_stop_does_not_wait_for_a_hanging_worker(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "END_S", 0.05)
    log = dirty_log(workers.world.logs)
    pid = workers.begin()
    workers.cleaner.stop()
    workers.go_on()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert sorted(values_in(log)) == list(range(7))
    assert not names_of(log, ".cleaned", ".swap")


def test_a_late_worker_does_not_change_a_new_log_of_the_same_name(workers: Workers) -> None:
    logs = workers.world.logs
    dirty_log(logs)
    pid = workers.begin()
    logs.delete(PARTITION)
    new = dirty_log(logs)
    append(new, (b"k0", b"new"))
    workers.is_stopping = False
    os.kill(pid, signal.SIGCONT)
    workers.go_on()
    assert sorted(values_in(new)) == list(range(8))
    assert not names_of(new, ".cleaned", ".swap", ".deleted")
    workers.world.clock.advance(1000)
    workers.go_on()
    assert sorted(values_in(new)) == [2, 3, 4, 5, 6, 7], "its own turn comes"
