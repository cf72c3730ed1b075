"""The stage that measures what clients take, and lets those wait that exceed a quota (KIP-13, KIP-124, KIP-219).

The response leaves at once and says how long the client has to wait; its connection is muted for that time. A fetch
that exceeds the quota is answered without records, and a change of topics may be refused: their handlers do that, and
set ``throttle_time_ms``, since they know what is taken. What a request costs the broker is the time in which its
handler runs; the time of coroutines, which mostly wait, does not count.
"""

from collections.abc import Callable, Generator
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kafkapy import kafka_texts
from kafkapy.controller.topics import Budget
from kafkapy.metadata.errors import ThrottlingQuotaExceededError
from kafkapy.metadata.znodes import tree_name
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.quotas.limits import QuotaKind
from kafkapy.replication.fetching import replica_id_of
from kafkapy.server.dispatch.encoding import EncodedParts, Filled
from kafkapy.server.dispatch.result import with_change
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.protocol.message import Message
    from kafkapy.quotas.clients import ClientQuotas
    from kafkapy.server.dispatch.context import RequestContext
    from kafkapy.server.dispatch.result import Request, Response, Result

EXEMPT: Final = frozenset({
    ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.WRITE_TXN_MARKERS, ApiKey.ALTER_PARTITION, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
})  # fmt: skip
"""Requests of brokers, and those before a client has a name."""
_PERCENT: Final = 100


def client_names(context: "RequestContext") -> tuple[str, str]:
    """Return the user and the client id of a request, as they are in the tree."""
    _, _, user = context.session.principal.partition(":")
    return tree_name(user), tree_name(context.header.client_id or "")


def throttled(
    quotas: "ClientQuotas",
    context: "RequestContext",
    request: "Request",
    serve: "Callable[[], Result | Steps[Result]]",
) -> "Result | Steps[Result]":
    """Serve a request, and mute its connection if the client exceeds a quota."""
    if context.session.is_local or context.header.api_key in EXEMPT or _is_of_follower(request):
        return serve()
    user, client_id = client_names(context)
    is_produce = isinstance(request, ProduceRequest)
    is_answered = not (isinstance(request, ProduceRequest) and request.acks == 0)
    spent_s = [0.0]

    def throttle(response: "Response") -> "Response":
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if is_produce:
            throttle_ms = quotas.record(QuotaKind.PRODUCE, user, client_id, context.frame_size)
        if is_answered:
            throttle_ms = max(throttle_ms, quotas.record(QuotaKind.REQUEST, user, client_id, spent_s[0] * _PERCENT))
        if not throttle_ms:
            return response
        context.session.throttle_ms = max(context.session.throttle_ms, throttle_ms)
        return response if response is None else _with_time(response, throttle_ms)

    start_s = perf_counter()
    result = serve()
    spent_s[0] += perf_counter() - start_s
    return with_change(_timed(result, spent_s) if isinstance(result, Generator) else result, throttle)


def _is_of_follower(request: "Request") -> bool:
    return isinstance(request, FetchRequest) and replica_id_of(request) >= 0


def _timed(steps: "Steps[Result]", spent_s: list[float]) -> "Steps[Result]":
    while True:
        start_s = perf_counter()
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            spent_s[0] += perf_counter() - start_s
        yield


def _with_time(response: "Message", throttle_ms: int) -> "Message":
    """Return the response with the time, if it has a field for it; others may have the same response."""
    changed = response.decoded() if isinstance(response, Filled | EncodedParts) else copy(response)
    if hasattr(changed, "throttle_time_ms"):
        setattr(changed, "throttle_time_ms", throttle_ms)  # noqa: B010  # most classes have it, Message has not
    return changed


class MutationBudget(Budget):
    """Counts the partitions that one request creates or deletes (KIP-599).

    From the version ``strict_from`` on, a change is refused while the quota is used up. Older clients do not know that
    error: their changes are made, and they have to wait afterwards.
    """

    def __init__(self, context: "RequestContext", quotas: "ClientQuotas", strict_from: int) -> None:
        self._quota = None if context.session.is_local else quotas.mutations(*client_names(context))
        self._is_strict = context.header.api_version >= strict_from

    def charge(self, partitions: int) -> None:
        """See ``Budget.charge``."""
        quota = self._quota
        if quota is None:
            return
        if self._is_strict and (throttle_ms := quota.throttle_ms):
            self.throttle_ms = throttle_ms
            raise ThrottlingQuotaExceededError(kafka_texts.THROTTLING_QUOTA_EXCEEDED)
        quota.take(partitions)
        if not self._is_strict:
            self.throttle_ms = quota.throttle_ms
