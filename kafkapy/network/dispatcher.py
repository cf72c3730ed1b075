"""What a connection needs of the server: the answers to its frames."""

import asyncio
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.writer import Part

R = TypeVar("R")


class ConnectionInfo(Protocol):
    """What a handler may know of the connection that a request came in on."""

    peer_host: str
    """Numeric address of the client."""
    peer_port: int
    """Its port; 0 for the broker itself."""
    listener: str
    """Name of the listener that accepted it."""
    local_address: tuple[str, int]
    """(host, port) at which the client reached this broker."""
    principal: str
    """Who the client is, ``User:ANONYMOUS`` before authentication exists."""


class Waiting(NamedTuple, Generic[R]):
    """A request whose response, or its encoded frame, comes later."""

    route: R
    """What the dispatcher knows of the request's API and version."""
    header: RequestHeader
    future: "asyncio.Future[Any]"
    """Of a ``Message``, of an encoded frame (``list[Part]``), of None, or of another future of these."""


class Dispatcher(Protocol):
    """Answers frames."""

    def dispatch(self, frame: memoryview, connection: ConnectionInfo, /) -> list[Part] | Waiting[Any] | None:
        """Return the frame of the response, what to wait for, or None when there is no answer."""

    def answer(self, waiting: Any, /) -> list[Part] | Waiting[Any] | None:
        """Return the same for a request whose future is done."""
