"""DescribeClientQuotas v0-1: the quotas of users, client ids and both that match a filter, from the store (KIP-546).

Errors: UNSUPPORTED_VERSION 35 (a kind of entity other than users and client ids), INVALID_REQUEST 42 (a kind twice or
without a name, an unknown way to match).
"""

from typing import Final
from urllib.parse import unquote

from kafkapy import kafka_texts
from kafkapy.metadata.znodes import DEFAULT_ENTITY, ConfigEntity
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kafkapy.quotas.limits import QuotaEntity, quotas_of
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.text import shortened
from kafkapy.turns import OneByOne, pause

EXACT: Final = 0
ANY: Final = 2
_WAYS: Final = (EXACT, 1, ANY)
"""The entity of a name, the default entity, every entity that has a name."""
LONGEST_TYPE: Final = 200
"""Characters of an entity's type that an error message repeats."""
_KINDS: Final = {"user": "user", "client-id": "client"}


async def handle(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Describe the matching entities, or refuse the filter: for its ways to match first, as in Apache Kafka."""
    for component in request.components:
        way = component.match_type
        if way not in _WAYS or (way == EXACT and component.match is None):
            return _refused(ErrorCode.INVALID_REQUEST, f"The match type {way} is unknown, or has no name to match.")
        await pause()
    seen: set[str] = set()
    for component in request.components:
        refusal = _refusal(component, seen)
        if refusal is not None:
            return _refused(*refusal)
        seen.add(component.entity_type)
        await pause()
    wanted = {component.entity_type: component for component in request.components}
    admin = context.services.config_admin
    entries: list[EntryData] = []
    async for owner in OneByOne(await admin.clients()):
        names = _names(owner)
        if all(_matches(wanted.get(kind), kind in names, names.get(kind), request.strict) for kind in _KINDS):
            quotas = quotas_of(QuotaEntity(*owner.client_names), await admin.client_overrides(owner))
            if quotas:
                entity = [EntityData(kind, name) for kind, name in names.items()]
                entries.append(EntryData(entity, [ValueData(kind, bound) for kind, bound in quotas.items()]))
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _names(owner: ConfigEntity) -> dict[str, str | None]:
    """The name of each kind that the entity has; None is the default."""
    return {
        kind: None if name == DEFAULT_ENTITY else unquote(name)
        for kind, name in zip(_KINDS, owner.client_names, strict=True)
        if name is not None
    }


def _matches(component: ComponentData | None, has_name: bool, name: str | None, strict: bool) -> bool:
    if component is None:
        return not (has_name and strict)
    if not has_name or component.match_type == ANY:
        return has_name
    return name == (component.match if component.match_type == EXACT else None)


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
