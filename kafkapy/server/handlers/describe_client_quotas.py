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
from kafkapy.server.context import RequestContext
from kafkapy.text import shortened

EXACT: Final = 0
_WAYS: Final = (EXACT, 1, 2)
"""The entity of a name, the default entity, every entity that has a name."""
LONGEST_TYPE: Final = 200
"""Characters of an entity's type that an error message repeats."""
_KINDS: Final = {"user": "user", "client-id": "client"}


def handle(_context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer without entities, or refuse the filter."""
    seen: set[str] = set()
    for component in request.components:
        refusal = _refusal(component, seen)
        if refusal is not None:
            return DescribeClientQuotasResponse(0, *refusal, entries=None)
        seen.add(component.entity_type)
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def _refusal(component: ComponentData, seen: set[str]) -> tuple[int, str] | None:
    kind = component.entity_type
    if component.match_type not in _WAYS or (component.match_type == EXACT and component.match is None):
        return ErrorCode.INVALID_REQUEST, f"There is no way to match {component.match_type}, or it has no name."
    if kind in seen:
        return ErrorCode.INVALID_REQUEST, kafka_texts.quota_filter_repeated(_KINDS[kind])
    if not kind:
        return ErrorCode.INVALID_REQUEST, kafka_texts.EMPTY_QUOTA_FILTER
    if kind not in _KINDS:
        return ErrorCode.UNSUPPORTED_VERSION, kafka_texts.custom_quota_entity(shortened(kind, LONGEST_TYPE))
    return None
