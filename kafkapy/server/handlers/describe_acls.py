"""DescribeAcls v0-2: there is no authorizer, so there are no access control lists; the answer is that of 2.7.2 then.

Errors: SECURITY_DISABLED 54.
"""

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafkapy.server.dispatch.context import RequestContext


def handle(_context: RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Refuse the request as a whole."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=kafka_texts.NO_AUTHORIZER_TO_DESCRIBE
    )
