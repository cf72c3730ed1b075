"""A response whose bytes are there already, for answers that are given word for word again and again."""

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkapy.protocol.message import Message
from kafkapy.protocol.primitives import decode, encode
from kafkapy.protocol.writer import Writer
from kafkapy.server.interception import Handle, Result

SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
"""What every response begins with."""
_CORRELATION_ID_SIZE: Final = 4

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


class Encoded(Message):
    """What a handler may return in the place of ``message``, for requests of ``version``; it is never changed."""

    __slots__ = ("_kind", "_version", "_content")

    def __init__(self, message: Message, version: int) -> None:
        """Raises ``ProtocolError`` where the version can't carry the message."""
        self._kind = type(message)
        self._version = version
        self._content = encode(message, version)

    def write(self, writer: Writer, version: int) -> None:
        """See ``Message.write``."""
        assert version == self._version
        writer.buffer += self._content

    def frame(self, correlation_id: int, *, flexible_header: bool) -> bytearray:
        """What ``dispatch.encode`` makes of it, in one go."""
        size = _CORRELATION_ID_SIZE + flexible_header + len(self._content)
        frame = bytearray(SIZE_AND_CORRELATION_ID.pack(size, correlation_id))
        if flexible_header:
            frame.append(0)
        frame += self._content
        return frame

    def decoded(self) -> Message:
        """A message of its own that says the same."""
        return decode(self._kind, self._content, self._version)


def spelled_out(handle: Handle) -> Handle:
    """The handler for those who read its responses, or change them."""

    def handled(context: "RequestContext", request: Any) -> Result:
        result = handle(context, request)
        return result.decoded() if isinstance(result, Encoded) else result

    return handled
