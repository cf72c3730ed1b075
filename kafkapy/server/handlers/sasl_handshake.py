"""SaslHandshake v0-1: a client wants to authenticate with SASL, which no listener offers.

Every listener is PLAINTEXT: the answer is that of 2.7.2 on such a listener.
Errors: ILLEGAL_SASL_STATE 34.
"""

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkapy.server.dispatch.context import RequestContext


def handle(context: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse the handshake, and log it: the client is configured for another listener."""
    context.log_wanted_sasl()
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
