"""The loop over the records of a produced batch, compiled because it runs for every record of every produce request.

``check_usual`` has the loop and the checks of the header in one function, for the batches of nearly all requests.

This file runs interpreted, or compiled by Cython with the C types of ``scan.pxd``. So it imports nothing, uses integers
only and does nothing that differs between the two. ``scanner.py`` chooses one of them. ``record.py`` describes the
layout that is checked, ``batch.py`` that of the header; the rules are those of Kafka's ``DefaultRecord``.

A position below zero stands for a fault: -1 to -4, as ``FAULTS`` names them.
"""

FAULTS = (
    "The batch ends before its last record does",
    "Bytes follow the last record of the batch",
    "A record's fields don't have the record's length",
    "A record can't have this number of headers",
)
"""The meaning of the positions -1, -2, -3 and -4."""

INTERFACE = 2
"""Changes when a function takes or returns something else: ``scanner.py`` refuses a module that was compiled before."""

_SIGN = 1 << 31
_MASK = (1 << 32) - 1
_SIGN_16 = 1 << 15
_MASK_16 = (1 << 16) - 1


def scan(data: memoryview, count: int) -> tuple[int, int, int, int, int, bool]:
    """Check that ``data`` holds ``count`` whole records and nothing else.

    Returns ``(position, smallest and largest timestamp delta, place of the first record with the largest, number of
    null keys, whether the offset deltas are 0, 1, 2, …)``; ``position`` is the end of ``data``, or below zero.
    """
    end = len(data)
    position = 0
    smallest = 0
    largest = 0
    largest_place = -1
    null_keys = 0
    in_order = True
    for place in range(count):
        position, delta, offset_delta, key_length = _record(data, position, end)
        if position < 0:
            break
        if place == 0 or delta > largest:
            largest = delta
            largest_place = place
        if place == 0 or delta < smallest:
            smallest = delta
        if key_length < 0:
            null_keys += 1
        if offset_delta != place:
            in_order = False
    if 0 <= position < end:
        position = -2
    return position, smallest, largest, largest_place, null_keys, in_order


def check_usual(
    data: memoryview, now_ms: int, difference_max_ms: int, key_required: bool
) -> tuple[int, int, int, int, int, int, int, bool] | None:
    """Check that ``data`` is one batch without compression that breaks no rule and needs no change, but for its CRC.

    Timestamps are CreateTime and at most ``difference_max_ms`` away from ``now_ms``. Returns ``(CRC in the header,
    number of records, largest timestamp, place of the first record with it, producer's id and epoch, base sequence,
    whether a transaction has it)``; None for any other batch.
    """
    end = len(data)
    count = _usual_count(data, end)
    if count <= 0:
        return None
    base_timestamp = _int64(data, 27)
    max_timestamp = _int64(data, 35)
    if base_timestamp < 0 or max_timestamp < 0 or now_ms < 0:  # no timestamps; also, no sum below can wrap unseen
        return None
    position = 61
    smallest = 0
    largest = 0
    largest_place = 0
    for place in range(count):
        position, delta, offset_delta, key_length = _record(data, position, end)
        if position < 0 or offset_delta != place or (key_required and key_length < 0):
            return None
        if place == 0 or delta > largest:
            largest = delta
            largest_place = place
        if place == 0 or delta < smallest:
            smallest = delta
    if position != end or base_timestamp + largest != max_timestamp:
        return None
    smallest = base_timestamp + smallest
    if smallest < 0 or now_ms - smallest > difference_max_ms or max_timestamp - now_ms > difference_max_ms:
        return None
    crc = _int32(data, 17) & _MASK
    producer_id = _int64(data, 43)
    producer_epoch = (_int32(data, 49) & _MASK_16 ^ _SIGN_16) - _SIGN_16  # the last two of the four bytes
    base_sequence = _int32(data, 53)
    is_transactional = data[22] != 0
    return crc, count, max_timestamp, largest_place, producer_id, producer_epoch, base_sequence, is_transactional


def _usual_count(data: memoryview, end: int) -> int:
    """The number of records by the header, if its other fields but the timestamps are usual; else 0 or less."""
    if end < 61 or data[16] != 2 or data[21] or data[22] & 0xEF:  # bit 4 may be set: a transaction
        return 0
    if _int32(data, 8) + 12 != end or _int64(data, 0):
        return 0
    count = _int32(data, 57)
    if count - 1 != _int32(data, 23) or (_int64(data, 43) >= 0 and _int32(data, 53) < 0):
        return 0
    return count


def _int32(data: memoryview, position: int) -> int:
    bits = data[position]  # in separate statements: a value must have its C type before it is shifted
    bits = bits << 8 | data[position + 1]
    bits = bits << 8 | data[position + 2]
    bits = bits << 8 | data[position + 3]
    return (bits ^ _SIGN) - _SIGN


def _int64(data: memoryview, position: int) -> int:
    high = _int32(data, position)
    low = _int32(data, position + 4)
    return high << 32 | (low & _MASK)


def _record(data: memoryview, position: int, end: int) -> tuple[int, int, int, int]:
    """One record: ``(next position or fault, timestamp delta, offset delta, key length)``."""
    length, position = _number32(data, position, end)
    if position < 0 or length < 1 or length > end - position:
        return -1, 0, 0, 0
    end = position + length
    delta, position = _number64(data, position + 1, end)
    if position < 0:
        return -3, 0, 0, 0
    offset_delta, position = _number32(data, position, end)
    key_length, position = _field(data, position, end)
    _, position = _field(data, position, end)
    count, position = _number32(data, position, end)
    if position < 0:
        return -3, 0, 0, 0
    if count < 0 or count > end - position:
        return -4, 0, 0, 0
    for _ in range(count):
        length, position = _field(data, position, end)
        if length < 0:
            return -3, 0, 0, 0
        _, position = _field(data, position, end)
    if position != end:
        return -3, 0, 0, 0
    return position, delta, offset_delta, key_length


def _field(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """A length and that many bytes: ``(length, next position or -3)``; a negative length stands for null."""
    length, position = _number32(data, position, end)
    if position < 0 or length > end - position:
        return -1, -3
    if length > 0:
        position += length
    return length, position


def _number32(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """A zigzag number of at most 5 bytes: ``(value, next position or -3)``; a ``position`` that is a fault is kept."""
    if position < 0 or position >= end:
        return 0, -3
    bits = data[position]
    position += 1
    raw = bits & 0x7F
    shift = 7
    while bits > 0x7F:
        if shift > 28 or position >= end:
            return 0, -3
        bits = data[position]
        position += 1
        raw |= (bits & (0x0F if shift == 28 else 0x7F)) << shift  # the fifth byte has 4 bits of the 32
        shift += 7
    return (raw >> 1) ^ -(raw & 1), position


def _number64(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """A zigzag number of at most 10 bytes, else as ``_number32``."""
    if position >= end:
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
