"""What may stand between a broker's requests and their handlers: faults that a test sets, a trace that a person reads.

A broker without hooks is not asked about them: the dispatcher wraps a handler when it first learns its route, or
leaves it as it is, so that what nobody has switched on costs no request anything.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafkapy.clock import Clock
from kafkapy.protocol.message import Message
from kafkapy.storage.io.files import Files

if TYPE_CHECKING:
    from kafkapy.network.dispatcher import Dispatcher
    from kafkapy.server.context import RequestContext, Services
    from kafkapy.server.handlers import ApiTable

Result = Message | Awaitable[Message | None] | None
"""What a handler returns: the response, an awaitable of it, or None when there is no answer."""

Handle = Callable[["RequestContext", Any], Result]

Handler = Callable[["RequestContext", Any], Result | Generator[None, None, Result]]
"""The ``handle`` of a handler's module: besides results it may return steps that lead to one (``kafkapy/turns.py``)."""


class Interceptor(Protocol):
    """Answers requests in the handlers' place, or lets them; everything runs on the broker's loop."""

    def start(self, services: "Services") -> None:
        """The broker is about to serve."""
        ...

    def handle(self, context: "RequestContext", request: Any, handle: Handle) -> Result:
        """Answer ``request`` by calling ``handle`` or otherwise; ``RefusedError`` closes the connection.

        ``request`` is None for an ApiVersions request in a version that the broker doesn't know. A coroutine keeps the
        receive buffer of its request until it is done, and runs on when the client has gone.
        """
        ...

    def stop(self) -> None:
        """The broker stops: let go of whatever waits."""
        ...


class Tracer(Protocol):
    """Shows requests and their answers."""

    def dispatcher(self, services: "Services", apis: "ApiTable", interceptor: Interceptor | None) -> "Dispatcher":
        """Return a dispatcher for a listener with ``apis`` that shows what passes."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Hooks:
    """The hooks of a broker; none are set by default."""

    interceptor: Interceptor | None = None
    trace: Tracer | None = None
    connection_clock: Clock | None = None
    """Measures how long connections are idle, in place of the broker's clock, so moving that one closes none."""
    files: Files | None = None
    """The data directory's door in place of the usual one."""
