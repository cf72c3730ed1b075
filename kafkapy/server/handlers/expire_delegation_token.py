"""ExpireDelegationToken v0-2: tokens are for authenticated clients; the answer is that of 2.7.2 to any other client.

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64.
"""

from typing import Final

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkapy.server.context import RequestContext

_NO_TIME_MS: Final = -1


def handle(_context: RequestContext, _request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Refuse the request."""
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIME_MS
    )
