"""Responses that are already encoded: the same response for many requests, or one that was encoded in steps."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkapy.protocol.message import Message
from kafkapy.protocol.primitives import decode, encode
from kafkapy.protocol.writer import Part, Writer
from kafkapy.server.dispatch.interception import Handle, Handler, Result
from kafkapy.turns import Steps, at_once_or_in_turns

SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
"""The first fields of every response's frame."""
SIZE_SIZE: Final = 4
"""Bytes of a response's size, which it does not count."""
_CORRELATION_ID_SIZE: Final = 4

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


class Encoded(Message):
    """A message encoded for requests of ``version``, which a handler returns in its place; it is never changed."""

    __slots__ = ("_kind", "_version", "_content")

    def __init__(self, message: Message, version: int) -> None:
        """Raises ``ProtocolError`` where the version can't carry the message."""
        self._kind = type(message)
        self._version = version
        self._content = encode(message, version)

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return len(self._content)

    def write(self, writer: Writer, version: int) -> None:
        """See ``Message.write``."""
        assert version == self._version
        writer.buffer += self._content

    def frame(self, correlation_id: int, *, flexible_header: bool) -> bytearray:
        """The same bytes as those of ``dispatch.encode``, made in one step."""
        size = _CORRELATION_ID_SIZE + flexible_header + len(self._content)
        frame = bytearray(SIZE_AND_CORRELATION_ID.pack(size, correlation_id))
        if flexible_header:
            frame.append(0)
        frame += self._content
        return frame

    def decoded(self) -> Message:
        """An equal message, which may be changed."""
        return decode(self._kind, self._content, self._version)


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
        return decode(self._kind, encode(self, self._version), self._version)


async def _decoded(coming: Awaitable[Message | None]) -> Message | None:
    result = await coming
    return result.decoded() if isinstance(result, Encoded | EncodedParts) else result


def decoded_handler(handler: Handler, run: Callable[[Steps[Result]], Result] = at_once_or_in_turns) -> Handle:
    """Wrap a handler for callers that read or change responses: encoded ones are decoded, and ``run`` runs steps.

    A Future that a handler makes itself must not have an encoded response as its result.
    """

    def handled(context: "RequestContext", request: Any) -> Result:
        steps = handler(context, request)
        result: Result = run(steps) if isinstance(steps, Generator) else steps
        if isinstance(result, Coroutine | asyncio.Task):
            return _decoded(result)
        return result.decoded() if isinstance(result, Encoded | EncodedParts) else result

    return handled
