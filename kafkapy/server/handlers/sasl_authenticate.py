"""SaslAuthenticate v0-2: a token of the SASL mechanism that SaslHandshake has named.

The answer to a failed authentication waits ``connection.failed.authentication.delay.ms``; then the connection ends.
Version 1 has the time after which the client has to authenticate again (KIP-368).
Errors: ILLEGAL_SASL_STATE 34 (the listener has no SASL, or no mechanism was named), SASL_AUTHENTICATION_FAILED 58.
"""

import asyncio
from typing import TYPE_CHECKING

from kafkapy import kafka_texts
from kafkapy.delayed import Delayed
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkapy.server.dispatch.context import RequestContext

if TYPE_CHECKING:
    from kafkapy.security.authentication import Authentication


def handle(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Delayed[SaslAuthenticateResponse]:
    """Give the token to the mechanism, and return its answer."""
    authentication = context.session.authentication
    if authentication is None or not authentication.is_in_progress:
        if authentication is None:
            context.log_wanted_sasl()
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=kafka_texts.UNEXPECTED_SASL_AUTHENTICATE
        )
    from kafkapy.security.errors import AuthenticationFailedError

    try:
        answer = authentication.step(bytes(request.auth_bytes))
    except AuthenticationFailedError as error:
        return _refuse_later(authentication, str(error))
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=authentication.session_lifetime_ms)


def _refuse_later(authentication: "Authentication", problem: str) -> Delayed[SaslAuthenticateResponse]:
    """Answer after the delay, so that a client with a wrong password does not try it all the time; then close."""
    refused: Delayed[SaslAuthenticateResponse] = Delayed()

    def answer() -> None:
        if not refused.done():
            refused.set_result(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, problem))

    asyncio.get_running_loop().call_soon(authentication.end, problem)  # behind this response
    authentication.after_failure_delay(answer)
    return refused
