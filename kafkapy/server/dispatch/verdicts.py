"""A stage's verdict on a decoded request: whether the handler gets it, a part of it, or nothing.

- None: the handler gets the request as it is;
- a response: it is the answer, and the handler is not called;
- ``Partial``: the handler gets another request, and the response to it is changed to that of the whole request.

A stage changes neither the request, which the connection may repeat, nor any state. It only sets the names of topics
that have ids, each time.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kafkapy.protocol.message import Message
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoding import EncodedParts, Filled
from kafkapy.server.dispatch.result import Handler, Request, Response, Result, with_change
from kafkapy.turns import MaybeSteps, Steps


class Partial(NamedTuple):
    """The part of a request that is handled, and how the response to it becomes the response to the whole request."""

    request: Message
    merge: Callable[[Any], MaybeSteps[Response]]


Verdict = Message | Partial | None


def serve(
    verdict: MaybeSteps[Verdict], handle: Handler, context: RequestContext, request: Request
) -> Result | Steps[Result]:
    """Call ``handle`` as the verdict says, at once or after the verdict's steps."""
    if isinstance(verdict, Generator):
        return _serve_in_steps(verdict, handle, context, request)
    if verdict is None:
        return handle(context, request)
    if isinstance(verdict, Partial):
        merge = verdict.merge
        return with_change(handle(context, verdict.request), lambda response: merge(_decoded(response)))
    return verdict


def _serve_in_steps(
    verdict: Steps[Verdict], handle: Handler, context: RequestContext, request: Request
) -> Steps[Result]:
    result = serve((yield from verdict), handle, context, request)
    return (yield from result) if isinstance(result, Generator) else result


def _decoded(response: Response) -> Response:
    return response.decoded() if isinstance(response, Filled | EncodedParts) else response
