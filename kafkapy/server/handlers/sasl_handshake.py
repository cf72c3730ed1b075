"""SaslHandshake v0-1: the client names its SASL mechanism.

After version 0 the mechanism's tokens follow as frames without a header, after version 1 in SaslAuthenticate. On an
authenticated connection the client begins to authenticate again (KIP-368).
Errors: ILLEGAL_SASL_STATE 34 (the listener has no SASL, or the last authentication is less than a second old),
UNSUPPORTED_SASL_MECHANISM 33 (the connection ends).
"""

import asyncio

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkapy.server.dispatch.context import RequestContext


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin the authentication, or answer which mechanisms there are."""
    authentication = context.session.authentication
    if authentication is None:
        context.log_wanted_sasl()
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if not authentication.may_begin():
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    enabled = list(authentication.settings.mechanisms)
    if authentication.begin(request.mechanism, is_raw=context.header.api_version == 0):
        return SaslHandshakeResponse(ErrorCode.NONE, enabled)
    problem = "the client asked for a SASL mechanism that is not enabled"
    asyncio.get_running_loop().call_soon(authentication.end, problem)
    return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, enabled)
