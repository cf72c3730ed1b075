"""A partition's log: its state, and the operations on it.

``log_start_offset ≤ high_watermark ≤ log_end_offset`` holds whenever a method returns. Appending is in ``append``,
reading in ``read``, truncation in ``truncate``, start-up in ``recovery``.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kafkapy.clock import Clock
from kafkapy.config.log_config import LogConfig
from kafkapy.storage import append, closing, read, rolling, salvage, truncate
from kafkapy.storage.append import AppendResult
from kafkapy.storage.disk_errors import as_storage_error
from kafkapy.storage.durability import Durability
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.storage.files import Files
from kafkapy.storage.flusher import Flusher, InlineFlusher
from kafkapy.storage.index import IndexCache
from kafkapy.storage.leader_epochs import LEADER_EPOCHS_NAME, LeaderEpochs
from kafkapy.storage.producer_state import MAX_PRODUCERS, ProducerState, ignore_eviction
from kafkapy.storage.read import LogPosition, LogRead
from kafkapy.storage.segment import Segment, TimestampOffset
from kafkapy.storage.segments import Segments
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

DEFAULT_PRODUCER_EXPIRATION_MS: Final = 604_800_000


def _nobody_minds(*_: object) -> None:
    """A log by itself has no data directory that could go offline, no checkpoints and no cleaner."""


def _nobody_counts(_size: int) -> None:
    """A recovery that nobody watches."""


@dataclass(slots=True)
class Storage:
    """What all logs of a broker share."""

    clock: Clock
    files: Files = field(default_factory=Files)
    flusher: Flusher = field(default_factory=InlineFlusher)
    index_cache: IndexCache = field(default_factory=IndexCache)
    producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS
    max_producers: int = MAX_PRODUCERS
    producer_evicted: Callable[[], None] = ignore_eviction
    """Told of each producer id that a partition forgets because it knows ``max_producers`` of them."""
    random: Random = field(default_factory=Random)
    disk_failed: Callable[[str, OSError], None] = _nobody_minds
    """Told the path of what a broken disk refused to read or write (``disk_errors``)."""
    recovered: Callable[[int], None] = _nobody_counts
    """Told the bytes of each segment that a recovery has read."""
    offsets_fall: Callable[["Log"], None] = _nobody_minds
    """Told of a log whose recovery point or start has fallen, before its files follow (``stale_checkpoints``)."""
    puts_off: bool = True
    """Whether a start on a full disk goes on with index entries, snapshots and epochs in memory (``disk_errors``)."""
    about_to_cut: Callable[["Log", int], None] = _nobody_minds
    """Told of a log that is about to lose its records from an offset on, or its compaction (``cleaner``)."""


class Log:
    """One partition on disk. Everything runs on one thread; ``recovery.open_log`` makes it."""

    __slots__ = (
        "topic_partition",
        "directory",
        "config",
        "policy",
        "segment_ms",
        "storage",
        "segments",
        "producer_state",
        "leader_epochs",
        "log_start_offset",
        "log_end_offset",
        "high_watermark",
        "recovery_point",
        "durability",
        "truncations",
        "last_flush_ms",
        "tail",
        "is_failing",
    )

    def __init__(self, topic_partition: TopicPartition, directory: str, config: LogConfig, storage: Storage) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.storage = storage
        self.segments = Segments()
        self.producer_state = ProducerState(
            storage.files,
            directory,
            storage.producer_expiration_ms,
            storage.max_producers,
            storage.producer_evicted,
        )
        self.leader_epochs = LeaderEpochs(
            storage.files, f"{directory}/{LEADER_EPOCHS_NAME}", lambda: self.log_end_offset
        )
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.durability = Durability(self)
        self.truncations = 0
        self.last_flush_ms = storage.clock.now_ms()
        self.tail: dict[int, int] = {}
        """Base offset → position of the last batches in the active segment: reads at the end don't search."""
        self.is_failing = False
        """The disk refused the last operation: the log file has a line of it already."""
        self.update_config(config)

    def __repr__(self) -> str:
        return f"<Log {self.topic_partition} {self.log_start_offset}..{self.high_watermark}..{self.log_end_offset}>"

    def update_config(self, config: LogConfig) -> None:
        """Take over a changed configuration; what is written stays as it is."""
        self.config = config
        self.policy = append.produce_policy(self.topic_partition, config)
        self.segment_ms = rolling.segment_ms(config)
        self.durability.configure(follows_appends=config.flush_before_ack)
        self.leader_epochs.keep(config.message_format > 1)
        if not config.compact:
            self.storage.about_to_cut(self, self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all record batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended; read_committed consumers see no further."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    # writing

    append_as_leader = append.append_as_leader  # by name, since a method that calls it costs every request

    def append_as_follower(self, records: bytes | bytearray | memoryview) -> AppendResult:
        """Write batches as the leader sent them; an incomplete last one is left out.

        Raises ``UnexpectedAppendOffsetError`` and ``CorruptRecordError``; nothing is written then.
        """
        return append.append_as_follower(self, records)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin one at the log's end (or ``base_offset``, if that is higher)."""
        return rolling.roll(self, max(base_offset or 0, self.log_end_offset))

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """Return a segment of this log that has no files yet; ``suffix`` will stand behind their names."""
        storage, config = self.storage, self.config
        segment = Segment(
            storage.files,
            storage.index_cache,
            self.directory,
            base_offset,
            config.segment_index_bytes,
            storage.clock.now_ms(),
        )
        segment.rename(suffix, on_disk=False)
        if config.segment_jitter_ms:
            segment.roll_jitter_ms = storage.random.randrange(min(config.segment_jitter_ms, config.segment_ms))
        return segment

    # reading

    def read(
        self, offset: int, max_bytes: int, *, up_to_offset: int | None = None, min_one_batch: bool = True
    ) -> LogRead:
        """Find the batches from ``offset`` on that lie below ``up_to_offset`` (None: the log's end).

        At most ``max_bytes``, the last batch perhaps cut; the first one is whole with ``min_one_batch``, and without
        it nothing is returned when it doesn't fit. Raises ``OffsetOutOfRangeError``.
        """
        return read.read(self, offset, max_bytes, up_to_offset, min_one_batch=min_one_batch)

    def locate(self, offset: int) -> LogPosition:
        """Return the position of the first batch that reaches ``offset``; of the log's end if there is none.

        Raises ``KafkaStorageError``.
        """
        return read.locate(self, offset)

    def salvage(
        self, offset: int, take: Callable[[bytes], Steps[object]], damaged: Callable[[salvage.Damage], None]
    ) -> Steps[int]:
        """Give ``take`` the whole batches of the segment of ``offset``, though there be damage: ``salvage.salvage``."""
        return salvage.salvage(self, offset, take, damaged)

    def upper_bound(self, found: LogRead) -> int:
        """Return an offset that the records found do not reach: of the next index entry, segment, or the log's end.

        Some must have been found. It is the one that Kafka answers the aborted transactions up to. Raises
        ``KafkaStorageError``.
        """
        return read.upper_bound(self, found)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions among the records of ``start`` to ``end``."""
        return read.aborted_transactions(self, start, end)

    def lookup_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the (offset, timestamp) of the first record at least as late as ``timestamp_ms``.

        Raises ``UnsupportedForMessageFormatError`` where ``message.format.version`` has no timestamps.
        """
        return read.lookup_timestamp(self, timestamp_ms)

    # offsets

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, kept between the log's start and end; return it."""
        if offset != self.log_end_offset:  # which is where it goes with each append if nobody else has to follow
            offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = high_watermark = offset
        if self.producer_state.unreplicated:
            self.producer_state.high_watermark_moved(high_watermark)
        return high_watermark

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide the records below ``offset``; lower than now does nothing.

        Raises ``OffsetOutOfRangeError`` above the high watermark, ``KafkaStorageError`` when the disk is broken: then
        nothing is hidden. A full one does not matter.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} can't begin at {offset}, above its high watermark {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            with as_storage_error(self, "trimmed"):
                self.leader_epochs.truncate_from_start(offset)
            # Apache Kafka lifts the recovery point too, although nothing was fsynced: if the power fails before the
            # new start is in its checkpoint, the next start would trust what never reached the disk.
            self.log_start_offset = offset
            self.producer_state.log_start_moved(offset)

    def truncate_to(self, offset: int) -> bool:
        """Drop the records from ``offset`` on; return whether there were any."""
        return truncate.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record gets ``offset``."""
        truncate.truncate_fully_and_start_at(self, offset)

    # durability

    def flush(self) -> None:
        """Wait until everything appended is on the disk, and move the recovery point there; raises ``OSError``."""
        self.durability.flush()

    def paths_to_sync(self, end_offset: int, start: int) -> list[str]:
        """Write the index entries of ``start`` to ``end_offset``; return what must be fsynced to make it durable."""
        paths: list[str] = []
        for segment in self.segments.between(start, end_offset):
            segment.write_indexes()
            paths += segment.paths_to_sync()
        if start <= self.segments.first.base_offset:
            # Nothing was flushed yet: the folder's own name must last too.
            paths.append(os.path.dirname(self.directory))
        self.leader_epochs.write_again()
        if self.leader_epochs.wait_for_flush:
            paths.append(self.leader_epochs.path)
        return [*paths, self.directory]

    def delete_old_snapshots(self) -> None:
        """Remove the producer snapshots that neither a recovery nor a likely truncation needs."""
        segments = self.segments
        kept = segments.starting_at(len(segments) - 2)[0].base_offset
        at_recovery_point = segments.floor(self.recovery_point - 1)
        if at_recovery_point >= 0:
            kept = min(kept, segments.starting_at(at_recovery_point)[0].base_offset)
        self.producer_state.delete_snapshots(below=kept)

    def close(self) -> None:
        """Write a producer snapshot and the final index entries, make everything durable, let go of descriptors."""
        closing.close(self)

    def release(self) -> None:
        """Let go of files, descriptors and cached indexes: it is used no more. Nothing is written."""
        self.durability.abandon()
        for segment in self.segments:
            segment.close()
