"""AlterClientQuotas v0: the broker enforces no client quotas, and stores none that would not be enforced.

Errors, by entity: UNSUPPORTED_VERSION 35, where 2.7.2 stores the quota; INVALID_REQUEST 42 (no entity, one of another
kind than user and client id, an empty name, an unknown key).
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntryData,
)
from kafkapy.server.context import RequestContext
from kafkapy.text import shortened
from kafkapy.turns import Steps

LONGEST_NAME: Final = 200
"""Characters of a type or key that an error message repeats."""
_KINDS: Final = frozenset({"user", "client-id"})
_KEYS: Final = frozenset({"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"})
_REASON: Final = "kafkapy does not enforce client quotas, and stores none."


def handle(_context: RequestContext, request: AlterClientQuotasRequest) -> Steps[AlterClientQuotasResponse]:
    """Refuse the changes of each entity."""
    response = AlterClientQuotasResponse(entries=[])
    for entry in request.entries:
        response.entries.append(ResponseEntryData(*_refusal(entry), entry.entity))
        yield
    return response


def _refusal(entry: RequestEntryData) -> tuple[int, str]:
    for named in entry.entity:
        if named.entity_type not in _KINDS:
            text = kafka_texts.unknown_quota_entity(shortened(named.entity_type, LONGEST_NAME))
            return ErrorCode.INVALID_REQUEST, text
        if named.entity_name is not None and not named.entity_name:
            return ErrorCode.INVALID_REQUEST, kafka_texts.empty_quota_entity(named.entity_type)
    if not entry.entity:
        return ErrorCode.INVALID_REQUEST, kafka_texts.NO_QUOTA_ENTITY
    for change in entry.ops:
        if change.key not in _KEYS:
            return ErrorCode.INVALID_REQUEST, kafka_texts.unknown_quota_key(shortened(change.key, LONGEST_NAME))
    return ErrorCode.UNSUPPORTED_VERSION, _REASON
