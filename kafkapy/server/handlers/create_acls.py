"""CreateAcls v0-2: there is no authorizer that could use access control entries; the answer is that of 2.7.2 then.

The connection is closed when an entry has a type or an operation of 0 ("unknown"), as in 2.7.2.
Errors, by entry: SECURITY_DISABLED 54.
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps

_UNKNOWN: Final = 0


def handle(_context: RequestContext, request: CreateAclsRequest) -> Steps[CreateAclsResponse]:
    """Refuse each entry."""
    for creation in request.creations:
        if _UNKNOWN in _kinds(creation):
            raise RefusedError("CreateAcls has an entry of an unknown type or operation")
        yield
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, kafka_texts.NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))


def _kinds(creation: AclCreation) -> tuple[int, ...]:
    return creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type
