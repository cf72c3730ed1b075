"""Zigzag variable-length integers, as records write their lengths and deltas (protocol buffers' sint32 and sint64).

The loop over produced records has its own copy in ``scan.py``, which runs compiled.
"""

from kafkapy.records.errors import InvalidRecordError

ReadableBuffer = bytes | bytearray | memoryview

_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF
_LAST_SHIFT_32 = 28
_LAST_SHIFT_64 = 63


def write_varint(output: bytearray, value: int) -> None:
    """Append a signed number of at most 64 bits; small magnitudes take one byte."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    while zigzag > 0x7F:
        output.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    output.append(zigzag)


def read_varint(buffer: ReadableBuffer, position: int) -> tuple[int, int]:
    """Read a number of 32 bits: ``(value, next position)``; bits beyond the 32nd fall off, as in Java.

    Raises:
        InvalidRecordError: the number is longer than 5 bytes, or the buffer ends in it.
    """
    if position < len(buffer) and (byte := buffer[position]) < 0x80:  # most numbers have one byte
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _LAST_SHIFT_32, _MASK_32)


def read_varlong(buffer: ReadableBuffer, position: int) -> tuple[int, int]:
    """Read a number of 64 bits, of at most 10 bytes; else as ``read_varint``."""
    if position < len(buffer) and (byte := buffer[position]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _LAST_SHIFT_64, _MASK_64)


def _read(buffer: ReadableBuffer, position: int, last_shift: int, mask: int) -> tuple[int, int]:
    raw = 0
    end = len(buffer)
    for shift in range(0, last_shift + 1, 7):
        if position >= end:
            raise InvalidRecordError("The record ends inside a number")
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= mask
            return raw >> 1 if not raw & 1 else -(raw >> 1) - 1, position
    raise InvalidRecordError("A number has too many bytes")
