"""The loops over the messages of a valid produced set (magic 0 or 1): check, number, write as magic 2.

Like ``scan.py``, this file runs interpreted or compiled with the C types of ``entries.pxd``. ``record.py`` describes
the layout. A set that these loops don't accept is examined by ``validate_legacy.py``, which finds the error.
"""

from zlib import crc32

_MAGIC = 16
_TIMESTAMP = 18
_OVERHEAD = 12
"""Bytes of an entry's offset and length."""


def scan_entries(content: memoryview, magic: int) -> tuple[int, int, int, int, int, bool, int]:
    """Check that ``content`` holds only uncompressed messages of ``magic``, whose lengths and CRCs are right.

    Returns ``(number of messages, smallest and largest timestamp, place of the first message with the largest, number
    of null keys, whether the offsets are 0, 1, 2, …, bytes of the largest message)``; a number of -1: a check failed.
    """
    data = content
    end = len(data)
    position = 0
    place = 0
    smallest = 0
    largest = -1
    largest_place = -1
    null_keys = 0
    in_order = True
    largest_size = 0
    timestamp = -1
    fields = _TIMESTAMP + (8 if magic else 0)
    while position < end:
        stop = _end_of(data, position, end, magic)
        if stop < 0 or crc32(content[position + _MAGIC : stop]) != _int32(data, position + _OVERHEAD) & 0xFFFFFFFF:
            return -1, 0, 0, 0, 0, False, 0
        if magic:
            timestamp = _int64(data, position + _TIMESTAMP)
        if timestamp > largest:
            largest = timestamp
            largest_place = place
        smallest = timestamp if place == 0 else min(smallest, timestamp)
        if _int32(data, position + fields) < 0:
            null_keys += 1
        if _int64(data, position) != place:
            in_order = False
        largest_size = max(largest_size, stop - position)
        position = stop
        place += 1
    return place, smallest, largest, largest_place, null_keys, in_order, largest_size


def _end_of(data: memoryview, position: int, end: int, magic: int) -> int:
    """Where the uncompressed message of ``magic`` at ``position`` ends; -1: there is none, or its lengths are wrong."""
    key_at = position + _TIMESTAMP + (8 if magic else 0)
    if key_at + 8 > end or data[position + _MAGIC] != magic or data[position + _MAGIC + 1] & (0x0F if magic else 0x07):
        return -1
    stop = position + _OVERHEAD + _int32(data, position + 8)
    size = _int32(data, key_at)
    value_at = key_at + 4 + (size if size > 0 else 0)
    if stop > end or size < -1 or value_at > stop - 4:
        return -1
    size = _int32(data, value_at)
    return stop if size >= -1 and value_at + 4 + (size if size > 0 else 0) == stop else -1


def number_entries(content: memoryview, first_offset: int) -> None:
    """Give the messages, which ``scan_entries`` has checked, offsets from ``first_offset`` on; no CRC covers these."""
    data = content
    end = len(data)
    position = 0
    offset = first_offset
    while position < end:
        for at in range(8):
            data[position + at] = offset >> (56 - 8 * at) & 0xFF
        offset += 1
        position += _OVERHEAD + _int32(data, position + 8)


def rewrite_entries(content: memoryview, magic: int, output: memoryview) -> int:
    """Write the messages, which ``scan_entries`` has checked, as the records of one batch; return the bytes written.

    Timestamps count from that of the first one. ``output`` has 32 bytes for each message beyond the size of
    ``content``.
    """
    data = content
    end = len(data)
    position = 0
    place = 0
    written = 0
    first = 0
    delta = 0
    fields = _TIMESTAMP + (8 if magic else 0)
    while position < end:
        if magic:
            delta = _int64(data, position + _TIMESTAMP)
            if place == 0:
                first = delta
            delta -= first
        key_at = position + fields + 4
        key_size = _int32(data, position + fields)
        value_at = key_at + (key_size if key_size > 0 else 0) + 4
        value_size = _int32(data, value_at - 4)
        size = 2 + _size(delta) + _size(place) + _size(key_size) + _size(value_size)
        size += value_at - 4 - key_at + (value_size if value_size > 0 else 0)
        written = _write(output, written, size)
        output[written] = 0
        written = _write(output, written + 1, delta)
        written = _write(output, written, place)
        written = _write(output, written, key_size)
        if key_size > 0:
            output[written : written + key_size] = data[key_at : key_at + key_size]
            written += key_size
        written = _write(output, written, value_size)
        position = value_at
        if value_size > 0:
            output[written : written + value_size] = data[value_at : value_at + value_size]
            written += value_size
            position += value_size
        output[written] = 0
        written += 1
        place += 1
    return written


def _int32(data: memoryview, position: int) -> int:
    bits = data[position]  # in separate statements: a value must have its C type before it is shifted
    bits = bits << 8 | data[position + 1]
    bits = bits << 8 | data[position + 2]
    bits = bits << 8 | data[position + 3]
    return bits - 0x1_0000_0000 if bits > 0x7FFF_FFFF else bits


def _int64(data: memoryview, position: int) -> int:
    low = _int32(data, position + 4) & 0xFFFF_FFFF
    return _int32(data, position) * 0x1_0000_0000 + low


def _size(value: int) -> int:
    """Bytes that ``_write`` takes for ``value``."""
    bits = value << 1 if value >= 0 else (-value << 1) - 1
    size = 1
    while bits > 0x7F:
        bits >>= 7
        size += 1
    return size


def _write(output: memoryview, position: int, value: int) -> int:
    """Write a zigzag number; return the next position."""
    bits = value << 1 if value >= 0 else (-value << 1) - 1
    while bits > 0x7F:
        output[position] = bits & 0x7F | 0x80
        bits >>= 7
        position += 1
    output[position] = bits
    return position + 1
