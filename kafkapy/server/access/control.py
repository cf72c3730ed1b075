"""AclAccessControl: the stage between a decoded request and its handler, which asks the API's rule."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from kafkapy.clock import Clock
from kafkapy.delayed import Delayed
from kafkapy.metadata.acls import AclStore
from kafkapy.metrics import PeerLines
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages import APIS
from kafkapy.security.authorizer import Rights, java_address
from kafkapy.server.access.rules import Partial, Verdict
from kafkapy.server.access.table import RULES
from kafkapy.server.dispatch.api_table import Api
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoding import EncodedParts, Filled
from kafkapy.server.dispatch.result import Handler, Request, Response, Result
from kafkapy.turns import MaybeSteps, Steps, in_turns

Merge = Callable[[Any], MaybeSteps[Response]]


class AclAccessControl:
    """Applies the rules with the decisions of an ``AclStore``'s authorizer."""

    __slots__ = ("acls", "_clock", "_lines")

    def __init__(self, acls: AclStore, clock: Clock, lines: PeerLines) -> None:
        self.acls: AclStore = acls
        self._clock = clock
        self._lines = lines

    def rights(self, context: RequestContext) -> Rights | None:
        """See ``AccessControl``."""
        session = context.session
        if session.is_local:
            return None
        api = APIS[context.header.api_key][1]
        return Rights(self.acls.authorizer, session.principal, java_address(session.peer_host), api, self._may_log)

    def _may_log(self) -> bool:
        return self._lines.may_log(self._clock.monotonic_s())

    def handle(self, api: Api, handle: Handler, context: RequestContext, request: Request) -> Result | Steps[Result]:
        """See ``AccessControl``."""
        rights = self.rights(context)
        if rights is None:
            return handle(context, request)
        rule = RULES.get(api.key)
        if rule is None:
            _check_super_user(rights, api)
            return handle(context, request)
        verdict = rule(rights, context, request)
        if isinstance(verdict, Generator):
            return _in_steps(verdict, handle, context, request)
        return _serve(verdict, handle, context, request)


def _check_super_user(rights: Rights, api: Api) -> None:
    if not rights.is_super_user:
        raise RefusedError(f"{ApiKey(api.key).name} has no rule of access control: it is for super users alone")


def _in_steps(verdict: Steps[Verdict], handle: Handler, context: RequestContext, request: Request) -> Steps[Result]:
    result = _serve((yield from verdict), handle, context, request)
    return (yield from result) if isinstance(result, Generator) else result


def _serve(verdict: Verdict, handle: Handler, context: RequestContext, request: Request) -> Result | Steps[Result]:
    if verdict is None:
        return handle(context, request)
    if isinstance(verdict, Partial):
        return _merged(verdict.merge, handle(context, verdict.request))
    return verdict


def _merged(merge: Merge, result: Result | Steps[Result]) -> Result | Steps[Result]:
    """Merge the denied part into the result of a handler, whatever its shape is."""
    if isinstance(result, Generator):
        return _merged_after_steps(merge, result)
    if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
        return Delayed.of(asyncio.ensure_future(_merged_later(merge, result)), result)  # it can be cancelled, as before
    if isinstance(result, Awaitable):
        return _merged_later(merge, result)
    return merge(_decoded(result))


def _merged_after_steps(merge: Merge, steps: Steps[Result]) -> Steps[Result]:
    merged = _merged(merge, (yield from steps))
    return (yield from merged) if isinstance(merged, Generator) else merged


async def _merged_later(merge: Merge, coming: Awaitable[Response | Awaitable[Response]]) -> Response:
    result = await coming
    while isinstance(result, Awaitable):
        result = await result
    merged = merge(_decoded(result))
    return await in_turns(merged) if isinstance(merged, Generator) else merged


def _decoded(response: Response) -> Response:
    return response.decoded() if isinstance(response, Filled | EncodedParts) else response
