"""DescribeAcls v0-3: the access control entries that a filter selects, by resource pattern.

Errors: CLUSTER_AUTHORIZATION_FAILED 31, SECURITY_DISABLED 54 (there is no authorizer).
"""

from kafkapy import kafka_texts
from kafkapy.metadata.acls import AclStore
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafkapy.security.acls import AclEntry, AclFilter
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import MaybeSteps, Steps, pieces


def handle(context: RequestContext, request: DescribeAclsRequest) -> MaybeSteps[DescribeAclsResponse]:
    """See the card; a step is a pattern, or some entries."""
    access = context.services.access
    if access is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=kafka_texts.NO_AUTHORIZER_TO_DESCRIBE
        )
    return _describe(access.acls, request)


def _describe(acls: AclStore, request: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    response = DescribeAclsResponse(resources=[])
    for pattern in acls.authorizer.patterns():
        if wanted.selects_pattern(pattern):
            found = yield from _selected(wanted, acls.authorizer.entries(pattern))
            if found:
                response.resources.append(DescribeAclsResource(*pattern, found))
        yield
    return response


def _selected(wanted: AclFilter, entries: tuple[AclEntry, ...]) -> Steps[list[AclDescription]]:
    found: list[AclDescription] = []
    for piece in pieces(entries):
        found += [AclDescription(*entry) for entry in piece if wanted.selects_entry(entry)]
        yield
    return found
