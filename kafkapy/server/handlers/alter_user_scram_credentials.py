"""AlterUserScramCredentials v0: no listener offers SASL, and no credentials are stored that nobody could use.

Errors, by user: RESOURCE_NOT_FOUND 91 (only deletions: there is nothing to delete), UNSUPPORTED_SASL_MECHANISM 33 (an
upsertion, which 2.7.2 stores).
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kafkapy.server.context import RequestContext
from kafkapy.turns import Steps

_REASON: Final = "kafkapy offers no SASL, and stores no credentials."


def handle(
    _context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Steps[AlterUserScramCredentialsResponse]:
    """Refuse the changes of each user."""
    refused: dict[str, tuple[int, str]] = {}
    for deletion in request.deletions:
        refused[deletion.name] = ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE
        yield
    for upsertion in request.upsertions:
        refused[upsertion.name] = ErrorCode.UNSUPPORTED_SASL_MECHANISM, _REASON
        yield
    response = AlterUserScramCredentialsResponse(results=[])
    for user, (code, text) in refused.items():
        response.results.append(AlterUserScramCredentialsResult(user, code, text))
        yield
    return response
