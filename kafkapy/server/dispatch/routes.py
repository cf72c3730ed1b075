"""The route of an API in one version: the properties of the API's handler that the stages need."""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import NamedTuple

from kafkapy.protocol.headers import response_header_version
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.reader import Reader
from kafkapy.server.dispatch.api_table import Api
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.forms import Pattern
from kafkapy.server.dispatch.result import Handler, Request, Result
from kafkapy.server.dispatch.topic_ids import ByName, by_name
from kafkapy.server.dispatch.verdicts import serve
from kafkapy.turns import Steps


class Route(NamedTuple):
    """An API in one version."""

    api: Api
    read: Callable[[Reader, int], Message]
    handle: Handler
    flexible_response_header: bool
    is_pipelined: bool
    """A request may be served while earlier ones of this API wait for their responses."""
    pattern: Pattern[Message] | None
    """The fields of its requests that vary; None: all requests are decoded."""
    by_name: ByName | None
    """Gives the topics of its requests, which name some by id, their names; None: they have names."""


@cache
def route_of(api: Api, version: int) -> Route:
    """Import the API's handler, which may have ``IS_PIPELINED`` and ``PATTERN``; the version must be served."""
    handler = import_module(f"kafkapy.server.handlers.{api.module}")
    return Route(
        api=api,
        read=request_class(api.key).read,
        handle=handler.handle,
        flexible_response_header=response_header_version(api.key, version) > 0,
        is_pipelined=getattr(handler, "IS_PIPELINED", False),
        pattern=getattr(handler, "PATTERN", None),
        by_name=by_name(api.key, version),
    )


def admit_and_handle(route: Route, context: RequestContext, request: Request) -> Result | Steps[Result]:
    """Serve a request that is decoded: nothing else calls a handler, so a rule for all requests stands here.

    Topics that are named by id get their names first. Access control calls the handler with a request, or with the
    allowed part of it, or not at all. Quotas measure all of it.
    """
    services = context.services
    services.metrics.requests[route.api.module] += 1
    if services.quotas is not None:
        from kafkapy.server.dispatch.throttling import throttled  # a broker without quotas does not need it

        return throttled(services.quotas, context, request, lambda: _allow_and_handle(route, context, request))
    return _allow_and_handle(route, context, request)


def _allow_and_handle(route: Route, context: RequestContext, request: Request) -> Result | Steps[Result]:
    if route.by_name is not None and (verdict := route.by_name(context, request)) is not None:
        return serve(verdict, partial(_allow_named_and_handle, route), context, request)
    return _allow_named_and_handle(route, context, request)


def _allow_named_and_handle(route: Route, context: RequestContext, request: Request) -> Result | Steps[Result]:
    services = context.services
    if services.access is not None:
        return services.access.handle(route.api, route.handle, context, request)
    return route.handle(context, request)
