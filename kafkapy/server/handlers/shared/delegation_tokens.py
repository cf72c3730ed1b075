"""The rule which clients may send requests about delegation tokens."""

from typing import TYPE_CHECKING, Final

from kafkapy.network.session import ANONYMOUS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.server.dispatch.context import RequestContext

if TYPE_CHECKING:
    from kafkapy.metadata.delegation_tokens import TokenStore


FIRST_VERSION_OF_REQUESTERS: Final = 3
"""Of CreateDelegationToken and DescribeDelegationToken: who created a token may be another than its owner (KIP-373)."""


def may_use_tokens(context: RequestContext) -> bool:
    """Whether the client has proved who it is, by other means than a token: else it gets REQUEST_NOT_ALLOWED."""
    session = context.session
    if session.authentication is not None:
        return not session.authentication.is_by_token
    protocol = context.services.config.listener_protocols.get(session.listener, session.listener)
    return protocol == "SSL" and session.principal != ANONYMOUS


def tokens_or_error(context: RequestContext) -> "TokenStore | int":
    """Return the tokens, or the code of the error that the client gets."""
    if not may_use_tokens(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return context.services.tokens or ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
