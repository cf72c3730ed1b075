"""RenewDelegationToken v0-2: tokens are for authenticated clients; the answer is that of 2.7.2 to any other client.

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64.
"""

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.types import NO_TIMESTAMP


def handle(_context: RequestContext, _request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Refuse the request."""
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
    )
