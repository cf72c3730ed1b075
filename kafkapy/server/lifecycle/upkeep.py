"""Periodic jobs of a running broker: checkpoints, flushes, retention, a report of limits that were hit."""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.dispatch.context import Services
from kafkapy.storage.log_manager import LogManager
from kafkapy.turns import at_once_or_in_turns

logger: Final = logging.getLogger(__name__)

EXPIRED_PRODUCERS_MS: Final = 600_000
LIMIT_REPORT_MS: Final = 60_000
NEVER_MS: Final = 2**53
FIRST_MS: Final = 30_000
"""Time of a job's first run if its interval is longer, so that a broker which is restarted often runs the job too."""


Job = Callable[[], object]
"""A job; one that returns steps is run in slices (``kafkapy/turns.py``)."""


class Upkeep:
    """Jobs that are repeated until ``stop``."""

    __slots__ = ("_clock", "_timers", "_tasks", "_stopped")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, TimerHandle] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def every(self, interval_ms: int, name: str, job: Job) -> None:
        """Run ``job`` every ``interval_ms``, first after 30 s or less; a job that fails runs again at the next time."""
        if interval_ms >= NEVER_MS:
            return

        def run() -> None:
            if self._stopped:
                return
            self._timers[name] = self._clock.call_later(interval_ms, run)
            if name in self._tasks:
                return  # it is still running
            try:
                steps = job()
                remaining = at_once_or_in_turns(steps) if isinstance(steps, Generator) else None
            except OSError as error:
                _failed(name, error)
                return
            if isinstance(remaining, asyncio.Task):
                self._tasks[name] = remaining
                remaining.add_done_callback(partial(self._done, name))

        self._timers[name] = self._clock.call_later(min(interval_ms, FIRST_MS), run)

    def _done(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._tasks[name]
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, OSError):
            _failed(name, error)
        elif error is not None:
            raise error  # the loop's exception handler logs it

    def stop(self) -> None:
        """Cancel all jobs."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()


def _failed(name: str, error: OSError) -> None:
    logger.error("%s: the job failed and will be tried again: %s", name, error)


def keep_logs(upkeep: Upkeep, logs: LogManager, config: BrokerConfig) -> None:
    """Run the periodic jobs of ``LogManager`` at the intervals of the broker's keys."""
    for key, job in (
        ("replica.high.watermark.checkpoint.interval.ms", logs.checkpoint_high_watermarks),
        ("log.flush.offset.checkpoint.interval.ms", logs.checkpoint_recovery_points),
        ("log.flush.start.offset.checkpoint.interval.ms", logs.checkpoint_log_start_offsets),
        ("log.flush.scheduler.interval.ms", logs.flush_due_logs),
        ("log.retention.check.interval.ms", logs.enforce_retention),
    ):
        upkeep.every(config.integer(key), key, job)
    upkeep.every(EXPIRED_PRODUCERS_MS, "expired producers", logs.remove_expired_producers)


def keep_replicas(upkeep: Upkeep, replicas: ReplicaManager, config: BrokerConfig) -> None:
    """Look for followers that lag, twice within the time that they may lag for."""
    interval_ms = max(config.integer("replica.lag.time.max.ms") // 2, 1)
    upkeep.every(interval_ms, "in-sync replicas", replicas.shrink_in_sync_sets)


def keep_tokens(upkeep: Upkeep, services: Services) -> None:
    """Remove expired delegation tokens, as the controller."""
    tokens = services.tokens
    if tokens is None:
        return

    def remove_expired() -> None:
        if services.controller.is_active:
            tokens.remove_expired()

    key = "delegation.token.expiry.check.interval.ms"
    upkeep.every(services.config.integer(key), key, remove_expired)


class LimitReport:
    """Logs how often each limit was reached since the last call: one line for each limit."""

    __slots__ = ("_counts", "_seen")

    def __init__(self, counts: Mapping[str, Callable[[], int]]) -> None:
        """``counts``: text of an event with its limit → function that returns its number since the broker's start."""
        self._counts = counts
        self._seen = dict.fromkeys(counts, 0)

    def __call__(self) -> None:
        """Log the numbers that have changed."""
        for event, count in self._counts.items():
            total = count()
            if total != self._seen[event]:
                logger.warning("%d %s", total - self._seen[event], event)
                self._seen[event] = total


def report_limits(upkeep: Upkeep, services: Services) -> None:
    """Log once a minute which of kafkapy's own limits were hit; their requests are not logged, or not all of them."""
    metrics, sessions = services.metrics, services.fetch_sessions
    coordinators = metrics.coordinators
    report = LimitReport(
        {
            "topics were refused because of kafkapy.max.replicas": lambda: metrics.topics_refused_by_replica_limit,
            "automatic topics were put off because of kafkapy.auto.create.topics.per.second": (
                lambda: metrics.automatic_topics_delayed
            ),
            "group requests were refused because of kafkapy.group.metadata.max.bytes": (
                lambda: coordinators.refused_metadata
            ),
            "fetch sessions were refused because of kafkapy.fetch.session.partitions.max or "
            "max.incremental.fetch.session.cache.slots": lambda: sessions.refused,
            "producer ids were forgotten because of kafkapy.producer.ids.max": lambda: metrics.producers_evicted,
            "lines about refused requests and closed connections were left out of this log": (
                lambda: metrics.peer_lines.left_out
            ),
            "denied operations are not in the log of kafka.authorizer.logger": lambda: metrics.audit_lines.left_out,
            "records of the coordinators' topics could not be decoded": lambda: coordinators.skipped_records,
        }
    )
    upkeep.every(LIMIT_REPORT_MS, "limits", report)
