"""Helpers of the tests of compaction: a broker's logs, a cleaner, and a pool that runs jobs at once."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from harness.storage.batches import PARTITION, START_MS
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.platform.files import Files
from kafkapy.platform.patience import Steps
from kafkapy.platform.worker import JobCancelledError, JobContext, Output
from kafkapy.platform.worker_pool import Facts, JobFailedError
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.storage.compaction.cleaner import LogCleaner
from kafkapy.storage.compaction.compaction import Compaction, CompactionRequest, batches_in
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock

COMPACT = LogConfig(
    cleanup_policy=("compact",), segment_bytes=1000, min_cleanable_dirty_ratio=0.01, delete_retention_ms=0
)
DAY_MS = 86_400_000


def finished(steps: Steps[dict[str, Any]]) -> dict[str, Any]:
    """Do all ``steps`` and return their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result


class InlineJob:
    """A job that runs before it is returned, or when the test calls ``run``."""

    def __init__(self, pool: "InlinePool", job: str, arguments: Mapping[str, Any], progress: Callable[[Facts], object]):
        self.future: Future[Facts] = Future()
        self._what = pool, job, arguments, progress
        self.context = JobContext(1, Output(BytesIO()))
        self.context.progress = progress  # type: ignore[method-assign,assignment]  # called directly, not over a pipe

    def cancel(self) -> None:
        self.context.cancelled.set()

    def run(self) -> None:
        pool, job, arguments, _ = self._what
        try:
            if pool.error is not None:
                raise pool.error
            if pool.files is None:
                result = finished(import_module(job).run(dict(arguments), self.context))
            else:
                request = CompactionRequest(**json.loads(json.dumps(arguments)))  # as they come to a worker
                result = finished(Compaction(request, self.context, pool.files).run())
            self.future.set_result(result)
        except BrokerError as error:
            self.future.set_exception(JobFailedError(str(error)))
        except (OSError, JobCancelledError) as error:
            self.future.set_exception(error)


class InlinePool:
    """With ``is_held`` jobs wait for ``run``; with ``error`` they end with it. Compactions use ``files``."""

    def __init__(self, files: Files | None = None) -> None:
        self.files = files
        self.is_held = False
        self.error: Exception | None = None
        self.jobs: list[InlineJob] = []
        self.requests: list[Mapping[str, Any]] = []

    def submit(self, job: str, arguments: Mapping[str, Any], on_progress: Callable[[Facts], object], /) -> InlineJob:
        submitted = InlineJob(self, job, arguments, on_progress)
        self.jobs.append(submitted)
        self.requests.append(arguments)
        if not self.is_held:
            submitted.run()
        return submitted

    def run(self) -> None:
        for job in self.jobs:
            if not job.future.done():
                job.run()

    def close(self) -> None:
        for job in self.jobs:
            if not job.future.done():
                job.future.set_exception(JobCancelledError())


class World:
    """A data directory (and ``other``), its logs and its cleaner, on a clock that stands still."""

    def __init__(self, directory: Path, config: LogConfig = COMPACT, other: Path | None = None, **keys: str) -> None:
        self.directory = directory
        self.clock = ManualClock(START_MS)
        self.storage = Storage(self.clock)
        paths = [str(path) for path in (directory, other) if path is not None]
        self.logs = LogManager(paths, config, self.clock, storage=self.storage)
        load_logs(self.logs)
        self.pool = InlinePool()
        self.posted: list[Callable[[], object]] = []
        properties = {"broker.id": "0", "log.dirs": str(directory), "log.cleaner.backoff.ms": "1000"}
        self.config = BrokerConfig.from_properties({**properties, **keys})
        self.cleaner = LogCleaner(self.logs, self.config, self.posted.append, lambda _: self.pool)

    def log(self, config: LogConfig = COMPACT) -> Log:
        return self.logs.get_or_create(PARTITION, config)

    def run_posted(self) -> None:
        while self.posted:
            self.posted.pop(0)()

    def compact(self) -> None:
        """Let the cleaner choose a log, and finish its compaction."""
        if self.cleaner._timer is None:
            self.cleaner.start()
        self.clock.advance(1000)
        self.run_posted()


def append(log: Log, *pairs: tuple[bytes | None, bytes | None], timestamp: int = START_MS, **fields: Any) -> int:
    """Append one batch, replicated at once; return its first offset."""
    records = [Record(key, value, timestamp + place) for place, (key, value) in enumerate(pairs)]
    # As a follower does: a record without key is refused by the leader of a compacted topic.
    batch = encode_batch(records, base_offset=log.log_end_offset, partition_leader_epoch=0, **fields)
    first = log.append_as_follower(batch).first_offset
    log.update_high_watermark(log.log_end_offset)
    return first


def close_segment(log: Log, *, age_ms: int = 0) -> None:
    """Begin a new segment; the one before was last modified ``age_ms`` before the clock's time."""
    path = log.segments.active.log.path
    log.roll()
    log.storage.files.set_modified_ms(path, log.storage.clock.now_ms() - age_ms)


def records_in(log: Log) -> list[Record]:
    """All records, below the high watermark or not."""
    found: list[Record] = []
    for segment in log.segments:
        for header, content in batches_in(memoryview(Path(segment.log.path).read_bytes())):
            found += read_records(content, header)
    return found


def values_in(log: Log) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {record.offset: (record.key, record.value) for record in records_in(log)}


def names_of(log: Log, *suffixes: str) -> list[str]:
    return [path.name for path in sorted(Path(log.directory).iterdir()) if path.name.endswith(suffixes)]
