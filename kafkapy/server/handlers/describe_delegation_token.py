"""DescribeDelegationToken v0-2: tokens are for authenticated clients; the answer is that of 2.7.2 to any other client.

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64.
"""

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkapy.server.dispatch.context import RequestContext


def handle(_context: RequestContext, _request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Refuse the request."""
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
