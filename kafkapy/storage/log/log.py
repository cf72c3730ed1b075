"""A partition's log: its segments, offsets, producers and leader epochs, and every operation that changes them.

``log_start_offset ≤ high_watermark ≤ log_end_offset`` holds whenever a method returns. The first two bound the offsets
that clients may read, ``recovery_point`` bounds the offsets that are on the disk (``durability``). Each offset has the
methods that move it, and no other code assigns it:

- ``log_end_offset``: ``append_as_leader``, ``append_as_follower``, ``truncate_to``, ``truncate_fully_and_start_at``;
- ``high_watermark``: ``update_high_watermark``; a truncation keeps it between the log's new start and end;
- ``log_start_offset``: ``advance_log_start_offset``, ``delete_oldest_segments``, ``truncate_to`` below it, and
  ``truncate_fully_and_start_at``, which raises it too (a follower that is far behind its leader);
- ``recovery_point``: ``advance_recovery_point`` after an fsync, ``lower_recovery_point`` before files are cut.

``recovery.load`` sets them all when it loads a log; ``begin_at`` and ``end_at`` are for it alone.

**Append.** No state changes before the write, and the bytes of a failed write are cut off: so a refused or failed
append does not change the records. As in Apache Kafka, a full segment is rolled before the producer is checked, so a
batch that is refused for its producer, or is a duplicate, may begin a segment.

**Roll.** ``roll`` has the rules by which a new segment begins.

**Delete.** A segment leaves the list at once, its files are renamed to ``.deleted``, and removed after
``file.delete.delay.ms``. A reader that found the segment before can continue to read it.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.platform.disk_errors import as_storage_error, is_passing, storage_error
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files, FileSlice, files_removal
from kafkapy.platform.flusher import Flusher, InlineFlusher, sync_all
from kafkapy.records.batch import (
    CONTROL_BIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assign,
    iterate_headers,
)
from kafkapy.records.control import ControlRecord, MarkerBatch, read_control
from kafkapy.records.errors import CorruptRecordError, UnsupportedForMessageFormatError
from kafkapy.records.scanner import UsualBatch
from kafkapy.records.validate import (
    PRODUCER,
    CheckedBatch,
    ProducePolicy,
    ValidatedBatch,
    as_validated,
    at_offset,
    usual_batch,
    usual_own_batch,
    validate_own,
    validate_produced,
)
from kafkapy.storage.errors import (
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    UnrecalledBatchError,
    UnverifiedBatchError,
)
from kafkapy.storage.log.durability import Durability
from kafkapy.storage.log.index import IndexCache
from kafkapy.storage.log.leader_epochs import LEADER_EPOCHS_NAME, LeaderEpochs
from kafkapy.storage.log.producer_state import MAX_PRODUCERS, ProducedBatch, ProducerState, ignore_eviction
from kafkapy.storage.log.recall import recall
from kafkapy.storage.log.replicated import check_replicated
from kafkapy.storage.log.roll import check_size, must_roll, next_base_offset, rolling_ms
from kafkapy.storage.log.salvage import Damage, salvage
from kafkapy.storage.log.segment import (
    DELETED_SUFFIX,
    AppendedRange,
    Segment,
    Segments,
    TimestampOffset,
)
from kafkapy.storage.log.time_search import find_timestamp
from kafkapy.storage.partition_metadata import PARTITION_METADATA_NAME, encode_partition_metadata, read_topic_id
from kafkapy.turns import Steps
from kafkapy.types import NO_PRODUCER_ID, NO_TIMESTAMP, NO_TOPIC_ID, TopicPartition, base64_id, maker

logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_EXPIRATION_MS: Final = 604_800_000
DEFAULT_LARGEST_BATCH: Final = 100 * 1024 * 1024
"""The default of ``socket.request.max.bytes``."""
TAIL_BATCHES: Final = 128
"""Maximum number of positions of batches at the log's end that are remembered."""
MAX_INDEX_INTERVAL_BYTES: Final = 1 << 20
"""The largest ``index.interval.bytes`` that has an effect: a read looks through as many bytes on the event loop."""
SEGMENTS_IN_A_STEP: Final = 16
"""Segments that are deleted, or whose files are removed, between two places to pause: about a millisecond."""
SEGMENTS_TO_FORGET: Final = 512
"""Segments of a deleted log whose memory is freed between two places to pause: some hundred microseconds."""
COMPRESSION_TYPES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


class AppendResult(NamedTuple):
    """The place of an appended batch; ``log_append_time_ms`` is -1 unless the topic has LogAppendTime."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    size: int


class LogRead(NamedTuple):
    """The batches found for an offset; the first one may begin below it, the last one may be incomplete."""

    records: FileSlice | bytes
    segment: Segment | None = None
    """The position of the records; None without records."""


class LogPosition(NamedTuple):
    """The place of an offset in a log's files: segment and byte of its ``.log`` (Apache Kafka's LogOffsetMetadata)."""

    segment_base_offset: int
    position: int


_result_of: Final = maker(AppendResult)
_found_of: Final = maker(LogRead)
_NOTHING: Final = LogRead(b"")


class LogOwner(Protocol):
    """The object that keeps the logs (``LogManager``): called when a disk fails, and before a log loses records."""

    def disk_failed(self, path: str, error: OSError) -> None:
        """Handle the failure of a disk that can't read or write ``path`` (``disk_errors``)."""

    def offsets_fall(self, log: "Log") -> None:
        """Lower the checkpoints to the log's recovery point and start, which were lowered; its files are cut then."""

    def about_to_cut(self, log: "Log", offset: int) -> None:
        """Abort a compaction of the log, which will lose its records from ``offset`` on or is no longer compacted."""


