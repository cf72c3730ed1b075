"""One compaction of one log, as a job of ``worker``: the newest record of each key stays, at its offset.

The rules are those of Apache Kafka 4.1's ``Cleaner``. First the keys of the dirty segments are noted with their newest
offsets, as many as there is room for. Then all segments up to the last noted key are copied without superseded records,
neighbours into one segment while they fit. Each new segment has files with the suffix ``.cleaned``; the broker puts it
in its place (``replace``) while the next one is written. ``batch_filter`` has the rules for tombstones and markers. The
tombstones of message sets are removed if their segment was last modified more than ``delete.retention.ms`` before the
last clean segment; new files keep the time of modification of the old ones for that.

The arguments are the fields of ``CompactionRequest``. The progress messages are ``{"bases", "replaces": [bases]}``: one
new segment, or several where a segment is split (``recovery.split``). The result has the end of the clean part and the
counters of ``_summary`` in ``cleaner``.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from kafkapy.clock import SystemClock
from kafkapy.platform.files import Files
from kafkapy.platform.flusher import sync_in_parallel
from kafkapy.platform.patience import Steps
from kafkapy.platform.worker import JobContext
from kafkapy.records.batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    measure,
    read_header,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import read_entries, read_legacy_header
from kafkapy.storage.compaction.batch_filter import (
    BatchFilter,
    Bounds,
    CleanedTransactions,
    Kept,
    LastRecord,
    records_body,
)
from kafkapy.storage.compaction.offset_map import OffsetMap
from kafkapy.storage.log.index import IndexCache
from kafkapy.storage.log.segment import (
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    AppendedRange,
    Segment,
)
from kafkapy.storage.log.transaction_index import ENTRY, AbortedTransaction
from kafkapy.storage.recovery.replace import CLEANED_SUFFIX

# Limits the bytes per second that a compaction reads and writes, like Apache Kafka's ``Throttler``.


INTERVAL_S: Final = 0.3
LONGEST_S: Final = 86_400.0
"""Longest single wait, however low the rate is: Apache Kafka sleeps for ever at a rate of 0."""


class Throttle:
    """Compares the rate with the limit every 0.3 s and waits if it is higher.

    ``now_s`` is a clock, ``wait`` takes seconds.
    """

    def __init__(self, bytes_per_second: float, now_s: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._rate = bytes_per_second
        self._now_s = now_s
        self._wait = wait
        self._since_s = now_s()
        self._bytes = 0

    def worked(self, size: int) -> None:
        """Count ``size`` bytes that were read or written, and wait if that was too fast."""
        self._bytes += size
        elapsed_s = self._now_s() - self._since_s
        if elapsed_s < INTERVAL_S:
            return
        surplus_s = self._bytes / self._rate - elapsed_s if self._rate > 0 else LONGEST_S
        if surplus_s > 0:
            self._wait(min(surplus_s, LONGEST_S))
        self._since_s = self._now_s()
        self._bytes = 0


SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class CompactionRequest(NamedTuple):
    """The arguments of the job."""

    directory: str
    segments: list[int]
    """Base offsets of the segments below the first that must not be cleaned."""
    later_segments: list[int]
    """Base offsets of the other segments with a transaction index: transactions that began below may end there."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    log_start_offset: int
    producers: list[tuple[int, int, int]]
    """For each producer of the log: id, offset of its last data record (-1: markers only), epoch."""
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    delete_retention_ms: int
    now_ms: int
    """The broker's time, from which new delete horizons count."""
    map_bytes: int
    load_factor: float
    chunk_bytes: int
    bytes_per_second: float


def run(arguments: dict[str, Any], context: JobContext) -> Steps[dict[str, Any]]:
    """Run the job, see ``worker``; raises ``OSError``, and ``CorruptRecordError`` and the like for damaged files."""
    return Compaction(CompactionRequest(**arguments), context).run()


