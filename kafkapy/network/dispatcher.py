"""The server as a connection uses it: it answers frames."""

import asyncio
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kafkapy.network.session import Session
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.writer import Part
from kafkapy.types import maker

R = TypeVar("R")

NO_API: Final = -1


class Waiting(NamedTuple, Generic[R]):
    """A request whose response, or its encoded frame, comes later."""

    route: R
    """The dispatcher's data about the request's API and version."""
    header: RequestHeader
    future: "asyncio.Future[Any]"
    """A future of a ``Message``, of an encoded frame (``list[Part]``), of None, or of another such future."""
    overtaken_by: int = NO_API
    """The key of the API whose requests may be served before the response is there; their responses come after it."""


waiting_of: Final = maker(Waiting)
"""Makes a ``Waiting`` of a tuple of its four fields."""


class Dispatcher(Protocol):
    """Answers frames."""

    def dispatch(self, frame: memoryview, session: Session, /) -> list[Part] | Waiting[Any] | None:
        """Return the frame of the response, the future to wait for, or None if there is no response."""

    def answer(self, waiting: Any, /) -> list[Part] | Waiting[Any] | None:
        """Return the same for a request whose future is done."""

    def dropped(self, waiting: Any, /) -> None:
        """The future of a request is done, but the connection has ended before its response could be sent."""
