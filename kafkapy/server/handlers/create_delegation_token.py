"""CreateDelegationToken v0-3: makes a token that stands for the client's principal (KIP-48), or for another one.

Another owner (v3, KIP-373) needs CreateTokens on that user; without an authorizer everybody may do it, as in Kafka.
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64 (the client has not authenticated, or did it by a token),
DELEGATION_TOKEN_AUTHORIZATION_FAILED 65 (it may not create tokens of that owner),
INVALID_PRINCIPAL_TYPE 67 (a renewer that is not of type User), DELEGATION_TOKEN_AUTH_DISABLED 61 (no
``delegation.token.master.key``), INVALID_REQUEST 42 (too many renewers to store), REQUEST_TIMED_OUT 7 and others of the
store.
"""

from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkapy.security.principals import USER
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.delegation_tokens import FIRST_VERSION_OF_REQUESTERS, may_use_tokens
from kafkapy.turns import pause
from kafkapy.types import NO_TIMESTAMP

_CREATE_TOKENS: Final = (AclOperation.CREATE_TOKENS, AclResourceType.USER)


async def handle(context: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Make a token; its renewers are checked before it is known whether there are tokens, as in 2.7.2."""
    requester = context.session.principal
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if not request.owner_principal_name:
        owner = requester
    if not may_use_tokens(context):
        return _response(context, owner, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    rights = context.rights()
    if owner != requester and rights is not None and not rights.may(*_CREATE_TOKENS, owner):
        return _response(context, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = []
    for renewer in request.renewers:
        if renewer.principal_type != USER:
            return _response(context, owner, ErrorCode.INVALID_PRINCIPAL_TYPE)
        renewers.append(f"{renewer.principal_type}:{renewer.principal_name}")
        await pause()
    tokens = context.services.tokens
    if tokens is None:
        return _response(context, owner, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    try:
        token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except BrokerError as error:
        context.log_refusal("a delegation token", error)
        return _response(context, owner, error.error_code)
    response = _response(context, owner, ErrorCode.NONE)
    response.issue_timestamp_ms = token.issue_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.token_id
    response.hmac = tokens.cache.hmac_of(token.token_id)
    return response


def _response(context: RequestContext, owner: str, error_code: int) -> CreateDelegationTokenResponse:
    """A response without a token; it names the owner, and from version 3 on the client's principal."""
    owner_type, _, owner_name = owner.partition(":")
    response = CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    if context.header.api_version >= FIRST_VERSION_OF_REQUESTERS:
        requester_type, _, requester_name = context.session.principal.partition(":")
        response.token_requester_principal_type = requester_type
        response.token_requester_principal_name = requester_name
    return response