class NoOwner:
    """For logs without a data directory, checkpoints and cleaner."""

    def disk_failed(self, _path: str, _error: OSError) -> None:
        """See ``LogOwner``."""

    def offsets_fall(self, _log: "Log") -> None:
        """See ``LogOwner``."""

    def about_to_cut(self, _log: "Log", _offset: int) -> None:
        """See ``LogOwner``."""


@dataclass(slots=True, eq=False)
class Storage:
    """The objects and settings that all logs of a broker share."""

    clock: Clock
    files: Files = field(default_factory=Files)
    flusher: Flusher = field(default_factory=InlineFlusher)
    index_cache: IndexCache = field(default_factory=IndexCache)
    producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS
    max_producers: int = MAX_PRODUCERS
    largest_batch: int = DEFAULT_LARGEST_BATCH
    """Bytes of the largest batch that a client can send, even if a topic's ``max.message.bytes`` allows more."""
    producer_evicted: Callable[[], None] = ignore_eviction
    """Called for each producer id that a partition evicts because it has ``max_producers`` of them."""
    random: Random = field(default_factory=Random)
    recovered: Callable[[int], object] = lambda _size: None
    """Called with the size in bytes of each segment that a recovery has read."""
    puts_off: bool = True
    """Whether a start on a full disk keeps index entries, snapshots and epochs in memory (``disk_errors``)."""
    verifies_transactions: bool = False
    """Whether a client's batch begins a transaction only after its coordinator has confirmed it (KIP-890)."""
    keeps_topic_ids: bool = True
    """Whether the cluster has ids of topics; if not, opening a log removes its ``partition.metadata``."""
    owner: LogOwner = field(default_factory=NoOwner)

    def set_owner(self, owner: LogOwner) -> None:
        """Set the object that keeps the logs, once."""
        assert isinstance(self.owner, NoOwner), "logs have one owner"
        self.owner = owner

    def disk_failed(self, path: str, error: OSError) -> None:
        """See ``LogOwner.disk_failed``; for ``disk_errors``."""
        self.owner.disk_failed(path, error)


