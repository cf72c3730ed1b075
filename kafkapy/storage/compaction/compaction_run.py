"""The broker's part of a compaction: a worker process writes new segments, which replace the old ones one by one.

Everything here runs on the event loop; the messages of the worker process are posted to it.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkapy.errors import BrokerError
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.worker import JobCancelledError
from kafkapy.platform.worker_pool import Facts
from kafkapy.storage.compaction.cleanable import Cleanable
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.recovery.replace import CLEANED_SUFFIX, Replacement

if TYPE_CHECKING:
    from kafkapy.storage.compaction.compaction import CompactionRequest

Post = Callable[[Callable[[], object]], object]
"""Calls a function soon, on the event loop."""


class Pool(Protocol):
    """The part of ``WorkerPool`` that is used here."""

    def submit(self, job: str, arguments: Mapping[str, Any], on_progress: Callable[[Facts], object], /) -> "Submitted":
        """Run a job in a worker process."""
        ...

    def close(self) -> None:
        """End the running jobs."""
        ...


class Submitted(Protocol):
    """The part of ``worker_pool.Job`` that is used here."""

    future: Future[Facts]

    def cancel(self) -> None:
        """Cancel the job."""
        ...


JOB: Final = "kafkapy.storage.compaction.compaction"

logger: Final = logging.getLogger(__name__)


class CompactionRun:
    """One compaction of one log, until ``ended(run)`` is called.

    Then ``end_offset`` is the end of the clean part, or ``error`` is set: ``JobCancelledError`` after an abort, else
    an error of ``Job`` or of the disk. Segments that were replaced before the error stay replaced.
    """

    def __init__(self, cleanable: Cleanable, post: Post, ended: Callable[["CompactionRun"], object]) -> None:
        self.log = cleanable.log
        self.end_offset: int | None = None
        self.facts: Facts = {}
        self.error: Exception | None = None
        self._post = post
        self._ended = ended
        self._job_is_over = False
        self._is_over = False
        self._waiting: deque[Facts] = deque()
        self._replacement: Replacement | None = None

    def begin(self, pool: Pool, request: "CompactionRequest") -> None:
        """Submit the job to the pool."""
        self._job = pool.submit(JOB, request._asdict(), lambda facts: self._post(lambda: self._segment_is_ready(facts)))
        self._job.future.add_done_callback(lambda future: self._post(lambda: self._job_ended(future)))

    def abort(self) -> None:
        """Replace no further segments, because records or the log are about to be removed; the worker ends later."""
        self._fail(JobCancelledError())

    def _segment_is_ready(self, facts: Facts) -> None:
        self._waiting.append(facts)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._replacement is None:
            facts = self._waiting.popleft()
            try:
                self._replace(facts)
            except (OSError, BrokerError) as error:
                self._fail(error)

    def _replace(self, facts: Facts) -> None:
        log = self.log
        new = [log.new_segment(base, CLEANED_SUFFIX) for base in facts["bases"]]
        if self.error is not None:
            for segment in new:
                segment.remove()
            return
        for segment in new:
            self._load(segment)
        bases = set(facts["replaces"])
        old: list[Segment] = [segment for segment in log.segments if segment.base_offset in bases]
        if len(old) != len(bases):
            raise KafkaStorageError(f"{log.topic_partition} has lost segments while it was compacted")
        self._replacement = Replacement(log, new, old, self._replaced)
        self._replacement.begin()

    def _load(self, new: Segment) -> None:
        files = self.log.storage.files
        stem = f"{self.log.directory}/{new.base_offset:020d}"
        from kafkapy.storage.compaction.compaction import SUFFIXES

        paths = {kind: stem + kind + CLEANED_SUFFIX for kind in SUFFIXES}
        sizes = {kind: files.size(path) for kind, path in paths.items() if files.exists(path)}
        if not sizes.keys() >= set(SUFFIXES[:-1]):
            raise KafkaStorageError(f"the new segment {stem} lacks files: it has only {sorted(sizes)}")
        new.load(sizes)

    def _replaced(self, error: OSError | None) -> None:
        self._replacement = None
        if error is not None:
            self._fail(error)
        self._go_on()
        self._end_if_over()

    def _job_ended(self, future: Future[Facts]) -> None:
        self._job_is_over = True
        error = future.exception()
        if error is None:
            self.facts = future.result()
        else:
            assert isinstance(error, Exception)
            self._fail(error)
        self._end_if_over()

    def _fail(self, error: Exception) -> None:
        """Keep the first error, cancel the job and abort a replacement."""
        if self.error is None:
            self.error = error
            self._job.cancel()
        if self._replacement is not None:
            replacement, self._replacement = self._replacement, None
            try:
                replacement.abort()
            except OSError as worse:
                logger.error("The compaction of %s can't be undone: %s", self.log.topic_partition, worse)
        self._go_on()
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._is_over or not self._job_is_over or self._replacement is not None or self._waiting:
            return
        self._is_over = True
        if self.error is None:
            self.end_offset = self.facts["end_offset"]
        else:
            self._remove_leftovers()
        self._ended(self)

    def _remove_leftovers(self) -> None:
        """Remove the ``.cleaned`` files of a worker process that has failed, unless the log's folder was removed.

        A start that finds such a file would treat later segments, replaced before the crash, as incomplete.
        """
        storage, directory = self.log.storage, self.log.directory
        try:
            for name, _ in storage.files.list_directory(directory):
                if name.endswith(CLEANED_SUFFIX):
                    storage.files.remove(f"{directory}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            storage.disk_failed(directory, error)
