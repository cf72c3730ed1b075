"""DescribeUserScramCredentials v0: no listener offers SASL and no credentials are stored, so no user has any.

Errors, by user: RESOURCE_NOT_FOUND 91 (no credentials, or an empty name), DUPLICATE_RESOURCE 92 (named twice).
"""

from collections import Counter

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps


def handle(
    _context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Answer each named user once; without names the list is empty."""
    response = DescribeUserScramCredentialsResponse(error_message="", results=[])
    counts: Counter[str] = Counter()
    for user in request.users or ():
        counts[user.name] += 1
        yield
    for name, count in counts.items():
        response.results.append(_refused(name, is_repeated=count > 1))
        yield
    return response


def _refused(name: str, *, is_repeated: bool) -> DescribeUserScramCredentialsResult:
    code, text = ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.no_scram_credential(name)
    if not name:
        text = kafka_texts.EMPTY_USER_NAME
    elif is_repeated:
        code, text = ErrorCode.DUPLICATE_RESOURCE, kafka_texts.scram_user_repeated(name)
    return DescribeUserScramCredentialsResult(name, code, text)
