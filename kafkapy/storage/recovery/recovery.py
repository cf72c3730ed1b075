"""Opens a partition's directory: after a clean stop its files are trusted, after an unclean one checked and rebuilt.

After an unclean stop every segment that reaches beyond the recovery point is read: the first batch that is incomplete,
has a wrong CRC or an offset that is too low ends the log; indexes, aborted transactions, leader epochs and producers
are rebuilt from the remaining batches. A segment with an index that can't be right is rebuilt after a clean stop too.

A start after an unclean stop reads in this order:

1. ``.lock`` and ``meta.properties`` of each data directory (``DataDirectories.lock``).
2. ``kafkapy-metadata.sqlite`` and its journal, without ZooKeeper (``EmbeddedStore.open``).
3. For each directory ``.kafka_cleanshutdown``, which is missing, then the checkpoints (recovery points, high
   watermarks, log starts), then the names of the folders (``log_manager_start.survey``). No log is changed before all
   directories have been read. Worker processes may then do step 4 for some logs (``parallel_recovery``).
4. For each log (``load``): complete or remove the ``.swap`` and ``.cleaned`` files of a compaction, remove ``.deleted``
   and temporary files and indexes without a segment (``list_partition``); read the topic's id; open the segments with
   their indexes; load the leader epochs; read the segments from the recovery point on; load or rebuild the producers.
5. Lower the checkpoints that are above the recovered end (``lowered_checkpoints.lower_all_checkpoints``).

A recovery may cut or remove, with a warning where records are lost:

- a ``.log`` from its first bad batch on; later segments are renamed to ``.deleted``;
- batches whose offsets the next segment has too: the next segment is kept;
- empty last segments, if the one before has offsets from their base offset on;
- with ``kafkapy.flush=ack``, segments after missing offsets, which a power failure has taken from the end of the
  segment before: a replica fetches from its log's end, so it would never fetch these again. Compaction leaves such gaps
  too, so they stay in a log that is or was compacted, and without that setting in all logs, as in Apache Kafka. A
  follower that finds one in its leader's log leaves none between two segments (``roll.next_base_offset``), unless they
  are more than 31 bits apart. A start that keeps one moves the recovery point beyond it: the setting may change later;
- every segment, if the log ends below the checkpointed log start;
- snapshots above the log's end, and those above the first segment that is read;
- leader epochs below the log's start and above its end.

A segment with offsets of more than 31 bits above its base offset is split.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Final

from kafkapy.platform.disk_errors import put_off, putting_off
from kafkapy.platform.files import TEMPORARY_SUFFIX
from kafkapy.platform.flusher import sync_all
from kafkapy.records.batch import MAGIC, BatchHeader, crc_is_valid
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.errors import CorruptIndexError, MalformedCheckpointError
from kafkapy.storage.log.index import Index
from kafkapy.storage.log.leader_epochs import EpochEntry, LeaderEpochs, following
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET, Segment, Segments
from kafkapy.storage.log.transaction_index import TransactionIndex
from kafkapy.storage.recovery.listing import Listing, list_partition
from kafkapy.storage.recovery.replace import CLEANED_SUFFIX
from kafkapy.turns import finish
from kafkapy.types import NO_EPOCH

logger = logging.getLogger(__name__)

# The leader epochs of batches that a start reads again, and of batches between them that compaction has removed.
#
# The batches decide: the file may have epochs of removed records, or lack epochs of records that a crash has brought
# back. But where offsets are missing before the first batch of an epoch, the epoch may have begun at one of them. There
# the file is used as far as it agrees with the batches around; Apache Kafka 2.7 uses the whole file.


_ABOVE_ALL: Final = EpochEntry(2**31, 2**63)


class RecoveredEpochs:
    """Collects the epochs of the batches, in order; ``take`` writes the file, so that a crash before loses nothing."""

    __slots__ = ("_epochs", "_entries", "_in_file", "_end_offset")

    def __init__(self, epochs: LeaderEpochs, offset: int, below: Iterable[EpochEntry]) -> None:
        """``below`` has the epochs that began before ``offset``, the base offset of the first segment that is read."""
        self._epochs = epochs
        self._entries = list(below)
        self._in_file = [entry for entry in epochs.entries if entry.start_offset >= offset]
        self._end_offset = offset

    @property
    def _latest(self) -> int:
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def meet(self, header: BatchHeader) -> None:
        """Add the epoch of the next batch; batches of formats 0 and 1 have none."""
        epoch = header.partition_leader_epoch
        if epoch > self._latest:
            self._take_from_file(EpochEntry(epoch, header.base_offset))
            if epoch > self._latest:
                self._entries = following(self._entries, EpochEntry(epoch, header.base_offset))
        if epoch > NO_EPOCH:
            self._end_offset = header.next_offset

    def _take_from_file(self, met: EpochEntry) -> None:
        """Add the file's epochs that begin after the last batch and before the batch of ``met``."""
        for entry in self._in_file:
            if self._end_offset <= entry.start_offset < met.start_offset and self._latest < entry.epoch <= met.epoch:
                self._entries.append(entry)

    def take(self, *, may_wait: bool = False) -> None:
        """Write the epochs after the last batch. Raises ``OSError``, but with ``may_wait`` not for a full disk."""
        self._take_from_file(_ABOVE_ALL)
        if self._entries or self._epochs.entries:
            self._epochs.rebuild(self._entries, may_wait=may_wait)


