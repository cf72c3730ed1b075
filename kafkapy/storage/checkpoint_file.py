"""A checkpoint as a running broker keeps it: written when it changes, by the flusher's thread or on the spot.

Two writes of one file can be under way: one that the thread waits with, and one that has to be on the disk before
offsets fall (``stale_checkpoints``). They go one after the other, and what was asked for last is what stays.
"""

from collections.abc import Callable, Mapping
from threading import Lock

from kafkapy.storage.checkpoints import OffsetCheckpoint
from kafkapy.storage.flusher import Flusher
from kafkapy.types import TopicPartition


class CheckpointFile:
    """Asked on the loop; only ``_put`` runs on another thread."""

    __slots__ = ("_checkpoint", "_lock", "_last_number", "_put_number", "_pending", "_known", "_known_number")

    def __init__(self, checkpoint: OffsetCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._lock = Lock()
        self._last_number = self._put_number = self._known_number = 0
        self._pending: dict[int, dict[TopicPartition, int]] = {}
        self._known: dict[TopicPartition, int] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """Return what the file says; raises ``MalformedCheckpointError``."""
        found = self._checkpoint.read()
        self._known = found or None
        return found

    def highest(self, partition: TopicPartition) -> int:
        """Return the highest offset of a partition that a crash may leave in the file; 0 if none."""
        return max(content.get(partition, 0) for content in (self._known or {}, *self._pending.values()))

    def write(
        self, offsets: Mapping[TopicPartition, int], flusher: Flusher, failed: Callable[[OSError], object] | None
    ) -> None:
        """See ``DataDirectory.write_checkpoint``."""
        if not self._pending and self._known == offsets:
            return
        number = self._last_number = self._last_number + 1
        content = self._pending[number] = dict(offsets)
        refused: list[OSError] = []

        def write() -> None:
            try:
                self._put(content, number)
            except OSError as error:
                refused.append(error)

        def done() -> None:
            del self._pending[number]
            if refused and failed is None:
                raise refused[0]
            if refused and failed is not None:
                failed(refused[0])
            elif number > self._known_number:
                self._known, self._known_number = content, number

        flusher.run(write, done)

    def remove(self) -> None:
        """Remove the file, whatever is still to be written of what was asked for before; raises ``OSError``."""
        number = self._last_number = self._last_number + 1
        with self._lock:
            self._checkpoint.remove()
            self._put_number = number
        self._known, self._known_number = None, number

    def _put(self, content: Mapping[TopicPartition, int], number: int) -> None:
        """Replace the file, unless a later write has been quicker."""
        with self._lock:
            if number > self._put_number:
                self._checkpoint.write(content)
                self._put_number = number
