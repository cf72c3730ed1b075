"""The result of a handler: the response now, later, or in steps.

- Now: the response, or None if the request has no answer.
- Later: an awaitable of it. A Future waits for an event; it can be cancelled when the client disconnects, and needs the
  request's bytes no more. A coroutine becomes a task, which keeps them, and runs on.
- In steps: a generator with places to pause (``kafkapy/turns.py``) whose return value is one of these two.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kafkapy.protocol.message import Message
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

Request = Message | None
"""A request of the API's class, or None for an ApiVersions request of a version that the broker does not know."""

Response = Message | None
"""A response, or None for a request without an answer."""

Result = Response | Awaitable[Response]

Handler = Callable[["RequestContext", Request], Result | Steps[Result]]
"""The ``handle`` of a handler's module."""

Handle = Callable[["RequestContext", Request], Result]
"""A handler that returns no steps: its wrapper has run them."""