# Splits a segment whose offsets are too far above its base offset.
#
# An index holds offsets as 31 bits above the base. Releases of Apache Kafka before 1.1 compacted segments together that
# reach further; 2.7 splits these when it finds them, and so does a recovery here.


_PIECE_BYTES: Final = 1024 * 1024


def split(log: "Log", segment: Segment, position: int, base_offset: int) -> Segment:
    """Move the bytes from ``position`` on into a new segment, next in the log's list, without building its indexes.

    A crash leaves the state before or after, or the records in both segments: then the new one is used. Raises
    ``OSError``.
    """
    files = log.storage.files
    path = f"{log.directory}/{base_offset:020d}{LOG_SUFFIX}"
    copied = position
    while copied < segment.size:
        piece = segment.log.read_at(min(_PIECE_BYTES, segment.size - copied), copied)
        files.write(path + CLEANED_SUFFIX, bytearray(piece), copied - position)
        copied += len(piece)
    files.sync_path(path + CLEANED_SUFFIX)
    new = log.new_segment(base_offset)
    new.create()
    files.rename(path + CLEANED_SUFFIX, path)
    files.sync_path(log.directory)
    files.truncate(segment.log.path, position)
    new.size, segment.size = segment.size - position, position
    log.segments.replace([segment], [segment, new])
    return new


END_OF_OFFSETS: Final = 2**63


def load(log: Log, checkpointed: Checkpointed) -> None:
    """Load the state of ``log``, a new object, from its directory, which is created if it is missing.

    Raises ``KafkaStorageError`` when the directory has files that must not be changed, ``OSError`` as the disk does.
    """
    listing = list_partition(log.storage.files, log.directory, keep_deleted=checkpointed.recovered)
    log.load_topic_id()
    log.producer_state.snapshot_offsets += listing.snapshots
    doubtful = _load_segments(log, listing)
    _log_cut_segments(log, doubtful, checkpointed)
    _drop_empty_tail_segments(log)
    doubtful = [found for found in doubtful if found[0] in log.segments]
    epochs_are_lost = _load_leader_epochs(log, listing.leader_epochs)
    start_offset = _start_offset(log, checkpointed)
    if log.segments:
        log.begin_at(max(start_offset, log.segments.first.base_offset))
    end_offset = _recover(log, doubtful, checkpointed)
    if not log.segments or end_offset < start_offset:
        _drop(log, log.segments.cut(0), f"the log begins at {start_offset}, above all of it")
        _begin(log, start_offset, is_new=checkpointed.is_new)
        end_offset = start_offset
    if end_offset < checkpointed.recovery_point:
        logger.error(
            "%s ends at offset %d, and everything up to %d was on the disk: the records in between are lost",
            log.directory,
            end_offset,
            checkpointed.recovery_point,
        )
    log.begin_at(max(start_offset, log.segments.first.base_offset))
    log.end_at(end_offset, end_offset if checkpointed.clean else _recovery_point(log, end_offset, checkpointed))
    if log.is_failing:
        _lower_recovery_point(log)
    if epochs_are_lost:
        log.leader_epochs.rebuild(_batch_epochs(log, END_OF_OFFSETS), may_wait=log.storage.puts_off)
    log.leader_epochs.truncate_from_start(log.log_start_offset)
    if checkpointed.clean:
        log.leader_epochs.forget_from_end(end_offset)
    else:
        log.leader_epochs.truncate_from_end(end_offset)
    log.producer_state.delete_snapshots(
        above=end_offset
    )  # their records were removed, and other records will get the offsets
    if checkpointed.is_trusted and listing.says_nothing_of_producers(end_offset):
        log.producer_state.clear(end_offset)
    else:
        log.rebuild_producer_state(end_offset)
    if not checkpointed.clean:
        finish(log.recall_batches())
    with putting_off(log):
        log.producer_state.take_snapshot()
        if not (checkpointed.clean or checkpointed.was_compacted) and _has_gap(log):
            log.flush()
            # not to the log's end: after a crash another start would lower it to where it reads again, which is here
            log.lower_recovery_point(log.segments.active.base_offset)
    log.update_high_watermark(checkpointed.high_watermark)


