"""Writer: one method for each primitive type of the wire grammar (see primitives.py)."""

from collections.abc import Sequence
from struct import Struct
from typing import Final
from uuid import UUID

from kafkapy.protocol.message import (
    MAX_STRING_SIZE,
    InvalidValue,
    Message,
    OpaqueBody,
    Records,
    TaggedFields,
)

Part = bytes | bytearray | memoryview | OpaqueBody

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

_NO_LIMIT: Final = 2**63

BYTES_OF_A_STRUCT: Final = 64
"""Bytes of a string, of bytes or of an array of numbers that count as a struct more if ``max_structs`` limits them."""
COPIED_BODY_SIZE: Final = 4096
"""Bodies of bytes up to this size are copied into the buffer: a separate part takes a vector entry of a system call."""
COPIED_ENCODED_SIZE: Final = 256
"""The same for encoded bytes, which several elements of a message may share: a part takes about 150 bytes of memory."""


class TooManyStructs(Exception):  # noqa: N818  # no error of the message: the caller chose the limit
    """The message has more structs, or bytes that count as such, than the writer's ``max_structs``."""


class Writer:
    """Collects a message in ``buffer``; opaque bodies stay separate parts, in order."""

    __slots__ = ("buffer", "_parts", "_structs_left")

    def __init__(self, start: bytes = b"", max_structs: int | None = None) -> None:
        """``start`` has the first bytes of the message; ``max_structs`` limits the elements of all arrays of structs.

        Of longer strings, bytes and arrays of numbers, each ``BYTES_OF_A_STRUCT`` count as a struct.
        """
        self.buffer = bytearray(start)
        self._parts: list[Part] = []
        self._structs_left = _NO_LIMIT if max_structs is None else max_structs

    def parts(self) -> list[Part]:
        """All parts in order; bodies are the objects that were passed in."""
        return [*self._parts, self.buffer] if self.buffer or not self._parts else list(self._parts)

    def frame(self) -> list[Part]:
        """``parts`` as a frame: its size is written into the first four bytes, which ``start`` reserves."""
        if not self._parts:
            _INT32.pack_into(self.buffer, 0, len(self.buffer) - 4)
            return [self.buffer]
        parts = self.parts()
        assert isinstance(parts[0], bytearray)
        _INT32.pack_into(parts[0], 0, sum(map(len, parts)) - 4)
        return parts

    def size(self) -> int:
        """Bytes written, bodies included."""
        return sum(len(part) for part in self._parts) + len(self.buffer)

    def getvalue(self) -> bytes:
        """All bytes in one piece; raises InvalidValue when a body has no bytes in memory."""
        pieces: list[bytes | bytearray | memoryview] = []
        for part in self.parts():
            if not isinstance(part, bytes | bytearray | memoryview):
                raise InvalidValue(f"a body of type {type(part).__name__} has no bytes in memory")
            pieces.append(part)
        return b"".join(pieces)

    def write_unsigned_varint(self, value: int) -> None:
        """7 bits a byte, low bits first."""
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def write_uuid(self, value: UUID) -> None:
        """16 bytes."""
        self.buffer += value.bytes

    # Strings

    def _string(self, value: str) -> bytes:
        try:
            encoded = value.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"{value!r} can't be encoded as UTF-8") from error
        if len(encoded) > BYTES_OF_A_STRUCT:
            if len(encoded) > MAX_STRING_SIZE:
                raise InvalidValue(f"a string of {len(encoded)} bytes")
            self._count_bytes(len(encoded))
        return encoded

    def _count_bytes(self, size: int) -> None:
        self._structs_left -= size // BYTES_OF_A_STRUCT
        if self._structs_left < 0:
            raise TooManyStructs

    def write_string(self, value: str) -> None:
        """int16 length, UTF-8."""
        encoded = self._string(value)
        self.buffer += _INT16.pack(len(encoded))
        self.buffer += encoded

    def write_nullable_string(self, value: str | None) -> None:
        """Length -1 is null."""
        if value is None:
            self.buffer += b"\xff\xff"
        else:
            self.write_string(value)

    def write_compact_string(self, value: str) -> None:
        """Varint of length + 1, UTF-8."""
        encoded = self._string(value)
        size = len(encoded)
        if size < 0x7F:
            self.buffer.append(size + 1)
        else:
            self.write_unsigned_varint(size + 1)
        self.buffer += encoded

    def write_compact_nullable_string(self, value: str | None) -> None:
        """0 is null."""
        if value is None:
            self.buffer.append(0)
        else:
            self.write_compact_string(value)

    # Bytes and records

    def write_bytes(self, value: bytes) -> None:
        """int32 length, bytes. Raises ``TooManyStructs``."""
        if len(value) > BYTES_OF_A_STRUCT:
            self._count_bytes(len(value))
        self.buffer += _INT32.pack(len(value))
        self.buffer += value

    def write_nullable_bytes(self, value: bytes | None) -> None:
        """Length -1 is null."""
        if value is None:
            self.buffer += b"\xff\xff\xff\xff"
        else:
            self.write_bytes(value)

    def write_compact_bytes(self, value: bytes) -> None:
        """Varint of length + 1, bytes. Raises ``TooManyStructs``."""
        if len(value) > BYTES_OF_A_STRUCT:
            self._count_bytes(len(value))
        self.write_unsigned_varint(len(value) + 1)
        self.buffer += value

    def write_compact_nullable_bytes(self, value: bytes | None) -> None:
        """0 is null."""
        if value is None:
            self.buffer.append(0)
        else:
            self.write_compact_bytes(value)

    def _body(self, body: Records) -> None:
        """Copy a small body of bytes; any other becomes a separate part."""
        if isinstance(body, bytes | bytearray | memoryview) and len(body) <= COPIED_BODY_SIZE:
            self.buffer += body
        else:
            self._parts.append(self.buffer)
            self._parts.append(body)
            self.buffer = bytearray()

    def write_encoded(self, content: bytes) -> None:
        """Add encoded bytes of the message; more than ``COPIED_ENCODED_SIZE`` bytes are not copied."""
        if len(content) <= COPIED_ENCODED_SIZE:
            self.buffer += content
        else:
            self._parts.append(self.buffer)
            self._parts.append(content)
            self.buffer = bytearray()

    def write_parts(self, parts: Sequence[Part]) -> None:
        """Add the parts of another writer without copying them."""
        self._parts.append(self.buffer)
        self._parts.extend(parts)
        self.buffer = bytearray()

    def write_records(self, body: Records | None) -> None:
        """int32 length (-1: null), the body untouched."""
        if body is None:
            self.buffer += b"\xff\xff\xff\xff"
        else:
            self.buffer += _INT32.pack(len(body))
            self._body(body)

    def write_compact_records(self, body: Records | None) -> None:
        """Varint of length + 1 (0: null), the body untouched."""
        if body is None:
            self.buffer.append(0)
        else:
            self.write_unsigned_varint(len(body) + 1)
            self._body(body)

    # Arrays: the count, then the elements

    def write_count(self, count: int) -> None:
        """int32."""
        self.buffer += _INT32.pack(count)

    def write_compact_count(self, count: int) -> None:
        """Varint of count + 1."""
        if count < 0x7F:
            self.buffer.append(count + 1)
        else:
            self.write_unsigned_varint(count + 1)

    def write_structs(self, structs: Sequence[Message], version: int) -> None:
        """Write the elements of an array of structs. Raises ``TooManyStructs``."""
        self._structs_left -= len(structs)
        if self._structs_left < 0:
            raise TooManyStructs
        for struct in structs:
            struct.write(self, version)

    def write_numbers(self, letter: str, numbers: Sequence[int]) -> None:
        """Write the elements of an array of integers; ``letter`` is their format in ``struct``.

        Raises ``TooManyStructs``.
        """
        packed = Struct(f">{len(numbers)}{letter}")
        if packed.size > BYTES_OF_A_STRUCT:
            self._count_bytes(packed.size)
        self.buffer += packed.pack(*numbers)

    def write_strings(self, strings: Sequence[str]) -> None:
        """Write the elements of an array of strings."""
        for string in strings:
            self.write_string(string)

    def write_compact_strings(self, strings: Sequence[str]) -> None:
        """Write the elements of a compact array of strings."""
        for string in strings:
            self.write_compact_string(string)

    def write_uuids(self, uuids: Sequence[UUID]) -> None:
        """Write the elements of an array of ids."""
        for uuid in uuids:
            self.buffer += uuid.bytes

    # Tagged fields (KIP-482)

    def write_tagged_fields(self, known: list[tuple[int, bytes]], unknown: TaggedFields) -> None:
        """Write known and unknown fields in ascending order of tags; raises InvalidValue when a tag occurs twice."""
        fields = sorted(known + unknown) if unknown else known
        if unknown and len({tag for tag, _ in fields}) != len(fields):
            raise InvalidValue("a tagged field occurs twice")
        self.write_unsigned_varint(len(fields))
        for tag, content in fields:
            self.write_unsigned_varint(tag)
            self.write_unsigned_varint(len(content))
            self.buffer += content

    def write_unknown_tagged_fields(self, unknown: TaggedFields) -> None:
        """Write the tag section of a struct for which the definitions have no tagged fields."""
        if unknown:
            self.write_tagged_fields([], unknown)
        else:
            self.buffer.append(0)
