"""Compaction's loops over the records of one batch (magic 2): note the keys, mark the records to keep, write them.

Like ``scan.py``, this file runs interpreted or compiled with the C types of ``compact.pxd``. ``record.py`` describes
the layout. A position below zero stands for a fault, as in ``scan.py``.

``scan.py``, ``entries.py`` and this file each have their own copy of some helper functions, mostly for numbers: Cython
does not inline a function of another compiled module.

The table of keys is signed words of 64 bits, three for each slot: two hashes of a key, and its offset plus one (0: the
slot is free). A key's slot is the first one from ``hash % slots`` on that is its own or free. The hashes are Python's
own of byte strings, SipHash with the process's secret, of the key and of the key with one more byte: 128 bits for which
a client can't construct collisions.

``state`` is signed words, whose places the constants name.
"""

ENTRIES = 0
"""How many keys the table holds."""
MOST_ENTRIES = 1
"""How many keys the table may hold."""
LATEST = 2
"""The offset up to which the table knows all keys; a record above it stays, whatever its key."""
FULL = 3
"""1 once there was no room for a key."""
FIRST_DELTA = 4
"""Timestamp delta of the first record that stays; ``mark`` sets it and the following words."""
LARGEST_DELTA = 5
"""The largest timestamp delta of the records that stay."""
LAST_DELTA = 6
"""Offset delta of the last record that stays."""
SMALLEST_DELTA = 7
"""The smallest timestamp delta of the records that stay."""
TOMBSTONES = 8
"""1 if a record without a value stays, at or below ``LATEST``; else 0."""
STATE_WORDS = 9

_ENTRIES, _MOST_ENTRIES, _LATEST, _FULL = ENTRIES, MOST_ENTRIES, LATEST, FULL  # these have C types
_FIRST_DELTA, _LARGEST_DELTA, _LAST_DELTA = FIRST_DELTA, LARGEST_DELTA, LAST_DELTA
_SMALLEST_DELTA, _TOMBSTONES = SMALLEST_DELTA, TOMBSTONES


def put_keys(
    content: bytes, count: int, base_offset: int, start_offset: int, table: memoryview, state: memoryview
) -> int:
    """Note where each key of the ``count`` records in ``content`` is, from ``start_offset`` on.

    Returns the position up to which it has read; at a key for which there is no room it stops and sets ``FULL``.
    """
    data = memoryview(content)
    end = len(data)
    position = 0
    for _ in range(count):
        stop, _, delta, position, size = _record(data, position, end)
        if stop < 0:
            return stop
        if size >= 0 and base_offset + delta >= start_offset:
            if state[_ENTRIES] >= state[_MOST_ENTRIES]:
                state[_FULL] = 1
                return position
            state[_ENTRIES] += put(content[position : position + size], base_offset + delta, table)
            state[_LATEST] = base_offset + delta
        position = stop
    return position


def mark(
    content: bytes, marks: memoryview, base_offset: int, retain_deletes: int, table: memoryview, state: memoryview
) -> int:
    """Set the mark of each record in ``content`` to 1 if it stays, else to 0; return how many stay, or a fault.

    A record stays if its key is not in the table at a higher offset and it has a value (or ``retain_deletes``), or if
    its offset is above ``LATEST``. A record without a key does not stay.
    """
    data = memoryview(content)
    end = len(data)
    position = 0
    kept = 0
    state[_TOMBSTONES] = 0
    for place in range(len(marks)):
        stop, timestamp, delta, position, size = _record(data, position, end)
        if stop < 0:
            return stop
        stays = base_offset + delta > state[_LATEST]
        if not stays and size >= 0:
            is_tombstone = not _has_value(data, position + size, stop)
            if retain_deletes or not is_tombstone:
                stays = base_offset + delta >= find(content[position : position + size], table)
            if stays and is_tombstone:
                state[_TOMBSTONES] = 1
        marks[place] = stays
        if stays:
            if kept == 0:
                state[_FIRST_DELTA] = timestamp
            if kept == 0 or timestamp > state[_LARGEST_DELTA]:
                state[_LARGEST_DELTA] = timestamp
            if kept == 0 or timestamp < state[_SMALLEST_DELTA]:
                state[_SMALLEST_DELTA] = timestamp
            state[_LAST_DELTA] = delta
            kept += 1
        position = stop
    return kept if position == end else -2