def _has_gap(log: Log) -> bool:
    """Whether offsets are missing between two segments above the recovery point."""
    segments = log.segments.starting_at(log.segments.floor(log.recovery_point))
    return any(before.next_offset() < following.base_offset for before, following in pairwise(segments))


def _start_offset(log: Log, checkpointed: Checkpointed) -> int:
    """The checkpointed start, unless another checkpoint of the same clean stop says that the log ended below it."""
    start_offset, end_offset = checkpointed.log_start_offset, checkpointed.recovery_point
    if not checkpointed.clean or end_offset <= 0 or start_offset <= end_offset:
        return start_offset
    logger.warning(
        "%s can't begin at %d, as its checkpoint says: it ended at %d. It begins at its first segment",
        log.directory,
        start_offset,
        end_offset,
    )
    return 0


def _recovery_point(log: Log, end_offset: int, checkpointed: Checkpointed) -> int:
    """Return the base offset of the first segment that was read: the next flush brings its new indexes to the disk."""
    recovery_point = min(max(checkpointed.recovery_point, 0), end_offset)
    return min(recovery_point, log.segments.between(recovery_point, END_OF_OFFSETS)[0].base_offset)


def _lower_recovery_point(log: Log) -> None:
    """Have the next flush write the indexes that a full disk did not take."""
    for segment in log.segments:
        if segment.has_unwritten_indexes:
            log.lower_recovery_point(segment.base_offset)
            return


def _begin(log: Log, base_offset: int, *, is_new: bool) -> None:
    """As ``Log.begin_segment``; on a full disk the first append creates the files, unless the log itself is new."""
    try:
        log.begin_segment(base_offset)
    except OSError as error:
        if is_new:
            raise
        put_off(log, error)
        segment = log.new_segment(base_offset)
        segment.create_later()
        log.segments.add(segment)


def _drop_empty_tail_segments(log: Log) -> None:
    """Drop empty last segments if the segment before has offsets from their base offset on."""
    segments = log.segments
    while len(segments) > 1 and not segments.active.size:
        before = segments.starting_at(len(segments) - 2)[0]
        end_offset = _readable_end(before)
        if end_offset <= segments.active.base_offset:
            return
        _drop(log, segments.cut(len(segments) - 1), f"it is empty, and the one before it ends at {end_offset}")


def _readable_end(segment: Segment) -> int:
    """The offset after the last batch that a recovery will keep, which is the last one before damage."""
    with suppress(CorruptRecordError):
        return segment.next_offset()
    end_offset = segment.base_offset
    with suppress(CorruptRecordError):
        for _, header, content in segment.batches(0, segment.size):
            _check(header, content, end_offset, END_OF_OFFSETS)
            end_offset = header.next_offset
    return end_offset


def _load_leader_epochs(log: Log, size: int) -> bool:
    """Load the leader epochs; return whether they are lost: a damaged file, or an empty or missing one with records."""
    if not size:
        return any(segment.size for segment in log.segments)
    try:
        log.leader_epochs.load()
    except MalformedCheckpointError as error:
        logger.warning("%s; it is rebuilt from the batches", error)
        return True
    return False


def _batch_epochs(log: Log, end_offset: int) -> Iterator[EpochEntry]:
    """Yield the epochs of the batches in the segments below ``end_offset``."""
    for segment in log.segments.between(0, end_offset):
        with suppress(CorruptRecordError):  # below the recovery point: readers will get the error
            for _, header, _ in segment.batches(0, segment.size):
                if header.magic >= MAGIC:
                    yield EpochEntry(header.partition_leader_epoch, header.base_offset)


