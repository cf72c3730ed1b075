"""Hooks between a broker's requests and their handlers: faults that a test sets, a trace that a person reads.

The dispatcher wraps a handler when it makes its route, and only if there is a hook, so that requests to a broker
without hooks take no longer.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafkapy.clock import Clock
from kafkapy.network.peer import BrokerChannel
from kafkapy.platform.files import Files
from kafkapy.protocol.message import Message

if TYPE_CHECKING:
    from kafkapy.network.dispatcher import Dispatcher
    from kafkapy.server.dispatch.context import RequestContext, Services
    from kafkapy.server.handlers import ApiTable

Result = Message | Awaitable[Message | None] | None
"""The result of a handler: the response, an awaitable of it, or None when there is no answer."""

Handle = Callable[["RequestContext", Any], Result]

Handler = Callable[["RequestContext", Any], Result | Generator[None, None, Result]]
"""The ``handle`` of a handler's module: besides results it may return steps that lead to one (``kafkapy/turns.py``)."""


class Interceptor(Protocol):
    """Answers requests in place of the handlers, or passes them on; all methods run on the broker's event loop."""

    def start(self, services: "Services") -> None:
        """Called before the broker serves its first request."""
        ...

    def handle(self, context: "RequestContext", request: Any, handle: Handle) -> Result:
        """Answer ``request`` by calling ``handle`` or otherwise; ``RefusedError`` closes the connection.

        ``request`` is None for an ApiVersions request in a version that the broker doesn't know. A coroutine keeps the
        receive buffer of its request until it is done, and continues after the client has disconnected.
        """
        ...

    def stop(self) -> None:
        """Called when the broker stops: release all requests that wait."""
        ...


class Tracer(Protocol):
    """Shows requests and their answers."""

    def dispatcher(self, services: "Services", apis: "ApiTable", interceptor: Interceptor | None) -> "Dispatcher":
        """Return a dispatcher, for a listener with ``apis``, that shows requests and answers."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Hooks:
    """The hooks of a broker; none are set by default."""

    interceptor: Interceptor | None = None
    trace: Tracer | None = None
    connection_clock: Clock | None = None
    """Measures how long connections are idle, so that a test which moves the broker's clock closes none."""
    files: Files | None = None
    """Accesses the files of the data directory in place of ``Files()``."""
    peers: Callable[[BrokerChannel], BrokerChannel] | None = None
    """Wraps the connections of a part of the broker to other brokers."""
