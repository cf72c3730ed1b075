"""Parallel recovery: after an unclean stop with much to read, worker processes recover many logs at a time.

A worker process opens a log as a start after an unclean stop does, and its files are afterwards as after a clean stop
(``recovery_job``); the broker then opens the log without reading it again. If a worker process can't recover a log, the
broker does it, and gets the same error.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.platform.files import Files
from kafkapy.platform.worker_pool import Facts, Job, WorkerPool
from kafkapy.storage.log.segment import BASE_DIGITS, LOG_SUFFIX
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import Found, load_found, survey
from kafkapy.turns import Steps, in_turns
from kafkapy.types import TopicPartition

logger: Final = logging.getLogger(__name__)

WORTH_BYTES: Final = 64 * 1024 * 1024
"""The smallest number of bytes to read for which worker processes are started.

The broker itself reads a gigabyte per second, and starting a process takes time."""
JOB_BYTES: Final = 64 * 1024 * 1024
"""The number of bytes to read after which a job gets no further log."""
JOB: Final = "kafkapy.storage.recovery.recovery_job"


class Progress(NamedTuple):
    """The progress of a recovery: bytes read, bytes to read, and the number of logs."""

    done_bytes: int
    total_bytes: int
    logs: int


class UncleanLog(NamedTuple):
    """A log to recover in the folder ``path``; ``size`` is the number of its bytes to read."""

    partition: TopicPartition
    path: str
    found: Found
    size: int


def default_processes() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def load_in_parallel(
    logs: LogManager,
    config_of: Callable[[str], LogConfig],
    *,
    processes: int,
    report: Callable[[Progress], object] = lambda _: None,
) -> None:
    """As ``load_logs``, after ``LogManager.lock``; the event loop stays free, which the store's session needs."""
    found = survey(logs)
    recovered = await recover_in_workers(logs, found, config_of, processes=processes, report=report)
    await in_turns(load_found(logs, found, config_of, recovered))


async def recover_in_workers(
    logs: LogManager,
    found: Sequence[Found],
    config_of: Callable[[str], LogConfig],
    *,
    processes: int,
    report: Callable[[Progress], object],
) -> set[str]:
    """Recover the logs of unclean directories in worker processes, if there is enough to read; return their folders."""
    unclean = await in_turns(_all_unclean_logs(logs.storage.files, found))
    total = sum(each.size for each in unclean)
    if total < WORTH_BYTES:
        return set()
    bundles = list(_bundles(sorted(unclean, key=lambda each: -each.size)))
    loop = asyncio.get_running_loop()
    began_s, done = logs.storage.clock.monotonic_s(), 0

    def progressed(facts: Facts) -> None:
        nonlocal done
        done += facts["bytes"]
        report(Progress(min(done, total), total, len(unclean)))

    report(Progress(0, total, len(unclean)))
    with WorkerPool(min(processes, len(bundles))) as pool:
        jobs: list[Job] = [
            pool.submit(
                JOB, _arguments(logs, bundle, config_of), lambda facts: loop.call_soon_threadsafe(progressed, facts)
            )
            for bundle in bundles
        ]
        outcomes = await asyncio.gather(*(asyncio.wrap_future(job.future) for job in jobs), return_exceptions=True)
    recovered = _recovered(bundles, outcomes)
    took_s = logs.storage.clock.monotonic_s() - began_s
    logger.info("Recovered %d logs, %.1f GB, in %.1f s", len(recovered), total / 1e9, took_s)
    return recovered


def _recovered(bundles: Sequence[Sequence[UncleanLog]], outcomes: Sequence[Facts | BaseException]) -> set[str]:
    recovered = set()
    for bundle, outcome in zip(bundles, outcomes, strict=True):
        if isinstance(outcome, BrokerError | OSError):
            logger.warning(
                "A worker process could not recover %d logs, the broker recovers them: %s", len(bundle), outcome
            )
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            recovered |= {each.path for each in bundle}
    return recovered


def _all_unclean_logs(files: Files, found: Sequence[Found]) -> Steps[list[UncleanLog]]:
    """Return the logs to recover; a step is a folder."""
    unclean = []
    for directory in found:
        for partition, path in () if directory.clean else directory.paths:
            yield
            try:
                listing = files.list_directory(path)
            except OSError:
                continue  # opening the log will raise the error
            size = _bytes_beyond(listing, directory.checkpointed(partition).recovery_point)
            if size:
                unclean.append(UncleanLog(partition, path, directory, size))
    return unclean


def _bytes_beyond(listing: Sequence[tuple[str, int]], recovery_point: int) -> int:
    """Return the number of bytes in the segments that reach beyond ``recovery_point``."""
    segments = [
        (int(name[:BASE_DIGITS]), size)
        for name, size in listing
        if name[BASE_DIGITS:] == LOG_SUFFIX and name[:BASE_DIGITS].isdecimal()
    ]
    floor = max((base for base, _ in segments if base <= recovery_point), default=0)
    return sum(size for base, size in segments if base >= floor)


def _bundles(unclean: Sequence[UncleanLog]) -> Iterator[list[UncleanLog]]:
    bundle: list[UncleanLog] = []
    size = 0
    for each in unclean:
        bundle.append(each)
        size += each.size
        if size >= JOB_BYTES:
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle


def _arguments(logs: LogManager, bundle: Sequence[UncleanLog], config_of: Callable[[str], LogConfig]) -> Facts:
    return {
        "producer_expiration_ms": logs.storage.producer_expiration_ms,
        "logs": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "directory": each.path,
                "config": asdict(config_of(each.partition.topic)),
                "checkpointed": each.found.checkpointed(each.partition),
            }
            for each in bundle
        ],
    }
