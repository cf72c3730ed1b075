"""The worker process's part of a recovery: recovers logs and writes their files, so that the broker can trust them.

Afterwards the index, snapshot and leader-epoch files are complete, and each log is cut after its last valid batch. If
the worker process is killed, the files are as after another unclean stop.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kafkapy.clock import SystemClock, TimerHandle
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.worker import JobContext
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.recovery.recovery import load
from kafkapy.types import TopicPartition


class _Never:
    def cancel(self) -> None:
        """Do nothing: the timer never fires."""


class LoopLessClock(SystemClock):
    """A clock whose timers never fire. Delayed file removal is left to the broker process."""

    __slots__ = ()

    def call_later(self, _delay_ms: float, _callback: Callable[..., object], *_args: Any) -> TimerHandle:
        """Do nothing: this process has no event loop."""
        return _Never()


def run(arguments: Mapping[str, Any], context: JobContext) -> dict[str, Any]:
    """Recover ``logs``; report the bytes of each segment that was read. Raises ``KafkaStorageError``, ``OSError``."""

    def recovered(size: int) -> None:
        context.progress({"bytes": size})
        context.check()

    storage = Storage(
        LoopLessClock(),
        producer_expiration_ms=arguments["producer_expiration_ms"],
        recovered=recovered,
        puts_off=False,  # the memory of this process is lost at its end
    )
    for each in arguments["logs"]:
        partition = TopicPartition(each["topic"], each["partition"])
        log = Log(partition, each["directory"], _config(each["config"]), storage)
        load(log, Checkpointed(*each["checkpointed"]))
        log.release()
        context.check()
    return {"logs": len(arguments["logs"])}


def _config(values: Mapping[str, Any]) -> LogConfig:
    typed: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
    return LogConfig(**typed)