def _epochs_again(log: Log, offset: int) -> RecoveredEpochs:
    """Make a ``RecoveredEpochs`` for batches from ``offset`` on, with all epochs that began below it.

    A higher log start is written to the epochs' file at once and to its checkpoint later: a crash in between brings
    back records whose epochs were dropped, also below ``offset``.
    """
    kept = [entry for entry in log.leader_epochs.entries if entry.start_offset < offset]
    first = kept[0].start_offset if kept else offset
    lost: list[EpochEntry] = []
    if first > log.log_start_offset:
        lost += takewhile(lambda entry: entry.start_offset < first, _batch_epochs(log, offset))
    return RecoveredEpochs(log.leader_epochs, offset, [*lost, *kept])


def _load_segments(log: Log, listing: Listing) -> list[tuple[Segment, Exception]]:
    """Open the segments and return those whose indexes must be rebuilt, and why."""
    doubtful: list[tuple[Segment, Exception]] = []
    for base_offset, sizes in sorted(listing.segments.items()):
        segment = log.new_segment(base_offset)
        log.segments.add(segment)
        try:
            segment.load(sizes)
        except (CorruptIndexError, KeyError) as error:
            doubtful.append((segment, error))
    return doubtful


def _log_cut_segments(log: Log, doubtful: list[tuple[Segment, Exception]], checkpointed: Checkpointed) -> None:
    """Log an error for each closed segment that was on the disk as a whole and has lost batches at its end."""
    unknown = {segment for segment, _ in doubtful}
    for segment, next_segment in pairwise(log.segments):
        was_on_disk = checkpointed.is_trusted or next_segment.base_offset <= checkpointed.recovery_point
        if was_on_disk and segment not in unknown and segment.lacks_batches:
            logger.error("%s is cut off at byte %d: the records after it are lost", segment.log.path, segment.size)


def _recover(log: Log, doubtful: list[tuple[Segment, Exception]], checkpointed: Checkpointed) -> int:
    """Rebuild doubtful and unflushed segments; return the log's end offset."""
    segments = log.segments
    beyond = [] if checkpointed.is_trusted else _beyond(segments, checkpointed.recovery_point)
    for segment, error in doubtful:
        if segment not in beyond:  # not logged for the others: a crash of Apache Kafka leaves zeros in their indexes
            logger.warning("Rebuilding the indexes of %s: %s", segment.log.path, error)
            _recover_and_sync(log, segment)
            log.producer_state.map_end_offset = -1  # a snapshot also has batches that compaction has removed
    if beyond:
        _read_again(log, beyond, checkpointed)
    if not segments:
        return checkpointed.log_start_offset
    try:
        return segments.active.next_offset()
    except CorruptRecordError as error:
        logger.warning("Recovering %s although it was closed: %s", segments.active.log.path, error)
        _recover_and_sync(log, segments.active)
        return segments.active.next_offset()


def _beyond(segments: Segments, recovery_point: int) -> list[Segment]:
    """Return the segments that reach beyond the recovery point.

    Two may overlap, if a power failure undoes a truncation, but not the creation of the segment after it: then the
    records of the earlier one that the later one may get again have to go.
    """
    first = max(segments.floor(recovery_point), 0)
    found = segments.starting_at(max(first - 1, 0))
    if first and _readable_end(found[0]) <= found[1].base_offset:
        del found[0]
    return found


def _read_again(log: Log, beyond: list[Segment], checkpointed: Checkpointed) -> None:
    """Recover the segments from the recovery point on, up to damage or missing offsets."""
    # Later snapshots may have batches that a power failure removed: sent again, these would count as duplicates.
    log.producer_state.delete_snapshots(above=beyond[0].base_offset)
    epochs = _epochs_again(log, beyond[0].base_offset)
    ends_at_gaps = log.config.flush_before_ack and not (log.config.compact or checkpointed.was_compacted)
    end_offset = previous_base = beyond[0].base_offset
    for segment in beyond:
        is_gap = end_offset < segment.base_offset < previous_base + MAX_RELATIVE_OFFSET
        if ends_at_gaps and is_gap and checkpointed.recovery_point <= end_offset:
            reason = f"the offsets from {end_offset} on are missing before it"
            _drop(log, log.segments.cut(log.segments.floor(segment.base_offset)), reason)
            break
        cut = recover_segment(log, segment, epochs)
        previous_base, end_offset = segment.base_offset, log.producer_state.map_end_offset
        if cut is not None:
            _drop(log, log.segments.cut(log.segments.floor(cut.base_offset) + 1), "a corrupt segment comes before")
            break
    epochs.take(may_wait=log.storage.puts_off)


