"""AlterUserScramCredentials v0: stores and deletes SCRAM credentials of users, in Kafka's nodes (KIP-554).

The client derives the salted password; the password itself is never sent. All changes of a user are made together.
Errors, by user: NOT_CONTROLLER 41, UNACCEPTABLE_CREDENTIAL 93 (no name, too few or too many iterations),
UNSUPPORTED_SASL_MECHANISM 33 (an unknown mechanism), DUPLICATE_RESOURCE 92 (a mechanism twice), RESOURCE_NOT_FOUND 91
(nothing to delete), REQUEST_TIMED_OUT 7 and others of the store.
"""

from collections.abc import Mapping

from kafkapy import kafka_texts
from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.security.scram import FEWEST_ITERATIONS, MOST_ITERATIONS, ScramCredential
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.handlers.shared.config_resources import check_size, error_text
from kafkapy.server.handlers.shared.scram_mechanisms import MECHANISMS
from kafkapy.turns import pause

Change = ScramCredentialDeletion | ScramCredentialUpsertion
Refusal = tuple[int, str | None]
"""An error code and its text."""


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user; users with invalid changes are answered first, as 2.7.2 does."""
    services = context.services
    by_user: dict[str, list[Change]] = {}
    refused: dict[str, Refusal] = {}
    repeated: dict[str, Refusal] = {}
    requested: list[Change] = [*request.deletions, *request.upsertions]
    for change in requested:
        changes = by_user.setdefault(change.name, [])
        if (found := _invalid(change)) is not None:
            refused[change.name] = found
        elif any(each.mechanism == change.mechanism for each in changes):
            repeated[change.name] = ErrorCode.DUPLICATE_RESOURCE, kafka_texts.SCRAM_CHANGE_REPEATED
        if len(changes) < len(MECHANISMS):
            changes.append(change)
        await pause()
    refused |= {user: problem for user, problem in repeated.items() if user not in refused}
    results = dict(refused)
    for user, changes in by_user.items():
        if not services.controller.is_active:
            results[user] = ErrorCode.NOT_CONTROLLER, None
        elif user not in results:
            results[user] = await _alter(services, user, changes)
        await pause()
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, *result) for user, result in results.items()]
    )


def _invalid(change: Change) -> Refusal | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.EMPTY_USER_NAME
    if change.mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, kafka_texts.UNKNOWN_SCRAM_MECHANISM
    if isinstance(change, ScramCredentialUpsertion) and change.iterations < FEWEST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.TOO_FEW_ITERATIONS
    if isinstance(change, ScramCredentialUpsertion) and change.iterations > MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.TOO_MANY_ITERATIONS
    return None


async def _alter(services: Services, user: str, changes: list[Change]) -> Refusal:
    try:
        before = await services.config_admin.user_overrides(user)
        after = _changed(before, changes)
        if after is None:
            return ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE
        check_size(before, after)
        await services.config_admin.set_user_overrides(user, after)
    except BrokerError as error:
        return error.error_code, error_text(error)
    return 0, ""


def _changed(before: Mapping[str, str], changes: list[Change]) -> dict[str, str] | None:
    """Return a user's overrides after the changes, None if one of them deletes what is not there."""
    after = dict(before)
    for change in changes:
        mechanism = MECHANISMS[change.mechanism]
        if isinstance(change, ScramCredentialUpsertion):
            salted, salt = bytes(change.salted_password), bytes(change.salt)
            after[mechanism] = str(ScramCredential.of_salted(mechanism, salted, salt, change.iterations))
        elif after.pop(mechanism, None) is None:
            return None
    return after
