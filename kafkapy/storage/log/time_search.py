"""Finds the first record of a segment that is at least as late as a timestamp (ListOffsets).

The time index leads to the batches that may have it; their records are parsed one by one. A small batch can decompress
to a million records, which takes seconds: with ``inline`` such a batch is left to the caller.
"""

from typing import Final

from kafkapy.records.batch import BatchHeader
from kafkapy.records.record import iterate_records
from kafkapy.storage.log.segment import Segment, TimestampOffset

INLINE_SIZE: Final = 32 * 1024
"""Bytes of a batch without compression that are searched on the event loop."""
INLINE_RECORDS: Final = 2000
"""Records of such a batch: some milliseconds of work."""


class BatchSearch:
    """The search of one batch, whose bytes were read: it touches no state of the log."""

    __slots__ = ("next_offset", "_content", "_header", "_timestamp_ms", "_start_offset")

    def __init__(self, content: memoryview, header: BatchHeader, timestamp_ms: int, start_offset: int) -> None:
        self.next_offset = header.next_offset
        """The position where the search continues if it finds nothing."""
        self._content = content
        self._header = header
        self._timestamp_ms = timestamp_ms
        self._start_offset = start_offset

    @property
    def is_long(self) -> bool:
        """Whether the search takes long: a compressed batch may decompress to a thousand times its size."""
        header = self._header
        return header.compression > 0 or header.size > INLINE_SIZE or header.record_count > INLINE_RECORDS

    def run(self) -> TimestampOffset | None:
        """Return the first record from the start offset on with at least the timestamp.

        Raises the errors of ``records.record.read_records``.
        """
        for record in iterate_records(self._content, self._header):
            if record.timestamp >= self._timestamp_ms and record.offset >= self._start_offset:
                return TimestampOffset(record.offset, record.timestamp)
        return None


class LongSearchError(Exception):
    """The search of a batch takes long. Call ``search.run`` away from the event loop.

    If that finds nothing, call ``Log.lookup_timestamp`` again, from ``search.next_offset`` on.
    """

    def __init__(self, search: BatchSearch) -> None:
        super().__init__()
        self.search = search


def find_timestamp(
    segment: Segment, timestamp_ms: int, start_offset: int, *, inline: bool = False
) -> TimestampOffset | None:
    """Return the first record from ``start_offset`` on with at least ``timestamp_ms``.

    Raises ``LongSearchError`` if that takes long and ``inline`` is set; else the errors of ``BatchSearch.run`` too.
    """
    place = segment.translate(max(segment.time_index.lookup(timestamp_ms), start_offset))
    if place is None:
        return None
    for _, header, content in segment.batches(place[0], segment.size):
        if header.max_timestamp >= timestamp_ms:
            search = BatchSearch(content, header, timestamp_ms, start_offset)
            if inline and search.is_long:
                raise LongSearchError(search)
            found = search.run()
            if found is not None:
                return found
    return None