class Log:
    """The log of one partition, used on one thread; ``create`` makes its files, or ``recovery.load`` reads them."""

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
        "topic_id",
        "_owes_topic_id",
        "log_start_offset",
        "log_end_offset",
        "high_watermark",
        "recovery_point",
        "durability",
        "truncations",
        "last_flush_ms",
        "is_failing",
        "tail",
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
        self.topic_id = NO_TOPIC_ID
        self._owes_topic_id = False
        """Whether ``partition.metadata`` has to be brought to the disk by the next flush."""
        """The id of the topic that the directory belongs to, ``NO_TOPIC_ID`` if it is not known (KIP-516)."""
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.durability = Durability(self)
        self.truncations = 0
        """The number of changes of the files' bytes or names that invalidate a running flush."""
        self.last_flush_ms = storage.clock.now_ms()
        self.tail: dict[int, int] = {}
        """Base offset → position of the last batches in the active segment, so that reads at the end need no search."""
        self.is_failing = False
        """The disk refused the last operation, and this was logged."""
        self.config = config
        self.update_config(config)

    def __repr__(self) -> str:
        return f"<Log {self.topic_partition} {self.log_start_offset}..{self.high_watermark}..{self.log_end_offset}>"

    def update_config(self, config: LogConfig) -> None:
        """Apply a changed configuration; written records stay as they are."""
        if config.index_interval_bytes > MAX_INDEX_INTERVAL_BYTES:
            config = replace(config, index_interval_bytes=MAX_INDEX_INTERVAL_BYTES)
        if self.config.compact and not config.compact:
            self.storage.owner.about_to_cut(self, self.log_end_offset)
        self.config = config
        self.policy = produce_policy(self.topic_partition, config)
        self.segment_ms = rolling_ms(config)
        self.durability.configure(follows_appends=config.flush_before_ack)
        self.leader_epochs.keep(config.message_format > 1)

    def create(self) -> None:
        """Make the folder and the files of a new log, which is empty and begins at 0; raises ``OSError``."""
        self.storage.files.make_directory(self.directory)
        self.begin_segment(0)
        self.producer_state.clear(0)

    def load_topic_id(self) -> None:
        """Read the topic's id from ``partition.metadata``, or remove the file in a cluster without ids.

        There a topic may be created again, or lose its id in the tree, without notice; Apache Kafka, too, removes the
        file with an inter-broker protocol below 2.8. Raises ``OSError``.
        """
        if self.storage.keeps_topic_ids:
            self.topic_id = read_topic_id(self.storage.files, self.directory)
        else:
            self.storage.files.remove(self._topic_id_path)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Keep the id of the log's topic, and write it to ``partition.metadata``; ``NO_TOPIC_ID`` changes nothing.

        The next flush of the log brings the file to the disk, and writes it if the disk is full now. Raises
        ``InconsistentTopicIdError`` if the directory belongs to another topic, ``KafkaStorageError``.
        """
        if topic_id in (NO_TOPIC_ID, self.topic_id):
            return
        if self.topic_id != NO_TOPIC_ID:
            raise InconsistentTopicIdError(
                f"{self.directory} belongs to an earlier topic of this name: its {PARTITION_METADATA_NAME} has the id "
                f"{base64_id(self.topic_id.bytes)}, the topic has {base64_id(topic_id.bytes)}"
            )
        self.topic_id = topic_id
        self._owes_topic_id = True
        with as_storage_error(self, "given its topic's id"):
            self._write_topic_id()

    @property
    def _topic_id_path(self) -> str:
        return f"{self.directory}/{PARTITION_METADATA_NAME}"

    def _write_topic_id(self) -> bool:
        """Write the file, without fsync; false if the disk is full."""
        try:
            self.storage.files.replace(self._topic_id_path, encode_partition_metadata(self.topic_id), sync=False)
        except OSError as error:
            if not is_passing(error):
                raise
            logger.warning("%s can't be written now: %s", self._topic_id_path, error)
            return False
        return True

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

    # append

    def append_as_leader(
        self,
        records: memoryview | bytearray | CheckedBatch | ValidatedBatch,
        leader_epoch: int,
        *,
        from_client: bool = True,
    ) -> AppendResult:
        """Validate one batch, assign its offsets in place, and write it; a ``ValidatedBatch`` is a coordinator's.

        Raises the errors of ``records.validate`` and ``storage.errors``; nothing is written then. A client's batch that
        takes long to validate raises ``LargeBatchError``; the caller validates it and passes a ``CheckedBatch``. It may
        raise ``LargeBatchError`` too, if the log has grown in the meantime. ``UnrecalledBatchError`` is raised for a
        client's batch whose sequence seems to be out of order, if its producer's last batches are not looked up yet,
        ``UnverifiedBatchError`` for one that begins a transaction which its coordinator has to confirm.
        """
        if not isinstance(records, tuple):
            now_ms = self.storage.clock.now_ms()
            usual = usual_batch(records, self.policy, now_ms) if from_client else None
            if usual is None:
                first_offset = self.log_end_offset
                valid = validate_produced(
                    records, self.policy, now_ms, from_client=from_client, first_offset=first_offset, inline=from_client
                )
            elif usual[4] == NO_PRODUCER_ID or self.producer_state.follows(usual):
                return self._append_usual(records, usual, leader_epoch)
            else:
                valid = as_validated(records, usual)
        elif isinstance(records, CheckedBatch):
            valid = at_offset(records, self.log_end_offset)
            return self._append_valid(valid, leader_epoch, from_client=from_client, guard=records.guard)
        else:
            usual = usual_own_batch(records, self.policy)
            if usual is not None:
                return self._append_usual(records.buffer, usual, leader_epoch)
            valid = validate_own(records, self.policy, self.storage.clock.now_ms, self.log_end_offset)
        return self._append_valid(valid, leader_epoch, from_client=from_client)

    def _append_usual(self, records: memoryview | bytearray, usual: UsualBatch, leader_epoch: int) -> AppendResult:
        """As ``_append_valid`` with fewer calls and objects, for a batch without a producer id, or that follows."""
        _, count, max_timestamp, max_timestamp_delta, producer_id, _, _, _ = usual
        first_offset = self.log_end_offset
        last_offset = first_offset + count - 1
        size = len(records)
        if not self.leader_epochs.is_latest(leader_epoch, first_offset):
            self._begin_epoch(leader_epoch, first_offset)
        assign(records, 0, first_offset, leader_epoch)
        self._write(records, (first_offset, last_offset, max_timestamp, first_offset + max_timestamp_delta, size))
        if producer_id != NO_PRODUCER_ID:
            self.producer_state.apply_following(usual, last_offset)
        self._flush_if_due()
        return _result_of((first_offset, last_offset, max_timestamp, NO_TIMESTAMP, self.log_start_offset, False, size))

    def _begin_epoch(self, leader_epoch: int, first_offset: int) -> None:
        with as_storage_error(self, "written"):
            self.leader_epochs.assign(leader_epoch, first_offset)

    def _append_valid(
        self, valid: ValidatedBatch, leader_epoch: int, *, from_client: bool, guard: object | None = None
    ) -> AppendResult:
        """Assign the offsets of a batch that was validated, check its producer, and write it."""
        batch, header, max_timestamp, max_timestamp_delta = valid
        first_offset = self.log_end_offset
        marker = None
        last_offset = first_offset + header.last_offset_delta
        size = header.size
        added = AppendedRange(first_offset, last_offset, max_timestamp, first_offset + max_timestamp_delta, size)
        if header.producer_id >= 0:
            marker, duplicate = self._check_producer(valid, added, from_client=from_client)
            if duplicate is not None:
                return self._answer_again(duplicate, header)
            if from_client and header.is_transactional and self.storage.verifies_transactions:
                self._check_verified(valid, guard)
        if header.magic < MAGIC:
            self._forget_epochs(size)
        else:
            if not self.leader_epochs.is_latest(leader_epoch, first_offset):
                self._begin_epoch(leader_epoch, first_offset)
            assign(batch, 0, first_offset, leader_epoch)
        segment = self._write(batch, added)
        if marker is not None:
            aborted = self.producer_state.apply_marker(header, marker, first_offset)
            if aborted is not None:
                segment.transaction_index.append(aborted)
        elif header.producer_id >= 0:
            self.producer_state.apply(header, first_offset)
        self._flush_if_due()
        append_time = max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else NO_TIMESTAMP
        return _result_of((first_offset, last_offset, max_timestamp, append_time, self.log_start_offset, False, size))

    def _check_producer(
        self, valid: ValidatedBatch, added: AppendedRange, *, from_client: bool
    ) -> tuple[ControlRecord | None, ProducedBatch | None]:
        """Return the batch's marker if it is one, or the earlier batch that it repeats."""
        state = self.producer_state
        batch, header, _, _ = valid
        if not header.attributes & CONTROL_BIT:
            check_size(self.config, header.size)
        try:
            if header.attributes & CONTROL_BIT:
                marker = valid.control if isinstance(valid, MarkerBatch) else read_control(batch, header)
                state.check_marker(header, marker)
                return marker, None
            duplicate = self._check_sequence(valid, from_client=from_client)
        except BrokerError:
            self._end_full_segment(added)
            raise
        if duplicate is not None:
            self._end_full_segment(added)
        return None, duplicate

    def _check_sequence(self, valid: ValidatedBatch, *, from_client: bool) -> ProducedBatch | None:
        """As ``ProducerState.check``; after a start the log may have to be searched for a batch that is sent again."""
        state = self.producer_state
        try:
            return state.check(valid.header, from_client=from_client)
        except OutOfOrderSequenceError:
            if not state.unrecalled_below:
                raise
        raise UnrecalledBatchError(CheckedBatch(valid, self.log_end_offset))

    def _check_verified(self, valid: ValidatedBatch, guard: object | None) -> None:
        """Raise ``UnverifiedBatchError`` for a batch that begins a transaction which is not verified."""
        state, header = self.producer_state, valid.header
        producer = header.producer_id, header.producer_epoch
        if not state.is_verified(*producer, guard):
            raise UnverifiedBatchError(
                CheckedBatch(valid, self.log_end_offset, state.guard(*producer, header.base_sequence))
            )

    def _end_full_segment(self, added: AppendedRange) -> None:
        """Roll if ``added`` requires it, although it is not appended."""
        with as_storage_error(self, "written"):
            if must_roll(self.segments.active, added, self.config, self.storage.clock):
                self._roll_to(added.first_offset)

    def _answer_again(self, batch: ProducedBatch, header: BatchHeader) -> AppendResult:
        """Return the result of the first append of a repeated batch; like 2.7, with its timestamp as append time."""
        self.durability.resume()
        first_offset, last_offset, timestamp = batch.first_offset, batch.last_offset, batch.timestamp
        return AppendResult(
            first_offset, last_offset, timestamp, timestamp, self.log_start_offset, True, header.size
        )  # fmt: skip

    def append_as_follower(self, records: bytes | bytearray | memoryview) -> AppendResult:
        """Write batches as the leader sent them; an incomplete last one is left out.

        Raises ``UnexpectedAppendOffsetError`` and ``CorruptRecordError``; nothing is written then.
        """
        batches = list(iterate_headers(records))
        added = check_replicated(self.topic_partition, self.log_end_offset, records, batches)
        content = memoryview(records)[: added.size]
        for _, header in batches:
            self._note_epoch(header, added.size)
        segment = self._write(content, added)
        for position, header in batches:
            aborted = self.producer_state.replay(header, content[position : position + header.size])
            if aborted is not None:
                segment.transaction_index.append(aborted)
        self._flush_if_due()
        first_offset, last_offset, max_timestamp, _, size = added
        return AppendResult(
            first_offset, last_offset, max_timestamp, NO_TIMESTAMP, self.log_start_offset, False, size
        )  # fmt: skip

    def _note_epoch(self, header: BatchHeader, size: int) -> None:
        if header.magic < MAGIC:
            self._forget_epochs(size)
            return
        epochs = self.leader_epochs
        # An earlier batch after a gap may have added its epoch at a higher offset and then been refused.
        if header.partition_leader_epoch > epochs.latest or header.base_offset < epochs.latest_start_offset:
            with as_storage_error(self, "written"):
                epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _forget_epochs(self, size: int) -> None:
        """Drop all epochs because of a message set, which has none: they would be wrong after it. Kafka does so too.

        They are kept if the ``size`` bytes are too large for a segment (Kafka drops them before it refuses the set).
        """
        check_size(self.config, size)
        if self.leader_epochs.entries:
            logger.warning(
                "Forgetting the leader epochs of %s: a message set of an old format was appended", self.topic_partition
            )
            with as_storage_error(self, "written"):
                self.leader_epochs.clear()

    def _write(self, content: bytes | bytearray | memoryview, appended: tuple[int, int, int, int, int]) -> Segment:
        """Write the batches, ``appended`` are the fields of an ``AppendedRange``."""
        segment = self.segments.active
        try:
            position = segment.append_within(content, appended, self.config, self.segment_ms)
            if position is None:
                added = AppendedRange(*appended)
                if must_roll(segment, added, self.config, self.storage.clock):
                    segment = self._roll_to(next_base_offset(added, self.log_end_offset))
                position = segment.append(content, added, self.config.index_interval_bytes)
        except OSError as error:
            segment.cut_failed_append()
            if segment.base_offset > self.log_end_offset:
                self._take_back_segment()
            raise storage_error(self, "written", error) from error
        self.is_failing = False
        first_offset, last_offset, _, _, _ = appended
        self.log_end_offset = last_offset + 1
        tail = self.tail
        if len(tail) >= TAIL_BATCHES:
            for offset in list(tail)[: TAIL_BATCHES // 2]:
                del tail[offset]
        tail[first_offset] = position
        return segment

    def _flush_if_due(self) -> None:
        durability, messages = self.durability, self.config.flush_messages
        if durability.follows_appends:
            durability.sync_appends()
        elif self.log_end_offset >= messages and durability.unflushed >= messages:  # cheap test first
            durability.flush_messages()

    # roll

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin a new one at the log's end (or ``base_offset``, if that is higher)."""
        return self._roll_to(max(base_offset or 0, self.log_end_offset))

    def _roll_to(self, base_offset: int) -> Segment:
        active = self.segments.active
        if base_offset == active.base_offset:
            return active
        written = active.become_inactive()
        segment = self.new_segment(base_offset)
        state = self.producer_state
        try:
            self._create(segment)
            state.map_end_offset = base_offset
            snapshot = state.take_snapshot()
        except OSError:
            # The log continues in its segment, so the empty one is deleted: a start would take it for the log's end.
            state.map_end_offset = self.log_end_offset
            self._discard(segment)
            raise
        self.segments.add(segment)
        self.tail.clear()
        self.durability.flush_later(base_offset, [*written, snapshot] if snapshot else written)
        return segment

    def begin_segment(self, base_offset: int) -> Segment:
        """Add a new segment at the log's end; with ``preallocate`` its file has ``segment.bytes`` from the start."""
        segment = self.new_segment(base_offset)
        self._create(segment)
        self.segments.add(segment)
        return segment

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """Return a segment of this log without files; their names will have ``suffix``."""
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

    def _create(self, segment: Segment) -> None:
        segment.create(self.config.segment_bytes if self.config.preallocate else 0)

    def _discard(self, segment: Segment) -> None:
        """Delete the files of an unused segment, and producer snapshots above the log's end.

        A start would take the segment for the log's end and skip batches before the snapshot. If the files can't be
        deleted, the log refuses writes.
        """
        try:
            segment.remove()
            self.producer_state.delete_snapshots(above=self.log_end_offset)
        except OSError as error:
            self.storage.disk_failed(self.directory, error)

    def _take_back_segment(self) -> None:
        """Remove the active segment, because the append that began it after a gap failed; the next may be in it."""
        (segment,) = self.segments.cut(len(self.segments) - 1)
        self.invalidate_flush()
        self.lower_recovery_point(self.log_end_offset)
        self.durability.fall_to(self.log_end_offset)
        self.durability.truncated(self.log_end_offset)
        self.producer_state.map_end_offset = self.log_end_offset
        self._discard(segment)

    # read

    def read(
        self, offset: int, max_bytes: int, *, up_to_offset: int | None = None, min_one_batch: bool = True
    ) -> LogRead:
        """Find the batches from ``offset`` on that are below ``up_to_offset`` (None: the log's end).

        The result has at most ``max_bytes``, and the last batch may be cut. The first batch is whole with
        ``min_one_batch``; without it the result is empty if the batch doesn't fit. Raises ``OffsetOutOfRangeError``.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRangeError(
                f"Offset {offset} of {self.topic_partition} is not between {self.log_start_offset} and {end_offset}"
            )
        limit = end_offset if up_to_offset is None or up_to_offset > end_offset else up_to_offset
        if offset >= limit:
            return _NOTHING
        segments = self.segments
        active = segments.active
        candidates = (active,) if offset >= active.base_offset else segments.starting_at(segments.floor(offset))
        try:
            for segment in candidates:
                found = self._position_of(segment, offset)
                if found is not None:
                    end = segment.size if limit == end_offset else self._limit_position(segment, limit)
                    size = _fitting(segment, found, end, max_bytes, min_one_batch=min_one_batch)
                    return _found_of((segment.log.slice(found[0], size), segment)) if size else _NOTHING
        except OSError as error:
            raise storage_error(self, "read", error) from error
        return _NOTHING

    def _position_of(self, segment: Segment, offset: int) -> tuple[int, int | None] | None:
        """Return (position, size if it is known) of the batch with ``offset``; None if ``segment`` ends below it."""
        if segment is self.segments.active:
            position = self.tail.get(offset)
            if position is not None:
                return position, None
        return segment.translate(offset)

    def _limit_position(self, segment: Segment, limit: int) -> int:
        found = self._position_of(segment, limit)
        return segment.size if found is None else found[0]

    def locate(self, offset: int) -> LogPosition:
        """Return the position of the first batch that reaches ``offset``; of the log's end if there is none.

        Raises ``KafkaStorageError``.
        """
        active = self.segments.active
        if offset < self.log_end_offset:
            with as_storage_error(self, "read"):
                for segment in self.segments.starting_at(self.segments.floor(offset)):
                    found = self._position_of(segment, offset)
                    if found is not None:
                        return LogPosition(segment.base_offset, found[0])
        return LogPosition(active.base_offset, active.size)

    def has_batch_from(self, offset: int) -> bool:
        """Tell whether a batch reaches ``offset``; none may, below the end of a compacted log.

        Raises ``KafkaStorageError``.
        """
        active = self.segments.active
        return offset < self.log_end_offset and self.locate(offset) != (active.base_offset, active.size)

    def salvage(
        self, offset: int, take: Callable[[bytes], Steps[object]], damaged: Callable[[Damage], None]
    ) -> Steps[int]:
        """Pass the whole batches of the damaged segment of ``offset`` to ``take``: see ``salvage.salvage``."""
        return salvage(self, offset, take, damaged)

    def upper_bound(self, found: LogRead) -> int:
        """Return an offset above the records found: of the next index entry, of the next segment, or the log's end.

        There must be records. Kafka returns the aborted transactions up to the same offset. Raises
        ``KafkaStorageError``.
        """
        records, segment = found
        assert segment is not None, "no records were found"
        assert isinstance(records, FileSlice), "records in a segment are a slice of its file"
        with as_storage_error(self, "read"):
            offset = segment.offset_index.offset_from(records.position + records.size)
        if offset is not None:
            return offset
        after = self.segments.starting_at(self.segments.floor(segment.base_offset) + 1)
        return after[0].base_offset if after else self.log_end_offset

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions among the records of ``start`` to ``end``."""
        found = []
        with as_storage_error(self, "read"):
            for segment in self.segments.starting_at(self.segments.floor(start)):
                for entry in segment.transaction_index.ended_from(start):
                    if entry.first_offset < end:
                        found.append((entry.producer_id, entry.first_offset))
                    if entry.last_stable_offset >= end:
                        return found
        return found

    def lookup_timestamp(
        self, timestamp_ms: int, from_offset: int = 0, *, inline: bool = False
    ) -> TimestampOffset | None:
        """Return the (offset, timestamp) of the first record at least as late as ``timestamp_ms``.

        Raises ``UnsupportedForMessageFormatError`` where ``message.format.version`` has no timestamps, with ``inline``
        also ``LongSearchError``: then ``from_offset`` is the offset where the search continues.
        """
        if self.config.message_format == 0:
            raise UnsupportedForMessageFormatError(
                f"{self.topic_partition} has message.format.version {self.config.message_format_version}: no timestamps"
            )
        start_offset = max(self.log_start_offset, from_offset)
        with as_storage_error(self, "read"):
            for segment in self.segments.starting_at(self.segments.floor(start_offset)):
                # Compaction or DeleteRecords may have removed the records with the segment's largest timestamps.
                if segment.size and segment.largest_timestamp >= timestamp_ms:
                    found = find_timestamp(segment, timestamp_ms, start_offset, inline=inline)
                    if found is not None:
                        return found
        return None

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of a record (ms); ``NO_TIMESTAMP`` if none has one."""
        return max((each.max_timestamp for each in self.segments if each.size), default=NO_TIMESTAMP)

    def segment_times(self) -> list[tuple[int, int]]:
        """Return (first offset, ms of its file's last change) of each segment, oldest first.

        Unless the last segment is empty, (end offset, now) follows. Raises ``KafkaStorageError``.
        """
        with as_storage_error(self, "read"):
            times = [(max(each.base_offset, self.log_start_offset), each.modified_ms) for each in self.segments]
        if not self.segments.active.size:
            return times
        return [*times, (self.log_end_offset, self.storage.clock.now_ms())]

    # offsets

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, kept between the log's start and end; return it."""
        if offset != self.log_end_offset:  # usually equal, after each append if all followers have caught up
            offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = high_watermark = offset
        if self.producer_state.unreplicated:
            self.producer_state.high_watermark_moved(high_watermark)
        return high_watermark

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide the records below ``offset``; an offset below the present start has no effect.

        Raises ``OffsetOutOfRangeError`` above the high watermark, and ``KafkaStorageError`` for an error of the disk:
        then no records are hidden. A full disk is no error.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} can't begin at {offset}, above its high watermark {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            with as_storage_error(self, "trimmed"):
                self.leader_epochs.truncate_from_start(offset)
            # Apache Kafka also raises the recovery point, although nothing was fsynced: if the power fails before the
            # new start is in its checkpoint, the next start trusts bytes that are not on the disk.
            self.log_start_offset = offset
            self.producer_state.log_start_moved(offset)

    def advance_recovery_point(self, offset: int) -> None:
        """Note that everything below ``offset`` is on the disk with its index entries, after a successful fsync."""
        self.recovery_point = offset
        self.last_flush_ms = self.storage.clock.now_ms()

    def lower_recovery_point(self, offset: int) -> None:
        """Count the records from ``offset`` on as not on the disk; an offset above the present point has no effect."""
        self.recovery_point = min(self.recovery_point, offset)

    def invalidate_flush(self) -> None:
        """Ignore the result of a running flush, because bytes or names of files change."""
        self.truncations += 1

    def mark_failing(self) -> None:
        """Note that the disk refused an operation and that this was logged, until the next append that succeeds."""
        self.is_failing = True

    # for recovery

    def begin_at(self, log_start_offset: int) -> None:
        """Set the start offset that was found while opening."""
        self.log_start_offset = log_start_offset

    def end_at(self, log_end_offset: int, recovery_point: int) -> None:
        """Set the end offset and the recovery point that were found while opening."""
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point

    def rebuild_producer_state(self, end_offset: int) -> None:
        """Rebuild the producers as of ``end_offset`` from a snapshot and the batches after it.

        The batches that a snapshot leaves out are not looked up yet, see ``recall``.
        """
        state = self.producer_state
        if state.map_end_offset == end_offset:
            return
        state.reload(self.log_start_offset, end_offset, self.storage.clock.now_ms())
        for segment in self.segments.between(state.map_end_offset, end_offset):
            try:
                found = segment.translate(max(state.map_end_offset, segment.base_offset))
                for _, header, content in segment.batches(found[0] if found else segment.size, segment.size):
                    state.replay(header, content)
            except (CorruptRecordError, KafkaStorageError) as error:  # below the recovery point: readers will meet it
                logger.warning("The producers of %s are lost from its first bad batch on: %s", segment.log.path, error)
        state.map_end_offset = end_offset

    def recall_batches(self) -> Steps[None]:
        """Complete the producers' last batches from the log, see ``recall``. Raises ``OSError``."""
        largest = min(self.config.max_message_bytes, self.storage.largest_batch)
        return recall(self.producer_state, self.segments, largest)

    # truncate

    def truncate_to(self, offset: int) -> bool:
        """Drop the records from ``offset`` on; return whether there were any."""
        assert offset >= 0, offset
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        if offset < self.segments.active.base_offset:
            self.storage.owner.about_to_cut(self, offset)
        start_offset = min(self.log_start_offset, offset)
        kept = self.segments.floor(offset)
        # The segment that is cut counts as not flushed, so that the next flush includes the cut.
        self._fall_to(start_offset, self.segments.starting_at(kept)[0].base_offset)
        self.delete_segment_files(self.segments.cut(kept + 1)[::-1])
        self.segments.active.truncate_to(offset, self.storage.clock.now_ms())
        self._end_after_truncation(start_offset, offset)
        self.leader_epochs.truncate_from_end(offset)
        self.durability.resume_owed()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records; the next record gets ``offset``."""
        self.storage.owner.about_to_cut(self, min(offset, self.log_start_offset))
        self._fall_to(min(self.log_start_offset, offset), offset)
        self.delete_segment_files(self.segments.cut(0)[::-1])
        self.begin_segment(offset)
        self.producer_state.delete_snapshots(above=-1)
        self._end_after_truncation(offset, offset)
        self.leader_epochs.clear()
        self.durability.resume_owed()

    def _fall_to(self, start_offset: int, recovery_point: int) -> None:
        """Lower the checkpoints before the files are cut, and ignore the results of running flushes."""
        self.invalidate_flush()
        self.lower_recovery_point(recovery_point)
        self.durability.fall_to(recovery_point)
        self.log_start_offset = start_offset
        self.storage.owner.offsets_fall(self)

    def _end_after_truncation(self, start_offset: int, end_offset: int) -> None:
        self.tail.clear()
        self.log_start_offset = start_offset
        self.log_end_offset = end_offset
        self.durability.truncated(end_offset)
        self.high_watermark = min(max(self.high_watermark, start_offset), end_offset)
        self.producer_state.map_end_offset = -1  # the state may include records that were removed
        self.rebuild_producer_state(end_offset)
        self.producer_state.high_watermark_moved(self.high_watermark)

    # delete

    def delete_oldest_segments(self, segments: Sequence[Segment]) -> None:
        """Delete the log's first ``segments``, but not all of the log; the log begins with the next one.

        The file of leader epochs is not written: ``leader_epochs.write_again`` must follow. Raises ``OSError``;
        segments that could not be renamed stay in the log.
        """
        assert list(segments) == self.segments.oldest(len(segments)), "they are the log's first segments"
        renamed: list[Segment] = []
        try:
            for segment in segments:
                segment.rename(DELETED_SUFFIX)
                renamed.append(segment)
        finally:
            self.segments.drop_oldest(len(renamed))
            self._remove_later(renamed)
            self.log_start_offset = offset = max(self.log_start_offset, self.segments.first.base_offset)
            self.producer_state.log_start_moved(offset)
            self.leader_epochs.forget_from_start(offset)

    def delete_segment_files(self, segments: Sequence[Segment]) -> None:
        """Rename the files of ``segments``, which have left the list, unless that is done; remove them later.

        They are renamed in the order given, so that a crash leaves no gap in the log. Raises ``OSError``.
        """
        for segment in segments:
            if not segment.suffix.endswith(DELETED_SUFFIX):
                segment.rename(DELETED_SUFFIX)
        self._remove_later(segments)

    def _remove_later(self, segments: Sequence[Segment]) -> None:
        if segments:
            self.storage.clock.call_later(self.config.file_delete_delay_ms, _remove, self.storage, segments)

    def delete_old_snapshots(self) -> Steps[None]:
        """Remove the producer snapshots that neither a recovery nor a likely truncation needs; raises ``OSError``."""
        while self.producer_state.delete_oldest_snapshots(self._oldest_needed_snapshot()):
            yield

    def _oldest_needed_snapshot(self) -> int:
        segments = self.segments
        kept = segments.starting_at(len(segments) - 2)[0].base_offset
        at_recovery_point = segments.floor(self.recovery_point - 1)
        if at_recovery_point >= 0:
            kept = min(kept, segments.starting_at(at_recovery_point)[0].base_offset)
        return max(kept, self.log_start_offset)

    # move

    def rename_directory(self, path: str) -> None:
        """Give the partition's folder another path; a reader that found the log before can continue to read it.

        Raises ``OSError``; nothing has changed then.
        """
        self.storage.files.rename(self.directory, path)
        self.invalidate_flush()  # a running flush may not have found the files
        self.durability.moved(self.directory, path)
        self.directory = path
        self.producer_state.move_to(path)
        self.leader_epochs.move_to(f"{path}/{LEADER_EPOCHS_NAME}")
        for segment in self.segments:
            segment.move_to(path)
        self.segments.active.is_new = True  # the next flush fsyncs the folders too, whose names have changed

    # durability and close

    def flush(self) -> None:
        """Wait until everything appended is on the disk, and move the recovery point there; raises ``OSError``."""
        self.durability.flush()

    def paths_to_sync(self, end_offset: int, start: int) -> list[str]:
        """Write the index entries of ``start`` to ``end_offset``; return the files to fsync for it."""
        paths: list[str] = []
        for segment in self.segments.between(start, end_offset):
            segment.write_indexes()
            paths += segment.paths_to_sync()
        if start <= self.segments.first.base_offset:
            # This is the first flush: the folder's name must be on the disk too.
            paths.append(os.path.dirname(self.directory))
        self.leader_epochs.write_again()
        if self.leader_epochs.wait_for_flush:
            paths.append(self.leader_epochs.path)
        if self._owes_topic_id and (self.storage.files.exists(self._topic_id_path) or self._write_topic_id()):
            paths.append(self._topic_id_path)
            self._owes_topic_id = False
        return [*paths, self.directory]

    def close(self) -> None:
        """Write a producer snapshot and the final index entries, make everything durable, close the descriptors."""
        sync_all(self.storage.files, self.prepare_close())
        self.finish_close()

    def prepare_close(self) -> list[str]:
        """Write the producer snapshot and the final index entries; return the paths to fsync before ``finish_close``.

        The files of many logs can then be fsynced together. Raises ``OSError``.
        """
        self.producer_state.map_end_offset = self.log_end_offset
        snapshot = self.producer_state.take_snapshot()
        written = self.segments.active.become_inactive()
        self.leader_epochs.write_again()
        paths = [*self.durability.paths_to_close(), *written]
        return [*paths, snapshot] if snapshot else paths

    def finish_close(self) -> None:
        """Move the recovery point to the end, after everything was fsynced, and close the descriptors."""
        self.durability.closed()
        self.release()

    def release(self) -> None:
        """Close files, descriptors and cached indexes of a log that is not used any more. Nothing is written."""
        self.durability.abandon()
        for segment in self.segments:
            segment.close()

    def forget_segments(self) -> bool:
        """Free the memory of some segments of a deleted log; return whether there may be more.

        To free 20,000 of them at once takes 10 ms.
        """
        self.segments.drop_oldest(min(SEGMENTS_TO_FORGET, len(self.segments) - 1))
        return len(self.segments) > 1

    def detach(self) -> None:
        """Break the reference cycles of a deleted log, which is not used any more, so that its memory is freed.

        Full garbage collections, which would find them, are rare (``server/lifecycle/interpreter.py``).
        """
        self.durability.detach()
        self.leader_epochs.detach()


def produce_policy(topic_partition: TopicPartition, config: LogConfig) -> ProducePolicy:
    """Return the policy for produced batches by ``config``."""
    compression = config.compression_type
    return ProducePolicy(
        topic_partition,
        compression=PRODUCER if compression == "producer" else COMPRESSION_TYPES.index(compression),
        timestamp_type=LOG_APPEND_TIME if config.message_timestamp_type == "LogAppendTime" else CREATE_TIME,
        timestamp_difference_max_ms=config.message_timestamp_difference_max_ms,
        key_required=config.compact,
        max_batch_size=config.max_message_bytes,
        magic=config.message_format,
    )


def _fitting(
    segment: Segment, found: tuple[int, int | None], end: int, max_bytes: int, *, min_one_batch: bool
) -> int:  # fmt: skip
    start, first = found
    available = end - start
    if available <= max_bytes:
        return max(available, 0)
    if first is None:
        first = segment.batch_size(start)
    if first <= max_bytes:
        return max_bytes
    return first if min_one_batch and first <= available else 0


def _remove(storage: Storage, segments: Sequence[Segment], start: int = 0) -> None:
    """Remove the files of ``segments`` from number ``start`` on: of some now, of the others in later iterations."""
    end = start + SEGMENTS_IN_A_STEP
    removed = segments[start:end]
    for segment in removed:
        segment.close()
    # These files are not renamed any more, so the flusher's thread can test which of them exist.
    paths = (path for segment in removed for path in segment.paths())
    storage.flusher.run_gently(files_removal(storage.files, paths))
    if end < len(segments):
        storage.clock.call_later(0, _remove, storage, segments, end)
