"""CreateAcls v0-2: there is no authorizer that could use access control entries; the answer is that of 2.7.2 then.

Errors, by entry: SECURITY_DISABLED 54.
"""

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkapy.server.context import RequestContext


def handle(_context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each entry."""
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, kafka_texts.NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))
