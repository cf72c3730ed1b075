"""The last stage of a request: the response becomes a frame.

Most responses are written by their class. Where many requests get nearly the same response, a handler keeps a
``ResponseTemplate`` and sets only the fields that vary, which takes half the time. A long response that is encoded in
steps is an ``EncodedParts``.
"""

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kafkapy.network.errors import UnencodableResponseError
from kafkapy.protocol.headers import RequestHeader, response_header_version
from kafkapy.protocol.message import Message, ProtocolError, Records
from kafkapy.protocol.primitives import decode
from kafkapy.protocol.primitives import encode as encode_message
from kafkapy.protocol.writer import Part, Writer
from kafkapy.server.dispatch.varying import around_integers

SIZE_AND_CORRELATION_ID: Final = struct.Struct(">ii")
"""The first fields of every response's frame."""
SIZE_SIZE: Final = 4
"""Bytes of a response's size, which it does not count."""
_INT32: Final = struct.Struct(">i")


def encode(
    header: RequestHeader, flexible_header: bool, response: Message, max_structs: int | None = None
) -> list[Part]:
    """Return the response's frame, size prefix included, bodies untouched.

    Raises ``TooManyStructs`` for a response of more than ``max_structs``, ``UnencodableResponseError`` for one that the
    request's version can't express, or that is too large for a frame.
    """
    if isinstance(response, Filled):
        return response.frame(header.correlation_id)
    writer = Writer(SIZE_AND_CORRELATION_ID.pack(0, header.correlation_id), max_structs)
    if flexible_header:
        writer.buffer.append(0)
    try:
        response.write(writer, header.api_version)
        return writer.frame()  # whose size has a field too
    except (ProtocolError, struct.error) as error:  # as ``write_message``, without another call for each response
        raise UnencodableResponseError(f"{type(response).__name__}: {error}") from error


class ResponseTemplate:
    """Responses of one version that differ in some integers only.

    ``make(*integers)`` makes such a response. ``formats`` has the letter of ``struct`` for each of the integers, in the
    order in which they are written; no other field may be between them.
    """

    __slots__ = ("make", "size", "before", "behind", "pack")

    def __init__(self, make: Callable[..., Message], formats: str, version: int) -> None:
        self.make = make
        zeros, ones = make(*[0] * len(formats)), make(*[-1] * len(formats))
        self._lay_out(
            around_integers(_frame_of(zeros, version, 0), _frame_of(ones, version, -1), "ii" + formats), formats
        )

    def _lay_out(self, constant: list[bytes], formats: str) -> None:
        """Note the constant bytes ``before`` and ``behind`` the integers, and what packs a frame."""
        _, _, self.before, *between = constant
        self.behind = between.pop() if between else b""
        assert not any(between), "the integers are next to each other"
        layout = struct.Struct(f">ii{len(self.before)}s{formats}{len(self.behind)}s")
        self.size = layout.size - SIZE_SIZE
        self.pack = layout.pack


class ConstantTemplate(ResponseTemplate):
    """One response without integers that vary, encoded once."""

    __slots__ = ()

    def __init__(self, message: Message, version: int) -> None:
        content = encode_message(message, version)
        self.make = partial(decode, type(message), content, version)
        self._lay_out([b"", b"", bytes(_tags_size(message, version)) + content], "")


class Filled(Message):
    """A response with the integers of a template."""

    __slots__ = ("_template", "_integers")

    def __init__(self, template: ResponseTemplate, integers: Sequence[int] = ()) -> None:
        self._template = template
        self._integers = integers

    def frame(self, correlation_id: int) -> list[Part]:
        """Return the same bytes as ``encode``, made in one step."""
        template = self._template
        return [
            bytearray(template.pack(template.size, correlation_id, template.before, *self._integers, template.behind))
        ]

    def write(self, writer: Writer, version: int) -> None:
        """See ``Message.write``."""
        self.decoded().write(writer, version)

    def decoded(self) -> Message:
        """Return an equal message, which may be changed."""
        return self._template.make(*self._integers)


class RecordsTemplate(ResponseTemplate):
    """The same for responses that differ in the records at their end, too: the last argument of ``make``."""

    __slots__ = ("is_flexible", "end")

    def __init__(self, make: Callable[..., Message], formats: str, version: int) -> None:
        self.make = make
        zeros, ones = make(*[0] * len(formats), b""), make(*[-1] * len(formats), None)
        self.is_flexible = version >= zeros.FLEXIBLE_FROM  # type: ignore[attr-defined]  # responses have it
        size_format = "b" if self.is_flexible else "i"  # null and no records have sizes that differ in all bytes
        zeros_frame, ones_frame = _frame_of(zeros, version, 0), _frame_of(ones, version, -1)
        *constant, self.end = around_integers(zeros_frame, ones_frame, f"ii{formats}{size_format}")
        self._lay_out(constant, formats)


class FilledWithRecords(Filled):
    """A response with the integers and the records of a template."""

    __slots__ = ("_records",)

    _template: RecordsTemplate

    def __init__(self, template: RecordsTemplate, integers: Sequence[int], records: Records) -> None:
        self._template = template
        self._integers = integers
        self._records = records

    def frame(self, correlation_id: int) -> list[Part]:
        """Return the same bytes as ``encode``, made in one step."""
        template, records = self._template, self._records
        size, end = len(records), template.end
        written_size = _INT32.pack(size) if not template.is_flexible else _varint(size + 1)
        whole_size = template.size + len(written_size) + size + len(end)
        frame = bytearray(template.pack(whole_size, correlation_id, template.before, *self._integers, template.behind))
        frame += written_size
        if not size:
            frame += end
            return [frame]
        return [frame, records, end] if end else [frame, records]

    def decoded(self) -> Message:
        """Return an equal message, which may be changed."""
        return self._template.make(*self._integers, self._records)


def _varint(number: int) -> bytearray:
    writer = Writer()
    writer.write_unsigned_varint(number)
    return writer.buffer


def _frame_of(message: Message, version: int, number: int) -> bytes:
    """The frame of a response in which ``number`` stands for its size and its correlation id."""
    header = SIZE_AND_CORRELATION_ID.pack(number, number) + bytes(_tags_size(message, version))
    return header + encode_message(message, version)


def _tags_size(message: Message, version: int) -> int:
    """Bytes of a response header's tagged fields, of which there are none: 1 for their count in a flexible header."""
    key: int = message.API_KEY  # type: ignore[attr-defined]  # responses have it
    return response_header_version(key, version)


class EncodedParts(Message):
    """A long response of ``kind`` that its handler has encoded in steps; responses may share parts."""

    __slots__ = ("_kind", "_version", "_parts")

    def __init__(self, kind: type[Message], version: int, parts: Sequence[Part]) -> None:
        self._kind = kind
        self._version = version
        self._parts = parts

    def __repr__(self) -> str:
        return f"EncodedParts({self._kind.__name__}, {self._version}, {len(self._parts)} parts)"

    def write(self, writer: Writer, version: int) -> None:
        """See ``Message.write``."""
        assert version == self._version
        writer.write_parts(self._parts)

    def decoded(self) -> Message:
        """Return an equal message, which may be changed."""
        return decode(self._kind, encode_message(self, self._version), self._version)
