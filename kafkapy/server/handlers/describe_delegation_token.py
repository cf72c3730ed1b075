"""DescribeDelegationToken v0-3: the tokens of some owners, or of all, that the client may see (KIP-48).

Owners, renewers and those who created them see their tokens; others need Describe on the token, or DescribeTokens on
the owner (KIP-373). Without an authorizer all tokens are shown, as
in 2.7.2, with their HMACs. A token that has expired is shown until it is removed.
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED 64, DELEGATION_TOKEN_AUTH_DISABLED 61.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.delegation_tokens import FIRST_VERSION_OF_REQUESTERS, tokens_or_error
from kafkapy.turns import MaybeSteps, Steps, pieces

if TYPE_CHECKING:
    from kafkapy.security.delegation_tokens import DelegationToken, TokenCache


def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> MaybeSteps[DescribeDelegationTokenResponse]:
    """List the tokens that are wanted and that the client may see."""
    tokens = tokens_or_error(context)
    if isinstance(tokens, int):
        return DescribeDelegationTokenResponse(error_code=tokens)
    return _describe(context, tokens.cache, request)


def _describe(
    context: RequestContext, cache: "TokenCache", request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse]:
    wanted = None if request.owners is None else (yield from _principals(request.owners))
    response = DescribeDelegationTokenResponse(tokens=[])
    for token in cache.tokens():
        is_wanted = wanted is None or not wanted.isdisjoint((token.owner, token.requester, *token.renewers))
        if is_wanted and _may_see(context, token):
            described = yield from _described(token, context.header.api_version)
            described.hmac = cache.hmac_of(token.token_id)
            response.tokens.append(described)
        yield
    return response


def _principals(owners: Sequence[DescribeDelegationTokenOwner]) -> Steps[set[str]]:
    principals = set[str]()
    for some in pieces(owners):
        principals.update(f"{owner.principal_type}:{owner.principal_name}" for owner in some)
        yield
    return principals


def _may_see(context: RequestContext, token: "DelegationToken") -> bool:
    if token.belongs_to(context.session.principal):
        return True
    rights = context.rights()
    return (
        rights is None
        or rights.may(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id, logs=False)
        or rights.may(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner, logs=False)
    )


def _described(token: "DelegationToken", version: int) -> Steps[DescribedDelegationToken]:
    renewers: list[DescribedDelegationTokenRenewer] = []
    for some in pieces(token.renewers):
        for renewer in some:
            kind, _, name = renewer.partition(":")
            renewers.append(DescribedDelegationTokenRenewer(kind, name))
        yield
    kind, _, name = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        renewers=renewers,
    )
    if version >= FIRST_VERSION_OF_REQUESTERS:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type, described.token_requester_principal_name = kind, name
    return described
