"""AlterUserScramCredentials v0: no listener offers SASL, and no credentials are stored that nobody could use.

Errors, by user: RESOURCE_NOT_FOUND 91 (only deletions: there is nothing to delete), UNSUPPORTED_SASL_MECHANISM 33 (an
upsertion, which 2.7.2 stores, or an unknown mechanism), DUPLICATE_RESOURCE 92 (a user and mechanism twice),
UNACCEPTABLE_CREDENTIAL 93 (an empty name).
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.server.context import RequestContext
from kafkapy.turns import Steps

_MECHANISMS: Final = frozenset({1, 2})
"""SCRAM-SHA-256 and SCRAM-SHA-512."""
_REASON: Final = "kafkapy offers no SASL, and stores no credentials."


def handle(
    _context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Steps[AlterUserScramCredentialsResponse]:
    """Refuse the changes of each user."""
    refused: dict[str, tuple[int, str]] = {}
    named: set[tuple[str, int]] = set()
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for change in changes:
        is_repeated = (change.name, change.mechanism) in named
        if is_repeated or change.name not in refused:
            refused[change.name] = _refusal(change, is_repeated=is_repeated)
        named.add((change.name, change.mechanism))
        yield
    response = AlterUserScramCredentialsResponse(results=[])
    for user, (code, text) in refused.items():
        response.results.append(AlterUserScramCredentialsResult(user, code, text))
        yield
    return response


def _refusal(change: ScramCredentialDeletion | ScramCredentialUpsertion, *, is_repeated: bool) -> tuple[int, str]:
    if is_repeated:
        return ErrorCode.DUPLICATE_RESOURCE, kafka_texts.SCRAM_CHANGE_REPEATED
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.EMPTY_USER_NAME
    if change.mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, kafka_texts.UNKNOWN_SCRAM_MECHANISM
    if isinstance(change, ScramCredentialDeletion):
        return ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE
    return ErrorCode.UNSUPPORTED_SASL_MECHANISM, _REASON
