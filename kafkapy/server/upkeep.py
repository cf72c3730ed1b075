"""What a running broker does by the clock: checkpoints, flushes, retention, forgetting silent producers."""

import logging
from collections.abc import Callable
from typing import Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.storage.log_directory import LogManager

_log: Final = logging.getLogger(__name__)

EXPIRED_PRODUCERS_MS: Final = 600_000
NEVER_MS: Final = 2**53
FIRST_MS: Final = 30_000
"""When a job is done first that is done seldom: a broker that is restarted often must come to it too."""


class Upkeep:
    """Jobs that are repeated until ``stop``."""

    __slots__ = ("_clock", "_timers", "_stopped")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, TimerHandle] = {}
        self._stopped = False

    def every(self, interval_ms: int, name: str, job: Callable[[], object]) -> None:
        """Run ``job`` each ``interval_ms``, first after as long or 30 s; one that fails is tried at its next turn."""
        if interval_ms >= NEVER_MS:
            return

        def run() -> None:
            if self._stopped:
                return
            self._timers[name] = self._clock.call_later(interval_ms, run)
            try:
                job()
            except OSError as error:
                _log.error("%s: the job failed and will be tried again: %s", name, error)

        self._timers[name] = self._clock.call_later(min(interval_ms, FIRST_MS), run)

    def stop(self) -> None:
        """Run nothing more."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()


def keep_logs(upkeep: Upkeep, logs: LogManager, config: BrokerConfig) -> None:
    """Repeat what ``LogManager`` wants to be told, at the intervals of the broker's keys."""
    for key, job in (
        ("replica.high.watermark.checkpoint.interval.ms", logs.checkpoint_high_watermarks),
        ("log.flush.offset.checkpoint.interval.ms", logs.checkpoint_recovery_points),
        ("log.flush.start.offset.checkpoint.interval.ms", logs.checkpoint_log_start_offsets),
        ("log.flush.scheduler.interval.ms", logs.flush_due_logs),
        ("log.retention.check.interval.ms", logs.enforce_retention),
    ):
        upkeep.every(config.integer(key), key, job)
    upkeep.every(EXPIRED_PRODUCERS_MS, "expired producers", logs.remove_expired_producers)
