"""AlterClientQuotas v0-1: sets and removes the quotas of users, client ids and both, in Kafka's nodes (KIP-546).

An entity that is named several times is answered once, by its last changes, as in 2.7.2.
Errors, by entity: INVALID_REQUEST 42 (no entity, one of another kind than user and client id, an empty name, an unknown
key, a fraction of a byte), REQUEST_TIMED_OUT 7 and others of the store.
"""

import math
from collections.abc import Mapping
from typing import Final

from kafkapy import kafka_texts
from kafkapy.config.keys import java_double
from kafkapy.errors import BrokerError
from kafkapy.metadata.znodes import DEFAULT_ENTITY, ConfigEntity, tree_name
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)
from kafkapy.quotas.limits import WHOLE_NUMBERS, QuotaKind
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.handlers.shared.config_resources import check_size, error_text
from kafkapy.text import shortened
from kafkapy.turns import pause

LONGEST_NAME: Final = 200
"""Characters of a type or key that an error message repeats."""
_KINDS: Final = ("client-id", "user")
"""In the order in which Apache Kafka checks and answers them."""
_KEYS: Final = frozenset(QuotaKind)
_LARGEST: Final = 2.0**63
_ROUNDING: Final = 1e-6

Refusal = tuple[int, str | None]
"""An error code and its text."""


async def handle(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Check and change the quotas of each entity."""
    last: dict[frozenset[tuple[str, str | None]], RequestEntryData] = {}
    for entry in request.entries:
        last[frozenset(_entity(entry).items())] = entry
        await pause()
    response = AlterClientQuotasResponse(entries=[])
    for entry in last.values():
        entity = _entity(entry)
        error_code, text = _refusal(entity, entry.ops)
        if not error_code and not request.validate_only:
            error_code, text = await _alter(context.services, entity, entry.ops)
        names = [EntityData(kind, entity[kind]) for kind in entity]
        response.entries.append(ResponseEntryData(error_code, text, names))
        await pause()
    return response


async def _alter(services: Services, entity: Mapping[str, str | None], changes: list[OpData]) -> Refusal:
    owner = ConfigEntity.client(_name(entity, "user"), _name(entity, "client-id"))
    try:
        before = await services.config_admin.client_overrides(owner)
        after = dict(before)
        for change in changes:
            if change.remove:
                after.pop(change.key, None)
            else:
                after[change.key] = _text(change)
        check_size(before, after)
        await services.config_admin.set_client_overrides(owner, after)
    except BrokerError as error:
        return error.error_code, error_text(error)
    return 0, None


def _name(entity: Mapping[str, str | None], kind: str) -> str | None:
    """The name in the tree, None if the entity has no name of this kind."""
    if kind not in entity:
        return None
    name = entity[kind]
    return DEFAULT_ENTITY if name is None else tree_name(name)


def _text(change: OpData) -> str:
    if change.key not in WHOLE_NUMBERS:
        return java_double(change.value)
    return "0" if math.isnan(change.value) else str(min(math.trunc(change.value + _ROUNDING), 2**63 - 1))


def _entity(entry: RequestEntryData) -> dict[str, str | None]:
    """The name of each kind; the last counts."""
    names = {named.entity_type: named.entity_name for named in entry.entity}
    return {kind: names[kind] for kind in _KINDS} if names.keys() == set(_KINDS) else names


def _refusal(entity: Mapping[str, str | None], changes: list[OpData]) -> Refusal:
    for kind, name in entity.items():
        if kind not in _KINDS:
            return ErrorCode.INVALID_REQUEST, kafka_texts.unknown_quota_entity(shortened(kind, LONGEST_NAME))
        if name is not None and not name:
            return ErrorCode.INVALID_REQUEST, kafka_texts.empty_quota_entity(kind)
    if not entity:
        return ErrorCode.INVALID_REQUEST, kafka_texts.NO_QUOTA_ENTITY
    for change in changes:
        if change.remove:
            continue
        if change.key not in _KEYS:
            return ErrorCode.INVALID_REQUEST, kafka_texts.unknown_quota_key(shortened(change.key, LONGEST_NAME))
        if change.key in WHOLE_NUMBERS and not _is_whole(change.value):
            return ErrorCode.INVALID_REQUEST, kafka_texts.quota_is_no_integer(change.key)
    return 0, None


def _is_whole(value: float) -> bool:
    """Whether 2.7.2 takes the value for an integer of 64 bits: NaN is one, and rounding is allowed."""
    if math.isnan(value):
        return True
    return abs(value) <= _LARGEST and abs(math.trunc(value + _ROUNDING) - value) <= _ROUNDING
