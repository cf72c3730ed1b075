"""CreateDelegationToken v0-2: makes a token that stands for the client's principal (KIP-48).

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64 (the client has not authenticated, or did it by a token),
INVALID_PRINCIPAL_TYPE 67 (a renewer that is not of type User), DELEGATION_TOKEN_AUTH_DISABLED 61 (no
``delegation.token.master.key``), INVALID_REQUEST 42 (too many renewers to store), REQUEST_TIMED_OUT 7 and others of the
store.
"""

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkapy.security.principals import USER
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.delegation_tokens import may_use_tokens
from kafkapy.turns import pause
from kafkapy.types import NO_TIMESTAMP


async def handle(context: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Make a token; its renewers are checked before it is known whether there are tokens, as in 2.7.2."""
    if not may_use_tokens(context):
        return _response(context, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    renewers = []
    for renewer in request.renewers:
        if renewer.principal_type != USER:
            return _response(context, ErrorCode.INVALID_PRINCIPAL_TYPE)
        renewers.append(f"{renewer.principal_type}:{renewer.principal_name}")
        await pause()
    tokens = context.services.tokens
    if tokens is None:
        return _response(context, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    try:
        token = await tokens.create(context.session.principal, renewers, request.max_lifetime_ms)
    except BrokerError as error:
        context.log_refusal("a delegation token", error)
        return _response(context, error.error_code)
    response = _response(context, ErrorCode.NONE)
    response.issue_timestamp_ms = token.issue_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.token_id
    response.hmac = tokens.cache.hmac_of(token.token_id)
    return response


def _response(context: RequestContext, error_code: int) -> CreateDelegationTokenResponse:
    """A response without a token; it names the client's principal, as in Apache Kafka."""
    principal_type, _, principal_name = context.session.principal.partition(":")
    return CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=principal_type,
        principal_name=principal_name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
