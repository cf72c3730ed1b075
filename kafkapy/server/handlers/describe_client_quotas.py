"""DescribeClientQuotas v0: the broker enforces no client quotas, so there are none to describe.

Not done: quotas (``alter_client_quotas.py`` refuses them).
Errors: UNSUPPORTED_VERSION 35 (a kind of entity other than users and client ids), INVALID_REQUEST 42 (a kind twice or
without a name, an unknown way to match).
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.text import shortened
from kafkapy.turns import Steps

EXACT: Final = 0
_WAYS: Final = (EXACT, 1, 2)
"""The entity of a name, the default entity, every entity that has a name."""
LONGEST_TYPE: Final = 200
"""Characters of an entity's type that an error message repeats."""
_KINDS: Final = {"user": "user", "client-id": "client"}


def handle(_context: RequestContext, request: DescribeClientQuotasRequest) -> Steps[DescribeClientQuotasResponse]:
    """Answer without entities, or refuse the filter: for its ways to match first, as in Apache Kafka."""
    for component in request.components:
        way = component.match_type
        if way not in _WAYS or (way == EXACT and component.match is None):
            return _refused(ErrorCode.INVALID_REQUEST, f"The match type {way} is unknown, or has no name to match.")
        yield
    seen: set[str] = set()
    for component in request.components:
        refusal = _refusal(component, seen)
        if refusal is not None:
            return _refused(*refusal)
        seen.add(component.entity_type)
        yield
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def _refused(error_code: int, text: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(0, error_code, text, entries=None)


def _refusal(component: ComponentData, seen: set[str]) -> tuple[int, str] | None:
    kind = component.entity_type
    if kind in seen:
        return ErrorCode.INVALID_REQUEST, kafka_texts.quota_filter_repeated(_KINDS[kind])
    if not kind:
        return ErrorCode.INVALID_REQUEST, kafka_texts.EMPTY_QUOTA_FILTER
    if kind not in _KINDS:
        return ErrorCode.UNSUPPORTED_VERSION, kafka_texts.custom_quota_entity(shortened(kind, LONGEST_TYPE))
    return None
