"""SaslAuthenticate v0-2: a message of a SASL mechanism, which no listener has agreed on.

The answer is that of 2.7.2 on a PLAINTEXT listener.
Errors: ILLEGAL_SASL_STATE 34.
"""

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkapy.server.dispatch.context import RequestContext


def handle(context: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse the message, and log it: the client is configured for another listener."""
    context.log_wanted_sasl()
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=kafka_texts.UNEXPECTED_SASL_AUTHENTICATE
    )
