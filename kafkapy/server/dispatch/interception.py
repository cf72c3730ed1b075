"""Hooks between a broker's requests and their handlers: faults that a test sets, a trace that a person reads.

The dispatcher wraps a handler when it makes its route, and only if there is a hook, so that requests to a broker
without hooks take no longer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkapy.clock import Clock
from kafkapy.delayed import Delayed
from kafkapy.network.peer import BrokerChannel
from kafkapy.platform.files import Files
from kafkapy.server.dispatch.encoding import EncodedParts, Filled
from kafkapy.server.dispatch.result import Handle, Handler, Request, Response, Result
from kafkapy.turns import Steps, at_once_or_in_turns

if TYPE_CHECKING:
    from kafkapy.network.dispatcher import Dispatcher
    from kafkapy.server.dispatch.api_table import ApiTable
    from kafkapy.server.dispatch.context import RequestContext, Services


class Interceptor(Protocol):
    """Answers requests in place of the handlers, or passes them on; all methods run on the broker's event loop."""

    def start(self, services: "Services") -> None:
        """Called before the broker serves its first request."""
        ...

    def handle(self, context: "RequestContext", request: Request, handle: Handle) -> Result:
        """Answer ``request`` by calling ``handle`` or otherwise; ``RefusedError`` closes the connection.

        A coroutine keeps the receive buffer of its request until it is done, and continues after the client has
        disconnected.
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


def decoded_handler(handler: Handler, run: Callable[[Steps[Result]], Result] = at_once_or_in_turns) -> Handle:
    """Wrap a handler for callers that read or change responses: encoded ones are decoded, and ``run`` runs steps."""

    def handled(context: "RequestContext", request: Request) -> Result:
        steps = handler(context, request)
        result: Result = run(steps) if isinstance(steps, Generator) else steps
        if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
            return Delayed.of(asyncio.ensure_future(_decoded(result)), result)  # which can be cancelled, as it can
        if isinstance(result, Awaitable):
            return _decoded(result)
        return result.decoded() if isinstance(result, Filled | EncodedParts) else result

    return handled


async def _decoded(coming: Awaitable[Response | Awaitable[Response]]) -> Response:
    result = await coming
    while isinstance(result, Awaitable):
        result = await result
    return result.decoded() if isinstance(result, Filled | EncodedParts) else result
