"""AlterClientQuotas v0: the broker enforces no client quotas, and stores none that would not be enforced.

An entity that is named several times is answered once, by its last changes, as in 2.7.2.
Errors, by entity: UNSUPPORTED_VERSION 35, where 2.7.2 stores the quota; INVALID_REQUEST 42 (no entity, one of another
kind than user and client id, an empty name, an unknown key, a fraction of a byte).
"""

import math
from collections.abc import Mapping
from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.text import shortened
from kafkapy.turns import Steps

LONGEST_NAME: Final = 200
"""Characters of a type or key that an error message repeats."""
_KINDS: Final = ("client-id", "user")
"""In the order in which Apache Kafka checks and answers them."""
_WHOLE_NUMBERS: Final = frozenset({"producer_byte_rate", "consumer_byte_rate"})
_KEYS: Final = _WHOLE_NUMBERS | {"request_percentage", "controller_mutation_rate"}
_LARGEST: Final = 2.0**63
_ROUNDING: Final = 1e-6
_REASON: Final = "kafkapy does not enforce client quotas, and stores none."


def handle(_context: RequestContext, request: AlterClientQuotasRequest) -> Steps[AlterClientQuotasResponse]:
    """Refuse the changes of each entity."""
    last: dict[frozenset[tuple[str, str | None]], RequestEntryData] = {}
    for entry in request.entries:
        last[frozenset(_entity(entry).items())] = entry
        yield
    response = AlterClientQuotasResponse(entries=[])
    for entry in last.values():
        entity = _entity(entry)
        error_code, text = _refusal(entity, entry.ops)
        names = [EntityData(kind, entity[kind]) for kind in entity]
        response.entries.append(ResponseEntryData(error_code, text, names))
        yield
    return response


def _entity(entry: RequestEntryData) -> dict[str, str | None]:
    """The name of each kind; the last counts."""
    names = {named.entity_type: named.entity_name for named in entry.entity}
    return {kind: names[kind] for kind in _KINDS} if names.keys() == set(_KINDS) else names


def _refusal(entity: Mapping[str, str | None], changes: list[OpData]) -> tuple[int, str]:
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
        if change.key in _WHOLE_NUMBERS and not _is_whole(change.value):
            return ErrorCode.INVALID_REQUEST, kafka_texts.quota_is_no_integer(change.key)
    return ErrorCode.UNSUPPORTED_VERSION, _REASON


def _is_whole(value: float) -> bool:
    """Whether 2.7.2 takes the value for an integer of 64 bits: NaN is one, and rounding is allowed."""
    if math.isnan(value):
        return True
    return abs(value) <= _LARGEST and abs(math.trunc(value + _ROUNDING) - value) <= _ROUNDING
