"""AlterUserScramCredentials v0: no listener offers SASL, and the broker stores no credentials.

Errors, by user: UNACCEPTABLE_CREDENTIAL 93 (no name, too few or too many iterations), UNSUPPORTED_SASL_MECHANISM 33 (an
unknown mechanism, or an upsertion, which 2.7.2 stores), DUPLICATE_RESOURCE 92 (a mechanism twice), RESOURCE_NOT_FOUND
91 (a deletion: there is nothing to delete).
"""

from itertools import chain
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
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps

_MECHANISMS: Final = (1, 2)
"""SCRAM-SHA-256 and SCRAM-SHA-512."""
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4096, 16384
_NOT_STORED: Final = "kafkapy offers no SASL, and stores no credentials."
Change = ScramCredentialDeletion | ScramCredentialUpsertion
Refusal = tuple[int, str]
"""An error code and its text."""


def handle(
    _context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Steps[AlterUserScramCredentialsResponse]:
    """Refuse the changes of each user, invalid ones first, as 2.7.2 does."""
    changes: tuple[Change, ...] = (*request.deletions, *request.upsertions)
    invalid: dict[str, Refusal] = {}
    for change in changes:
        if (found := _invalid(change)) is not None:
            invalid[change.name] = found
        yield
    pairs: set[tuple[str, int]] = set()
    repeated: dict[str, Refusal] = {}
    others: dict[str, Refusal] = {}
    for change in changes:
        yield
        name, pair = change.name, (change.name, change.mechanism)
        if name in invalid:
            continue
        if pair in pairs:
            repeated[name] = ErrorCode.DUPLICATE_RESOURCE, kafka_texts.SCRAM_CHANGE_REPEATED
        elif isinstance(change, ScramCredentialDeletion):
            others[name] = ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE
        else:
            others.setdefault(name, (ErrorCode.UNSUPPORTED_SASL_MECHANISM, _NOT_STORED))
        pairs.add(pair)
    response = AlterUserScramCredentialsResponse(results=[])
    for user, refusal in chain(invalid.items(), repeated.items(), others.items()):
        yield
        if refusal[0] == ErrorCode.DUPLICATE_RESOURCE or user not in repeated:
            response.results.append(AlterUserScramCredentialsResult(user, *refusal))
    return response


def _invalid(change: Change) -> Refusal | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.EMPTY_USER_NAME
    if change.mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, kafka_texts.UNKNOWN_SCRAM_MECHANISM
    if isinstance(change, ScramCredentialUpsertion) and change.iterations < _FEWEST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.TOO_FEW_ITERATIONS
    if isinstance(change, ScramCredentialUpsertion) and change.iterations > _MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.TOO_MANY_ITERATIONS
    return None
