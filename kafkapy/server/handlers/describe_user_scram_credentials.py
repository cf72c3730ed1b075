"""DescribeUserScramCredentials v0: the mechanisms and iterations of users' SCRAM credentials (KIP-554).

Errors, by user: RESOURCE_NOT_FOUND 91 (no credentials, or an empty name), DUPLICATE_RESOURCE 92 (named twice).
"""

from collections import Counter

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.scram_mechanisms import MECHANISMS, credential_of
from kafkapy.turns import pause


async def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer each named user once; without names all users with credentials."""
    admin = context.services.config_admin
    response = DescribeUserScramCredentialsResponse(error_message="", results=[])
    if not request.users:
        for name in await admin.users():
            if credentials := _credentials(context, name):
                response.results.append(DescribeUserScramCredentialsResult(name, 0, "", credentials))
            await pause()
        return response
    counts: Counter[str] = Counter()
    for user in request.users:
        counts[user.name] += 1
        await pause()
    for name, count in counts.items():
        response.results.append(_result(context, name, is_repeated=count > 1))
        await pause()
    return response


def _result(context: RequestContext, name: str, *, is_repeated: bool) -> DescribeUserScramCredentialsResult:
    if not name:
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.EMPTY_USER_NAME)
    if is_repeated:
        text = kafka_texts.scram_user_repeated(name)
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, text)
    if credentials := _credentials(context, name):
        return DescribeUserScramCredentialsResult(name, 0, "", credentials)
    text = kafka_texts.no_scram_credential(name)
    return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, text)


def _credentials(context: RequestContext, name: str) -> list[CredentialInfo]:
    overrides = context.services.config_admin.cached_user_overrides(name)
    found = ((number, credential_of(overrides, mechanism)) for number, mechanism in MECHANISMS.items())
    return [CredentialInfo(number, credential.iterations) for number, credential in found if credential is not None]
