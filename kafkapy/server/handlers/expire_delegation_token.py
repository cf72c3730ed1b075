"""ExpireDelegationToken v0-2: lets a token expire earlier, or removes it (KIP-48).

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64, DELEGATION_TOKEN_AUTH_DISABLED 61, DELEGATION_TOKEN_NOT_FOUND 62,
DELEGATION_TOKEN_OWNER_MISMATCH 63 (neither the owner nor a renewer), DELEGATION_TOKEN_EXPIRED 66, REQUEST_TIMED_OUT 7
and others of the store.
"""

from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.delegation_tokens import tokens_or_error
from kafkapy.types import NO_TIMESTAMP


async def handle(context: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Set when the token with the HMAC expires; a negative period removes it."""
    tokens = tokens_or_error(context)
    if isinstance(tokens, int):
        return ExpireDelegationTokenResponse(tokens, NO_TIMESTAMP)
    try:
        expiry_ms = await tokens.expire(context.session.principal, bytes(request.hmac), request.expiry_time_period_ms)
    except BrokerError as error:
        context.log_refusal("the end of a delegation token", error)
        return ExpireDelegationTokenResponse(error.error_code, NO_TIMESTAMP)
    return ExpireDelegationTokenResponse(0, expiry_ms)
