"""CreateDelegationToken v0-2: tokens are for authenticated clients; the answer is that of 2.7.2 to any other client.

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64.
"""

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.types import NO_TIMESTAMP


def handle(context: RequestContext, _request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Refuse the request; the answer names the client's principal, as in Apache Kafka."""
    principal_type, _, principal_name = context.session.principal.partition(":")
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=principal_type,
        principal_name=principal_name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
