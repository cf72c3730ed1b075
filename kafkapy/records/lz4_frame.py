"""The header checksum of LZ4 frames, which Kafka computed wrongly in its first format.

The byte after a frame's descriptor is the second byte of the descriptor's xxHash32. Clients and brokers that wrote
magic 0 included the frame's magic number in the hash (KAFKA-3160). So in magic 0 that byte is written as they wrote it,
and ignored when read; from magic 1 on it is as the LZ4 specification says.
"""

from struct import Struct

from kafkapy.records.errors import CorruptRecordError

ReadableBuffer = bytes | bytearray | memoryview

_FLAGS_OFFSET = 4
_DESCRIPTOR_OFFSET = 4
_SMALLEST_DESCRIPTOR = 2
_CONTENT_SIZE_BIT = 0x08
_CONTENT_SIZE_BYTES = 8
_DICTIONARY_BIT = 0x01
_DICTIONARY_BYTES = 4

_MASK = 0xFFFF_FFFF
_PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2246822519, 3266489917, 668265263, 374761393
_PRIME_1 = 2654435761
_WORD = Struct("<I")


def with_old_checksum(frame: bytes) -> bytes:
    """Replace the checksum of the specification by the one that Kafka wrote in magic 0."""
    end = _descriptor_end(frame)
    return frame[:end] + _checksum(frame[:end]) + frame[end + 1 :]


def with_right_checksum(frame: ReadableBuffer) -> ReadableBuffer:
    """Return the frame with the checksum of the specification; the frame is copied only if that changes it.

    Raises:
        CorruptRecordError: the frame ends within its header.
    """
    end = _descriptor_end(frame)
    right = _checksum(bytes(frame[_DESCRIPTOR_OFFSET:end]))
    return frame if frame[end : end + 1] == right else b"".join((frame[:end], right, frame[end + 1 :]))


def _descriptor_end(frame: ReadableBuffer) -> int:
    end = _DESCRIPTOR_OFFSET + _SMALLEST_DESCRIPTOR
    if len(frame) > end:
        flags = frame[_FLAGS_OFFSET]
        end += _CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE_BIT else 0
        end += _DICTIONARY_BYTES if flags & _DICTIONARY_BIT else 0
    if len(frame) <= end:
        raise CorruptRecordError("An LZ4 frame ends within its header")
    return end


def _checksum(descriptor: bytes) -> bytes:
    return bytes([xxhash32_of_few(descriptor) >> 8 & 0xFF])


def xxhash32_of_few(data: bytes) -> int:
    """xxHash32, seed 0, of at most 15 bytes: longer input takes a part of the algorithm that no header needs.

    Raises:
        ValueError: more than 15 bytes.
    """
    if len(data) > 15:
        raise ValueError("at most 15 bytes can be hashed")
    value = _PRIME_5 + len(data)
    words = len(data) // 4 * 4
    for (word,) in _WORD.iter_unpack(data[:words]):
        value = _rotated((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[words:]:
        value = _rotated((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
