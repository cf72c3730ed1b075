"""Reader: a position in a frame, with one method for each primitive type of the wire grammar (see primitives.py)."""

from io import BytesIO
from struct import Struct
from typing import Any, Final, TypeVar
from uuid import UUID

from kafkapy.protocol.message import (
    MAX_STRING_SIZE,
    ZERO_UUID,
    InvalidValue,
    LimitExceeded,
    Message,
    TaggedFields,
    Truncated,
)

DEFAULT_BUDGET: Final = 1_000_000
"""Value slots that one message may decode into (each at most about 100 bytes of memory)."""

PIECE_SIZE: Final = 1 << 20
"""Maximum bytes that one call copies; other threads can't run during the call."""

BYTES_OF_A_SLOT: Final = 1024
"""Bytes of a long field that count as one value slot: a message with many of them is not decoded on the event loop."""

NUMBERS_AT_ONCE: Final = 4096
"""Maximum numbers that one call unpacks; other threads can't run during the call."""

MAX_INT32: Final = 2**31 - 1

_ZERO_UUID_BYTES: Final = bytes(16)
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_FLOAT64: Final = Struct(">d")

M = TypeVar("M", bound=Message)


class Reader:
    """A position in a buffer; each method reads one value and moves on. All of them raise ProtocolError only.

    ``budget`` limits the value slots that arrays may decode into.
    """

    __slots__ = ("buffer", "position", "end", "budget")

    def __init__(self, buffer: bytes | bytearray | memoryview, budget: int = DEFAULT_BUDGET) -> None:
        self.buffer = buffer if type(buffer) is memoryview else memoryview(buffer)
        self.position = 0
        self.end = len(self.buffer)
        self.budget = budget

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return self.end - self.position

    def expect_end(self) -> None:
        """Raise InvalidValue when bytes are left over."""
        if self.position != self.end:
            raise InvalidValue(f"{self.end - self.position} bytes left over after the message")

    def _take(self, size: int) -> int:
        """Advance by ``size`` bytes and return the position before them."""
        position = self.position
        self.position = end = position + size
        if end > self.end:
            raise self._truncated(size, position)
        return position

    def _truncated(self, size: int, position: int) -> Truncated:
        """The error for ``size`` bytes of which some are missing; sets the position before them."""
        self.position = position
        return Truncated(f"{size} bytes wanted at {position}, {self.end - position} left")

    def _spend(self, slots: int) -> None:
        """Charge the budget."""
        self.budget -= slots
        if self.budget < 0:
            raise LimitExceeded("the message decodes into more values than its budget allows")

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Read several adjacent fixed-size values in one call."""
        position = self.position
        self.position = end = position + layout.size
        if end > self.end:
            raise self._truncated(layout.size, position)
        return layout.unpack_from(self.buffer, position)

    def read_bool(self) -> bool:
        """One byte; anything but 0 is true."""
        return self.buffer[self._take(1)] != 0

    def read_int8(self) -> int:
        """Signed."""
        position = self.position
        if position >= self.end:
            raise self._truncated(1, position)
        self.position = position + 1
        byte = self.buffer[position]
        return byte - 256 if byte > 127 else byte

    def read_int16(self) -> int:
        """Signed."""
        position = self.position
        self.position = end = position + 2
        if end > self.end:
            raise self._truncated(2, position)
        value: int = _INT16.unpack_from(self.buffer, position)[0]
        return value

    def read_uint16(self) -> int:
        """Unsigned: ports."""
        return self.read_int16() & 0xFFFF

    def read_int32(self) -> int:
        """Signed."""
        position = self.position
        self.position = end = position + 4
        if end > self.end:
            raise self._truncated(4, position)
        value: int = _INT32.unpack_from(self.buffer, position)[0]
        return value

    def read_int64(self) -> int:
        """Signed."""
        position = self.position
        self.position = end = position + 8
        if end > self.end:
            raise self._truncated(8, position)
        value: int = _INT64.unpack_from(self.buffer, position)[0]
        return value

    def read_float64(self) -> float:
        """IEEE 754, big endian."""
        value: float = _FLOAT64.unpack_from(self.buffer, self._take(8))[0]
        return value

    def read_uuid(self) -> UUID:
        """16 bytes; the zero id is one shared object."""
        start = self._take(16)
        raw = bytes(self.buffer[start : start + 16])
        return ZERO_UUID if raw == _ZERO_UUID_BYTES else UUID(bytes=raw)

    def read_unsigned_varint(self) -> int:
        """At most 5 bytes, 32 bits (KIP-482)."""
        position = self.position
        if position < self.end and (byte := self.buffer[position]) < 0x80:
            self.position = position + 1
            return byte
        value = 0
        for shift in range(0, 35, 7):
            byte = self.buffer[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFF
        raise InvalidValue("a varint of more than 5 bytes")

    # Strings: malformed UTF-8 becomes U+FFFD, as in Java.

    def _string(self, size: int) -> str:
        if size > MAX_STRING_SIZE:
            raise LimitExceeded(f"a string of {size} bytes")
        position = self.position
        self.position = end = position + size
        if end > self.end:
            raise self._truncated(size, position)
        return str(self.buffer[position:end], "utf-8", "replace")

    def read_string(self) -> str:
        """A string that may not be null."""
        start = self.position + 2  # inlined: requests have many strings, and each call takes time
        if start > self.end:
            raise self._truncated(2, start - 2)
        size = _INT16.unpack_from(self.buffer, start - 2)[0]
        if size <= 0:
            if size:
                raise InvalidValue(f"a string of length {size}")
            self.position = start
            return ""
        self.position = end = start + size
        if end > self.end:
            raise self._truncated(size, start)
        return str(self.buffer[start:end], "utf-8", "replace")

    def read_nullable_string(self) -> str | None:
        """Any negative length is null, as in Java."""
        start = self.position + 2  # inlined as above
        if start > self.end:
            raise self._truncated(2, start - 2)
        size = _INT16.unpack_from(self.buffer, start - 2)[0]
        if size <= 0:
            self.position = start
            return None if size else ""
        self.position = end = start + size
        if end > self.end:
            raise self._truncated(size, start)
        return str(self.buffer[start:end], "utf-8", "replace")

    def read_compact_string(self) -> str:
        """A string that may not be null."""
        size = self.read_unsigned_varint() - 1
        if size < 0:
            raise InvalidValue("a null string in a field without null")
        return self._string(size)

    def read_compact_nullable_string(self) -> str | None:
        """Length 0 is null, and each that is negative in 32 bits, as in Java."""
        size = self.read_unsigned_varint() - 1
        return self._string(size) if 0 <= size <= MAX_INT32 else None

    # Records are views into the frame; fields of type ``bytes`` are copied, so that they can be kept after it.

    def _view(self, size: int) -> memoryview:
        position = self.position
        self.position = end = position + size
        if end > self.end:
            raise self._truncated(size, position)
        return self.buffer[position:end]

    def _copy(self, size: int) -> bytes:
        """Copy the next ``size`` bytes; in pieces, so that other threads run between them, where they are many."""
        view = self._view(size)
        if size <= PIECE_SIZE:
            return bytes(view)
        self._spend(size // BYTES_OF_A_SLOT)
        copied = BytesIO()
        for start in range(0, size, PIECE_SIZE):
            copied.write(view[start : start + PIECE_SIZE])
        return copied.getvalue()

    def read_bytes(self) -> bytes:
        """Bytes that may not be null."""
        size = self.read_int32()
        if size < 0:
            raise InvalidValue(f"bytes of length {size}")
        return self._copy(size)

    def read_nullable_bytes(self) -> bytes | None:
        """Any negative length is null, as in Java."""
        size = self.read_int32()
        return None if size < 0 else self._copy(size)

    def read_compact_bytes(self) -> bytes:
        """Bytes that may not be null."""
        size = self.read_unsigned_varint() - 1
        if size < 0:
            raise InvalidValue("null bytes in a field without null")
        return self._copy(size)

    def read_compact_nullable_bytes(self) -> bytes | None:
        """Null as a string is."""
        size = self.read_unsigned_varint() - 1
        return self._copy(size) if 0 <= size <= MAX_INT32 else None

    def read_records(self) -> memoryview:
        """Record batches that may not be null."""
        size = self.read_int32()
        if size < 0:
            raise InvalidValue(f"records of length {size}")
        return self._view(size)

    def read_nullable_records(self) -> memoryview | None:
        """Record batches, in place."""
        start = self.position + 4  # written out as above
        if start > self.end:
            raise self._truncated(4, start - 4)
        size = _INT32.unpack_from(self.buffer, start - 4)[0]
        if size < 0:
            self.position = start
            return None
        self.position = end = start + size
        if end > self.end:
            raise self._truncated(size, start)
        return self.buffer[start:end]

    def read_compact_records(self) -> memoryview:
        """Record batches that may not be null."""
        size = self.read_unsigned_varint() - 1
        if size < 0:
            raise InvalidValue("null records in a field without null")
        return self._view(size)

    def read_compact_nullable_records(self) -> memoryview | None:
        """Record batches, in place; null as a string is."""
        size = self.read_unsigned_varint() - 1
        return self._view(size) if 0 <= size <= MAX_INT32 else None

    # Arrays: a count of -1 is null. The count is checked first: each element takes at least one byte.

    def read_count(self) -> int:
        """The count of an array that may not be null."""
        start = self.position + 4  # written out as above
        if start > self.end:
            raise self._truncated(4, start - 4)
        self.position = start
        count: int = _INT32.unpack_from(self.buffer, start - 4)[0]
        if count < 0:
            raise InvalidValue(f"an array of {count} elements")
        return count

    def read_nullable_count(self) -> int:
        """The count of an array; negative: null."""
        return self.read_int32()

    def read_compact_count(self) -> int:
        """The count of a compact array that may not be null."""
        count = self.read_unsigned_varint() - 1
        if count < 0:
            raise InvalidValue("a null array in a field without null")
        return count

    def read_compact_nullable_count(self) -> int:
        """The count of a compact array; -1: null, as a string is."""
        count = self.read_unsigned_varint() - 1
        return count if count <= MAX_INT32 else -1

    def read_structs(self, struct: type[M], count: int, version: int) -> list[M]:
        """Read ``count`` elements of one class."""
        if count > self.end - self.position:
            raise LimitExceeded(f"an array of {count} elements in {self.end - self.position} bytes")
        self.budget -= count * struct.WEIGHT
        if self.budget < 0:
            raise LimitExceeded("the message decodes into more values than its budget allows")
        read = struct.read
        if count == 1:  # the usual count of topics and partitions, cheaper without the comprehension's frame
            return [read(self, version)]
        return [read(self, version) for _ in range(count)]

    def read_numbers(self, letter: str, size: int, count: int) -> list[int]:
        """Read ``count`` integers of ``size`` bytes; ``letter`` is their format in ``struct``."""
        if count * size > self.end - self.position:
            raise LimitExceeded(f"an array of {count} integers in {self.end - self.position} bytes")
        self._spend(count)
        position = self._take(count * size)
        if count <= NUMBERS_AT_ONCE:
            return list(Struct(f">{count}{letter}").unpack_from(self.buffer, position))
        numbers: list[int] = []
        for start in range(0, count, NUMBERS_AT_ONCE):
            some = Struct(f">{min(NUMBERS_AT_ONCE, count - start)}{letter}")
            numbers += some.unpack_from(self.buffer, position + start * size)
        return numbers

    def read_strings(self, count: int) -> list[str]:
        """``count`` strings."""
        self._check_strings(count)
        return [self.read_string() for _ in range(count)]

    def read_compact_strings(self, count: int) -> list[str]:
        """``count`` compact strings."""
        self._check_strings(count)
        return [self.read_compact_string() for _ in range(count)]

    def _check_strings(self, count: int) -> None:
        if count > self.end - self.position:
            raise LimitExceeded(f"an array of {count} strings in {self.end - self.position} bytes")
        self._spend(count)

    def read_uuids(self, count: int) -> list[UUID]:
        """``count`` ids."""
        if count * 16 > self.end - self.position:
            raise LimitExceeded(f"an array of {count} uuids in {self.end - self.position} bytes")
        self._spend(count * 4)
        return [self.read_uuid() for _ in range(count)]

    # Tagged fields (KIP-482)

    def read_tag_count(self) -> int:
        """The number of tagged fields; 2^31 and more is negative in Java, which then reads none."""
        count = self.read_unsigned_varint()
        return count if count <= MAX_INT32 else 0

    def read_tag(self) -> tuple[int, int]:
        """The tag, and the position where its bytes end."""
        tag = self.read_unsigned_varint()
        size = self.read_unsigned_varint()
        if size > self.end - self.position:
            raise Truncated(f"tagged field {tag} of {size} bytes, {self.end - self.position} left")
        return tag, self.position + size

    def read_tag_after(self, previous: int) -> tuple[int, int]:
        """As ``read_tag``, in the body of a message, where tags must ascend: Apache Kafka 2.7 ends the connection.

        ``previous`` is the tag before it, -1 for none. Raises ``InvalidValue``.
        """
        tag, end = self.read_tag()
        if not previous < tag <= MAX_INT32:
            raise InvalidValue(f"tagged field {tag} after {previous}")
        return tag, end

    def read_unknown_tag(self, tag: int, end: int, known: TaggedFields) -> TaggedFields:
        """Keep a tagged field that the definitions don't have."""
        self._spend(3)
        fields = [] if known is None else known
        fields.append((tag, bytes(self._view(end - self.position))))
        return fields

    def expect_tag_end(self, tag: int, end: int) -> None:
        """Check that a known tagged field has the size that it announced."""
        if self.position != end:
            raise InvalidValue(f"tagged field {tag} has another size than it announces")

    def read_unknown_tagged_fields(self, *, in_any_order: bool = False) -> TaggedFields:
        """Read the tag section of a struct for which the definitions have no tagged fields.

        Kafka 2.7 does not check the order of tags in the header of a message: they may be ``in_any_order`` there.
        """
        fields: TaggedFields = None
        tag = -1
        for _ in range(self.read_tag_count()):
            tag, end = self.read_tag() if in_any_order else self.read_tag_after(tag)
            fields = self.read_unknown_tag(tag, end, fields)
        return fields
