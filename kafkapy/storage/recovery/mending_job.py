"""The worker process's part of a recovery: opens logs as an unclean start does, so that the broker finds them mended.

Indexes, snapshots and epochs are in the files then, and what was no batch is cut off. A worker that dies in between
leaves what another unclean stop would.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kafkapy.clock import SystemClock, TimerHandle
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.io.worker import JobContext
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.recovery.recovery import Checkpointed, load
from kafkapy.types import TopicPartition


class _Never:
    def cancel(self) -> None:
        """There is nothing to cancel."""


class LoopLessClock(SystemClock):
    """The files that are removed later are the broker's to remove."""

    __slots__ = ()

    def call_later(self, _delay_ms: float, _callback: Callable[..., object], *_args: Any) -> TimerHandle:
        """Do nothing: this process has no loop."""
        return _Never()


def run(arguments: Mapping[str, Any], context: JobContext) -> dict[str, Any]:
    """Mend ``logs``; tells the bytes of each segment that was read. Raises ``KafkaStorageError`` and ``OSError``."""

    def recovered(size: int) -> None:
        context.progress({"bytes": size})
        context.check()

    storage = Storage(
        LoopLessClock(),
        producer_expiration_ms=arguments["producer_expiration_ms"],
        recovered=recovered,
        puts_off=False,  # what this process has in memory is lost with it
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
