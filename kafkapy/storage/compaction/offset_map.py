"""The newest offset of each key in the dirty part of a log; compaction keeps the records at these offsets.

Each key takes 24 bytes, as in Apache Kafka. The map's size is ``log.cleaner.dedupe.buffer.size``, of which
``log.cleaner.io.buffer.load.factor`` is filled. The loops are in ``records.compact``.
"""

from collections.abc import Callable
from typing import Final, cast

from kafkapy.records import compact
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.scanner import choose, fault_message

SLOT_BYTES: Final = 24

_chosen = choose("compact")
_put_keys = cast(Callable[[bytes, int, int, int, memoryview, memoryview], int], _chosen.put_keys)
_mark = cast(Callable[[bytes, memoryview, int, bool, memoryview, memoryview], int], _chosen.mark)
_rewrite = cast(Callable[[bytes, memoryview, memoryview, int, bool], int], _chosen.rewrite)
_put = cast(Callable[[bytes, int, memoryview], int], _chosen.put)
_find = cast(Callable[[bytes, memoryview], int], _chosen.find)

_LONGEST_DELTA: Final = 10


class OffsetMap:
    """A map of keys to offsets in at most ``memory_bytes``, for at most ``most_keys`` keys."""

    def __init__(self, memory_bytes: int, load_factor: float, most_keys: int) -> None:
        slots = max(memory_bytes // SLOT_BYTES, 3)
        most = max(min(int(slots * load_factor), slots - 1), 1)  # a search ends at a free slot: one must stay free
        slots = min(slots, 2 * most_keys + 3)  # fast if half of them are free, and small for a small log
        self._table = memoryview(bytearray(slots * SLOT_BYTES)).cast("q")
        self._state = memoryview(bytearray(8 * compact.STATE_WORDS)).cast("q")
        self._state[compact.MOST_ENTRIES] = min(most, slots - 1)
        self._state[compact.LATEST] = -1

    def __len__(self) -> int:
        return int(self._state[compact.ENTRIES])

    @property
    def is_full(self) -> bool:
        """Whether a key did not fit: that key and all later ones are missing from the map."""
        return self._state[compact.FULL] == 1

    @property
    def latest_offset(self) -> int:
        """The offset up to which the map has every key; records above it must stay."""
        return int(self._state[compact.LATEST])

    def note_read_up_to(self, offset: int) -> None:
        """Note that all keys up to ``offset`` are in the map (sets ``latest_offset``)."""
        self._state[compact.LATEST] = offset

    def put_records(self, body: bytes, count: int, base_offset: int, start_offset: int) -> None:
        """Note the keys of a batch's records (magic 2, not compressed) from ``start_offset`` on, while there is room.

        Raises ``CorruptRecordError``.
        """
        _checked(_put_keys(body, count, base_offset, start_offset, self._table, self._state))

    def put(self, key: bytes, offset: int) -> None:
        """Note one key, if there is room."""
        if self._state[compact.ENTRIES] >= self._state[compact.MOST_ENTRIES]:
            self._state[compact.FULL] = 1
        else:
            self._state[compact.ENTRIES] += _put(key, offset, self._table)
            self._state[compact.LATEST] = offset

    def keeps(self, key: bytes | None, offset: int) -> bool:
        """Whether the record with ``key`` at ``offset`` is the key's newest, or may be."""
        return offset > self.latest_offset or (key is not None and offset >= _find(key, self._table))

    def mark(self, body: bytes, count: int, base_offset: int, *, retain_deletes: bool) -> "KeptRecords":
        """Return the records of a batch that stay; raises ``CorruptRecordError``."""
        marks = memoryview(bytearray(count))
        kept = _checked(_mark(body, marks, base_offset, retain_deletes, self._table, self._state))
        return KeptRecords(body, marks, kept, self._state)


def all_records(body: bytes, count: int) -> "KeptRecords":
    """Return all records of a batch as those that stay; raises ``CorruptRecordError``."""
    empty = OffsetMap(0, 1.0, 0)  # the filter keeps batches that it can't interpret
    return empty.mark(body, count, 0, retain_deletes=True)


class KeptRecords:
    """The ``count`` records of a batch that stay, and the deltas of timestamps and offset for the new header.

    ``has_tombstones``: a record without a value is among them, and the map had all keys up to it.
    """

    __slots__ = (
        "count",
        "first_delta",
        "smallest_delta",
        "largest_delta",
        "last_delta",
        "has_tombstones",
        "_body",
        "_marks",
    )

    def __init__(self, body: bytes, marks: memoryview, count: int, state: memoryview) -> None:
        self.count = count
        self.first_delta = int(state[compact.FIRST_DELTA])
        self.smallest_delta = int(state[compact.SMALLEST_DELTA])
        self.largest_delta = int(state[compact.LARGEST_DELTA])
        self.last_delta = int(state[compact.LAST_DELTA])
        self.has_tombstones = state[compact.TOMBSTONES] == 1
        self._body = body
        self._marks = marks

    def rewrite(self, shift: int, *, is_stamped: bool) -> memoryview:
        """Return the kept records; ``shift`` is subtracted from their timestamp deltas, or from 0 if ``is_stamped``."""
        output = memoryview(bytearray(len(self._body) + _LONGEST_DELTA * self.count))
        return output[: _rewrite(self._body, self._marks, output, shift, is_stamped)]


def _checked(position: int) -> int:
    if position < 0:
        raise CorruptRecordError(fault_message(position))
    return position