class Compaction:
    """The state of one job."""

    def __init__(self, request: CompactionRequest, context: JobContext, files: Files | None = None) -> None:
        self._request = request
        self._context = context
        self._files = files or Files()
        self._cache = IndexCache()
        self._segments = [self._open(base) for base in request.segments]
        self._later = [self._open(base) for base in request.later_segments]
        self._throttle = Throttle(request.bytes_per_second, SystemClock().monotonic_s, context.wait)
        dirty_offsets = request.first_uncleanable_offset - request.first_dirty_offset
        self._offsets = OffsetMap(request.map_bytes, request.load_factor, dirty_offsets)
        ends = [*request.segments[1:], request.first_uncleanable_offset]
        self._ends = dict(zip(request.segments, ends, strict=True))
        self._transactions = CleanedTransactions()
        self._outputs: list[Segment] = []
        self._facts = {"bytes_read": 0, "bytes_written": 0, "records_kept": 0}

    def _segment(self, base: int) -> Segment:
        request = self._request
        return Segment(self._files, self._cache, request.directory, base, request.segment_index_bytes, 0)

    def _open(self, base: int) -> Segment:
        segment = self._segment(base)
        stem = f"{self._request.directory}/{base:020d}"
        sizes = {kind: self._files.size(stem + kind) for kind in SUFFIXES[:-1]}
        if self._files.exists(stem + TRANSACTION_INDEX_SUFFIX):
            size = self._files.size(stem + TRANSACTION_INDEX_SUFFIX)
            sizes[TRANSACTION_INDEX_SUFFIX] = size - size % ENTRY.size  # the broker may be writing an entry now
        segment.load(sizes)
        return segment

    def run(self) -> Steps[dict[str, Any]]:
        """Do the job, one step for each chunk of records; return its result."""
        try:
            return (yield from self._run())
        finally:
            for segment in (*self._segments, *self._later):
                segment.close()

    def _run(self) -> Steps[dict[str, Any]]:
        yield from self._note_keys()
        end_offset = self._offsets.latest_offset + 1
        producers = {producer: LastRecord(offset, epoch) for producer, offset, epoch in self._request.producers}
        request = self._request
        bounds = Bounds(request.now_ms, request.delete_retention_ms, request.first_uncleanable_offset)
        batch_filter = BatchFilter(self._offsets, self._transactions, producers, bounds)
        horizon_ms = self._legacy_horizon_ms()
        segments = [segment for segment in self._segments if segment.base_offset < end_offset]
        for group in grouped(segments, self._request):
            yield from self._clean(group, horizon_ms, batch_filter)
        return {"end_offset": end_offset, "keys": len(self._offsets), **self._facts}

    def _legacy_horizon_ms(self) -> int:
        """Segments last modified before this time lose the tombstones of message sets."""
        clean = [segment for segment in self._segments if segment.base_offset < self._request.first_dirty_offset]
        return self._modified_ms(clean[-1]) - self._request.delete_retention_ms if clean else 0

    def _modified_ms(self, segment: Segment) -> int:
        return self._files.modified_ms(segment.log.path)

    def _aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that began below ``end_offset``, from the segment of ``start_offset`` on."""
        found = []
        below = [segment for segment in self._segments if segment.base_offset <= start_offset]
        for segment in [*self._segments[max(len(below) - 1, 0) :], *self._later]:
            for entry in segment.transaction_index:
                if entry.last_offset >= self._request.log_start_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    # the keys

    def _note_keys(self) -> Steps[None]:
        start_offset = self._request.first_dirty_offset
        transactions = CleanedTransactions()
        transactions.add(self._aborted(start_offset, self._request.first_uncleanable_offset))
        for segment in self._segments:
            next_base = self._ends[segment.base_offset]
            if next_base > start_offset:
                yield from self._note_keys_of(segment, transactions)
                if self._offsets.is_full:
                    return
                self._offsets.note_read_up_to(next_base - 1)

    def _note_keys_of(self, segment: Segment, transactions: CleanedTransactions) -> Steps[None]:
        start_offset = self._request.first_dirty_offset
        position = segment.offset_index.lookup(start_offset)
        for chunk in self._chunks(segment, position):
            for header, content in chunk:
                if header.is_control:
                    transactions.may_go(header, content)
                elif not transactions.is_void(header):
                    self._note_keys_in(header, content, start_offset)
                    if self._offsets.is_full:
                        return
                if header.last_offset >= start_offset:
                    self._offsets.note_read_up_to(header.last_offset)
            yield

    def _note_keys_in(self, header: BatchHeader, content: memoryview, start_offset: int) -> None:
        if header.magic == MAGIC:
            body = records_body(header, content)
            self._offsets.put_records(body, header.record_count, header.base_offset, start_offset)
            return
        for entry in read_entries(content, header):
            if entry.key is not None and entry.offset >= start_offset and not self._offsets.is_full:
                self._offsets.put(entry.key, entry.offset)

    # reading and writing

    def _chunks(self, segment: Segment, position: int) -> Iterator[list[tuple[BatchHeader, memoryview]]]:
        """Yield the batches of ``segment`` from ``position`` on, as many at a time as Apache Kafka's buffer holds."""
        chunk_bytes = self._request.chunk_bytes
        while position < segment.size:
            self._context.check()
            content = memoryview(segment.log.read_at(min(chunk_bytes, segment.size - position), position))
            batches = list(batches_in(content))
            if batches:
                read = sum(header.size for header, _ in batches)
                position += read
                self._facts["bytes_read"] += read
                self._throttle.worked(read)
                yield batches
            elif len(content) < chunk_bytes:
                raise CorruptRecordError(f"{segment.log.path} ends within a batch")
            else:
                chunk_bytes = self._larger(segment, content, position)

    def _larger(self, segment: Segment, content: memoryview, position: int) -> int:
        """Return the bytes to read if ``content`` holds no whole batch: twice as many, up to the topic's maximum.

        Beyond the maximum it is the size of the batch. A damaged size must not make the compaction read the rest of the
        segment into memory.
        """
        largest = max(self._request.max_message_bytes, HEADER_SIZE)
        if len(content) < largest:
            return min(2 * len(content), largest)
        size = int.from_bytes(content[LENGTH_OFFSET:LOG_OVERHEAD], "big") + LOG_OVERHEAD
        if size > segment.size - position:
            raise CorruptRecordError(f"{segment.log.path} holds a batch of {size} bytes, more than are left")
        return size

    def _clean(self, group: list[Segment], horizon_ms: int, batch_filter: BatchFilter) -> Steps[None]:
        """Write the kept records of ``group`` into one new segment, or as many as the offsets need; tell the broker."""
        with ExitStack() as unfinished:
            unfinished.callback(self._remove_outputs)
            self._begin_output(group[0].base_offset)
            ends = [segment.base_offset for segment in group[1:]] + [self._offsets.latest_offset + 1]
            for segment, end_offset in zip(group, ends, strict=True):
                self._transactions.add(self._aborted(segment.base_offset, end_offset))
                batch_filter.retain_legacy_deletes = self._modified_ms(segment) > horizon_ms
                yield from self._copy(segment, batch_filter)
            for output in self._outputs:
                self._finish(output, self._modified_ms(group[-1]))
            unfinished.pop_all()
        for segment in group:
            segment.close()  # the broker removes it soon, and a descriptor would keep its bytes on the disk
        new, old = ([segment.base_offset for segment in each] for each in (self._outputs, group))
        self._outputs = []
        self._context.progress({"bases": new, "replaces": old})

    def _begin_output(self, base_offset: int) -> None:
        output = self._segment(base_offset)
        output.rename(CLEANED_SUFFIX, on_disk=False)
        self._outputs.append(output)
        output.create()
        self._transactions.retained = output.transaction_index.append

    def _remove_outputs(self) -> None:
        for output in self._outputs:
            output.remove()

    def _copy(self, segment: Segment, batch_filter: BatchFilter) -> Steps[None]:
        for chunk in self._chunks(segment, 0):
            kept: list[Kept] = []
            for header, content in chunk:
                if header.last_offset - self._outputs[-1].base_offset > MAX_RELATIVE_OFFSET:
                    self._write(kept)
                    kept = []
                    self._begin_output(self._base_of_the_rest(segment, header))
                stays = batch_filter.keep(header, content)
                if stays is not None:
                    kept.append(stays)
            self._write(kept)
            yield

    def _base_of_the_rest(self, segment: Segment, header: BatchHeader) -> int:
        """Return the base offset of the next new segment if the batch of ``header`` does not fit into this one."""
        if header.last_offset >= self._ends[segment.base_offset]:
            raise CorruptRecordError(f"{segment.log.path} holds offset {header.last_offset} of a later segment")
        return max(header.base_offset, header.last_offset - MAX_RELATIVE_OFFSET)

    def _write(self, kept: list[Kept]) -> None:
        if not kept:
            return
        output = self._outputs[-1]
        content = b"".join(each.content for each in kept)
        last_offset = max(each.last_offset for each in kept)
        latest = max(kept, key=lambda each: each.max_timestamp)
        added = AppendedRange(
            output.base_offset, last_offset, latest.max_timestamp, latest.timestamp_offset, len(content)
        )
        output.append(content, added, self._request.index_interval_bytes)
        self._facts["bytes_written"] += len(content)
        self._facts["records_kept"] += sum(each.records for each in kept)
        self._throttle.worked(len(content))

    def _finish(self, output: Segment, modified_ms: int) -> None:
        """Make a new segment durable; its files get the latest time of modification of the old segments."""
        output.become_inactive()
        for part in (output.log, output.offset_index, output.time_index):
            self._files.set_modified_ms(part.path, modified_ms)
        # In parallel, so that the file system commits them together: the broker's appends may wait during a commit.
        sync_in_parallel(self._files, [*output.paths_to_sync(), self._request.directory])
        output.close()


def batches_in(content: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the whole batches, and entries of message sets, at the beginning of ``content``."""
    position = 0
    while (size := measure(content, position)) is not None:
        batch = content[position : position + size]
        yield (read_header(batch) if batch[MAGIC_OFFSET] == MAGIC else read_legacy_header(batch)), batch
        position += size


def grouped(segments: list[Segment], request: CompactionRequest) -> Iterator[list[Segment]]:
    """Yield neighbours that fit into one segment by their sizes and offsets before compaction, as in Apache Kafka."""
    group: list[Segment] = []
    sizes = (0, 0, 0)
    for place, segment in enumerate(segments):
        following = segments[place + 1].base_offset if place + 1 < len(segments) else request.first_uncleanable_offset
        own = (
            segment.size,
            segment.offset_index.entries * segment.offset_index.ENTRY.size,
            segment.time_index.entries * segment.time_index.ENTRY.size,
        )
        together = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        fits = (
            together[0] <= request.segment_bytes
            and together[1] <= request.segment_index_bytes
            and together[2] <= request.segment_index_bytes
            and (segment.size == 0 or following - 1 - (group or [segment])[0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if group and not fits:
            yield group
            group, together = [], own
        group.append(segment)
        sizes = together
    if group:
        yield group
