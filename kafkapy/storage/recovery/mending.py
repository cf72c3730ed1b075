"""Recovery on all processors: after an unclean stop with much to read, worker processes recover many logs at a time.

A worker process opens a log as a start after an unclean stop does and leaves its files as a clean stop would
(``mending_job``); the broker then opens the log without reading it again. A log that a worker process could not recover
is recovered by the broker, which gets the same error.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.storage.io.files import Files
from kafkapy.storage.io.worker_pool import Facts, Job, WorkerPool
from kafkapy.storage.log.segment import BASE_DIGITS, LOG_SUFFIX
from kafkapy.storage.log_directory import Found, load_found, survey
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.storage.log_directory import LogManager

logger: Final = logging.getLogger(__name__)

WORTH_BYTES: Final = 64 * 1024 * 1024
"""Fewer bytes are read by the broker itself: it reads a gigabyte per second, and starting a process takes time."""
JOB_BYTES: Final = 64 * 1024 * 1024
JOB: Final = "kafkapy.storage.recovery.mending_job"


class Progress(NamedTuple):
    """The progress of a recovery."""

    done_bytes: int
    total_bytes: int
    logs: int


class Damaged(NamedTuple):
    """A log to recover, and the number of its bytes to read."""

    partition: TopicPartition
    found: Found
    size: int


def default_processes() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def load_in_parallel(
    logs: "LogManager",
    config_of: Callable[[str], LogConfig],
    *,
    processes: int,
    report: Callable[[Progress], object] = lambda _: None,
) -> None:
    """As ``LogManager.load``, after its ``lock``; the event loop stays free during a large recovery."""
    found = survey(logs)
    mended = await mend(logs, found, config_of, processes=processes, report=report)
    load_found(logs, found, config_of, mended)


async def mend(
    logs: "LogManager",
    found: Sequence[Found],
    config_of: Callable[[str], LogConfig],
    *,
    processes: int,
    report: Callable[[Progress], object],
) -> set[TopicPartition]:
    """Recover the logs of unclean directories in worker processes, if there is enough to read; return these logs."""
    damaged = [each for directory in found if not directory.clean for each in _damaged(logs.storage.files, directory)]
    total = sum(each.size for each in damaged)
    if total < WORTH_BYTES:
        return set()
    bundles = list(_bundles(sorted(damaged, key=lambda each: -each.size)))
    loop = asyncio.get_running_loop()
    began_s, done = logs.storage.clock.monotonic_s(), 0

    def progressed(facts: Facts) -> None:
        nonlocal done
        done += facts["bytes"]
        report(Progress(min(done, total), total, len(damaged)))

    report(Progress(0, total, len(damaged)))
    with WorkerPool(min(processes, len(bundles))) as pool:
        jobs: list[Job] = [
            pool.submit(
                JOB, _arguments(logs, bundle, config_of), lambda facts: loop.call_soon_threadsafe(progressed, facts)
            )
            for bundle in bundles
        ]
        outcomes = await asyncio.gather(*(asyncio.wrap_future(job.future) for job in jobs), return_exceptions=True)
    mended = _mended(bundles, outcomes)
    took_s = logs.storage.clock.monotonic_s() - began_s
    logger.info("Recovered %d logs, %.1f GB, in %.1f s", len(mended), total / 1e9, took_s)
    return mended


def _mended(bundles: Sequence[Sequence[Damaged]], outcomes: Sequence[Facts | BaseException]) -> set[TopicPartition]:
    mended = set()
    for bundle, outcome in zip(bundles, outcomes, strict=True):
        if isinstance(outcome, BrokerError | OSError):
            logger.warning(
                "A worker process could not recover %d logs, the broker recovers them: %s", len(bundle), outcome
            )
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            mended |= {each.partition for each in bundle}
    return mended


def _damaged(files: Files, found: Found) -> Iterator[Damaged]:
    for partition in found.partitions:
        try:
            listing = files.list_directory(found.directory.partition_path(partition))
        except OSError:
            continue  # opening the log will raise the error
        size = _bytes_beyond(listing, found.checkpointed(partition).recovery_point)
        if size:
            yield Damaged(partition, found, size)


def _bytes_beyond(listing: Sequence[tuple[str, int]], recovery_point: int) -> int:
    """Return the bytes of the segments that reach beyond ``recovery_point``."""
    segments = [
        (int(name[:BASE_DIGITS]), size)
        for name, size in listing
        if name[BASE_DIGITS:] == LOG_SUFFIX and name[:BASE_DIGITS].isdecimal()
    ]
    floor = max((base for base, _ in segments if base <= recovery_point), default=0)
    return sum(size for base, size in segments if base >= floor)


def _bundles(damaged: Sequence[Damaged]) -> Iterator[list[Damaged]]:
    bundle: list[Damaged] = []
    size = 0
    for each in damaged:
        bundle.append(each)
        size += each.size
        if size >= JOB_BYTES:
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle


def _arguments(logs: "LogManager", bundle: Sequence[Damaged], config_of: Callable[[str], LogConfig]) -> Facts:
    return {
        "producer_expiration_ms": logs.storage.producer_expiration_ms,
        "logs": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "directory": each.found.directory.partition_path(each.partition),
                "config": asdict(config_of(each.partition.topic)),
                "checkpointed": each.found.checkpointed(each.partition),
            }
            for each in bundle
        ],
    }