def _recover_and_sync(log: Log, segment: Segment) -> None:
    """As ``recover_segment``, below the recovery point, where no later start checks for lost writes.

    The new indexes are renamed to their names when they are on the disk; until then the wrong ones keep these names,
    and a start detects them. On a full disk the new ones stay in memory.
    """
    files = log.storage.files
    indexes: list[Index | TransactionIndex] = [segment.offset_index, segment.time_index, segment.transaction_index]
    targets = [index.path for index in indexes]
    segment.transaction_index.size = 0
    for index, target in zip(indexes, targets, strict=True):
        index.rename(target + TEMPORARY_SUFFIX)
    epochs = RecoveredEpochs(log.leader_epochs, END_OF_OFFSETS, log.leader_epochs.entries)
    recover_segment(log, segment, epochs)
    epochs.take(may_wait=log.storage.puts_off)
    if segment.has_unwritten_indexes:
        for index, target in zip(indexes, targets, strict=True):
            temporary = index.path
            index.write_later(target)
            files.remove(temporary)
        return
    sync_all(files, [segment.log.path, *(index.path for index in indexes)])
    for index, target in zip(indexes, targets, strict=True):
        if files.exists(index.path):
            files.rename(index.path, target)
        else:
            files.remove(target)
        index.rename(target)
    files.sync_path(log.directory)


def _drop(log: Log, segments: list[Segment], reason: str) -> None:
    """Rename the files of segments that left the log; they are removed later, so that records can be rescued."""
    for segment in segments:
        logger.warning("Dropping %s: %s", segment.log.path, reason)
    log.delete_segment_files(segments[::-1])


def recover_segment(log: Log, segment: Segment, epochs: RecoveredEpochs) -> Segment | None:
    """Check ``segment`` batch by batch, rebuild what derives from it, and cut it at the first bad batch.

    Return the segment if it was cut, else None. Also None if the next segment has the same offsets, after a truncation
    that didn't reach the disk before the power failed; the next segment is kept. A segment whose offsets need more than
    31 bits above its base offset is split; the segment returned may then be one of the new ones.
    """
    state = log.producer_state
    log.rebuild_producer_state(segment.base_offset)
    segment.reset_indexes()
    end_offset = segment.base_offset
    valid_bytes = 0
    later = log.segments.starting_at(log.segments.floor(end_offset) + 1)
    limit = later[0].base_offset if later else END_OF_OFFSETS
    is_overtaken = False
    size, rest = segment.size, None
    try:
        for position, header, content in segment.batches(0, size):
            _check(header, content, end_offset, limit)
            if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                rest = split(log, segment, position, max(header.base_offset, header.last_offset - MAX_RELATIVE_OFFSET))
                break
            segment.index_again(position, header, log.config.index_interval_bytes)
            if log.config.flush_before_ack:
                # An fsync may have failed before the stop: then these bytes are only in memory, marked as written.
                _write_again(log, segment, content, position)
            epochs.meet(header)
            aborted = state.replay(header, content)
            if aborted is not None:
                segment.transaction_index.append(aborted)
            end_offset = header.next_offset
            valid_bytes = position + header.size
    except CorruptRecordError as error:
        is_overtaken = isinstance(error, _OvertakenError)
        logger.warning("Cutting %s at %d of %d bytes: %s", segment.log.path, valid_bytes, segment.size, error)
    cut = segment.size - valid_bytes
    if cut:
        log.storage.files.truncate(segment.log.path, valid_bytes)
        segment.size = valid_bytes
    with putting_off(log):
        segment.become_inactive()
    state.map_end_offset = end_offset
    with putting_off(log):
        state.take_snapshot()
    log.storage.recovered(segment.size + cut)
    if rest is not None:
        return recover_segment(log, rest, epochs)
    return segment if cut and not is_overtaken else None


def _write_again(log: Log, segment: Segment, content: memoryview, position: int) -> None:
    try:
        segment.log.write_at(content, position)
    except OSError as error:
        put_off(log, error)
        log.durability.rewrite_at_next_flush()


class _OvertakenError(CorruptRecordError):
    """A batch has offsets that the next segment has too."""


def _check(header: BatchHeader, content: memoryview, expected_offset: int, limit: int) -> None:
    if header.last_offset >= limit:
        raise _OvertakenError(f"offset {header.last_offset} is in the next segment, too")
    if header.base_offset < expected_offset or header.last_offset_delta < 0:
        raise CorruptRecordError(f"offset {header.base_offset} where {expected_offset} was expected")
    if not crc_is_valid(content, 0, header):
        raise CorruptRecordError(f"the CRC of the batch at offset {header.base_offset} is wrong")
