"""DeleteAcls v0-2: there is no authorizer that could have access control entries; the answer is that of 2.7.2 then.

Errors, by filter: SECURITY_DISABLED 54.
"""

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kafkapy.server.dispatch.context import RequestContext


def handle(_context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter."""
    refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, kafka_texts.NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