def rewrite(content: bytes, marks: memoryview, output: memoryview, shift: int, is_stamped: int) -> int:
    """Write the records of ``content`` that ``mark`` has marked to ``output``; return the number of bytes written.

    ``shift`` is subtracted from their timestamp deltas, or from 0 where the broker stamps batches (``is_stamped``); the
    results fit into 64 bits. ``output`` has 10 bytes for each record beyond the size of ``content``.
    """
    data = memoryview(content)
    end = len(data)
    position = 0
    written = 0
    for place in range(len(marks)):
        length, position = _number(data, position, end)
        stop = position + length
        if marks[place]:
            timestamp, after = _number(data, position + 1, stop)
            timestamp = -shift if is_stamped else timestamp - shift
            rest = stop - after
            written = _write(output, written, 1 + _size(timestamp) + rest)
            output[written] = 0
            written = _write(output, written + 1, timestamp)
            output[written : written + rest] = data[after:stop]
            written += rest
        position = stop
    return written


def put(key: bytes, offset: int, table: memoryview) -> int:
    """Note that ``key`` is at ``offset``; return 1 if it was not in the table, which must have room, else 0."""
    place, first, second = _slot(key, table)
    is_new = table[place + 2] == 0
    if is_new:
        table[place] = first
        table[place + 1] = second
    table[place + 2] = offset + 1
    return 1 if is_new else 0


def find(key: bytes, table: memoryview) -> int:
    """The offset that was noted for ``key``, or -1."""
    place, _, _ = _slot(key, table)
    return table[place + 2] - 1


def _slot(key: bytes, table: memoryview) -> tuple[int, int, int]:
    """Return the slot of ``table`` where ``key`` is or may be put, and the key's two hashes."""
    first = hash(key)
    second = hash(key + b"\x01")
    end = len(table)
    place = first % (end // 3) * 3
    while table[place + 2] != 0 and (table[place] != first or table[place + 1] != second):
        place += 3
        if place == end:
            place = 0
    return place, first, second


def _record(data: memoryview, position: int, end: int) -> tuple[int, int, int, int, int]:
    """``(end or fault, timestamp delta, offset delta, start of the key, its size or below 0)`` of a record."""
    length, position = _number(data, position, end)
    if position < 0 or length < 1 or length > end - position:
        return -1, 0, 0, 0, 0
    stop = position + length
    timestamp, position = _number(data, position + 1, stop)
    delta, position = _number(data, position, stop)
    size, position = _number(data, position, stop)
    if position < 0 or size > stop - position:
        return -3, 0, 0, 0, 0
    return stop, timestamp, delta, position, size


def _has_value(data: memoryview, position: int, stop: int) -> bool:
    """Whether the length that is at ``position`` is not that of null."""
    size, _ = _number(data, position, stop)
    return size >= 0


def _number(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """A zigzag number of at most 10 bytes: ``(value, next position or -3)``; a ``position`` that is a fault is kept."""
    if position < 0 or position >= end:
        return 0, -3
    bits = data[position]
    position += 1
    raw = bits & 0x7F
    shift = 7
    while bits > 0x7F:
        if shift > 63 or position >= end:
            return 0, -3
        bits = data[position]
        position += 1
        raw |= (bits & (0x01 if shift == 63 else 0x7F)) << shift  # the tenth byte has 1 bit of the 64
        shift += 7
    return (raw >> 1) ^ -(raw & 1), position


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _size(value: int) -> int:
    """Bytes that ``_write`` takes for ``value``."""
    bits = _zigzag(value)
    size = 1
    while bits > 0x7F:
        bits >>= 7
        size += 1
    return size


def _write(output: memoryview, position: int, value: int) -> int:
    """Write a zigzag number; return the next position."""
    bits = _zigzag(value)
    while bits > 0x7F:
        output[position] = bits & 0x7F | 0x80
        bits >>= 7
        position += 1
    output[position] = bits
    return position + 1
