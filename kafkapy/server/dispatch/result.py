"""The result of a handler: the response now, later, or in steps.

- Now: the response, or None if the request has no answer.
- Later: an awaitable of it. A Future waits for an event; it can be cancelled when the client disconnects, and needs the
  request's bytes no more. A coroutine becomes a task, which keeps them, and runs on.
- In steps: a generator with places to pause (``kafkapy/turns.py``) whose return value is one of these two.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING

from kafkapy.delayed import Delayed
from kafkapy.protocol.message import Message
from kafkapy.turns import MaybeSteps, Steps, in_turns

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


def with_change(
    result: Result | Steps[Result], change: Callable[[Response], MaybeSteps[Response]]
) -> Result | Steps[Result]:
    """Return the result of a handler with ``change`` made to its response, also to one that comes later."""
    if isinstance(result, Generator):
        return _changed_after_steps(result, change)
    if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
        return Delayed.of(
            asyncio.ensure_future(_changed_later(result, change)), result
        )  # it can be cancelled, as before
    if isinstance(result, Awaitable):
        return _changed_later(result, change)
    return change(result)


def _changed_after_steps(steps: Steps[Result], change: Callable[[Response], MaybeSteps[Response]]) -> Steps[Result]:
    changed = with_change((yield from steps), change)
    return (yield from changed) if isinstance(changed, Generator) else changed


async def _changed_later(
    coming: Awaitable[Response | Awaitable[Response]], change: Callable[[Response], MaybeSteps[Response]]
) -> Response:
    result = await coming
    while isinstance(result, Awaitable):
        result = await result
    changed = change(result)
    return await in_turns(changed) if isinstance(changed, Generator) else changed
