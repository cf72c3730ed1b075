"""ExpireDelegationToken v0-2: tokens are for authenticated clients; the answer is that of 2.7.2 to any other client.

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64.
"""

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.types import NO_TIMESTAMP


def handle(_context: RequestContext, _request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Refuse the request."""
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
    )
