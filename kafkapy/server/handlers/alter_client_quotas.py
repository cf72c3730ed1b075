"""AlterClientQuotas v0: the broker enforces no client quotas, and stores none that would not be enforced.

Errors, by entity: UNSUPPORTED_VERSION 35, where 2.7.2 stores the quota.
"""

from typing import Final

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from kafkapy.server.context import RequestContext
from kafkapy.turns import Steps

_REASON: Final = "kafkapy does not enforce client quotas, and stores none."


def handle(_context: RequestContext, request: AlterClientQuotasRequest) -> Steps[AlterClientQuotasResponse]:
    """Refuse the changes of each entity."""
    response = AlterClientQuotasResponse(entries=[])
    for entry in request.entries:
        response.entries.append(ResponseEntryData(ErrorCode.UNSUPPORTED_VERSION, _REASON, entry.entity))
        yield
    return response
