"""Access control entries: list, add, remove."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kafkapy.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkapy.protocol.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResponse


class Acl(NamedTuple):
    """An entry, and the resources that it is for."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclSelection(NamedTuple):
    """Selects entries: None and ANY select all."""

    resource_type: int = AclResourceType.ANY
    name: str | None = None
    pattern_type: int = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = AclPermissionType.ANY


EVERYTHING: Final = AclSelection()


def list_acls(client: ClusterClient, selection: AclSelection = EVERYTHING) -> list[Acl]:
    """The selected entries, in order; raises RequestFailedError."""
    answer = client.call(DescribeAclsRequest(*selection), DescribeAclsResponse)
    check(answer.error_code, answer.error_message, what="the ACLs")
    return sorted(
        Acl(found.resource_type, found.resource_name, found.pattern_type, *_entry(acl))
        for found in answer.resources
        for acl in found.acls
    )


def add_acls(client: ClusterClient, acls: Iterable[Acl]) -> None:
    """Add entries; raises RequestFailedError for the first that can't be added."""
    answer = client.call(CreateAclsRequest([AclCreation(*acl) for acl in acls]), CreateAclsResponse)
    for result in answer.results:
        check(result.error_code, result.error_message, what="the ACL")


def remove_acls(client: ClusterClient, selections: Iterable[AclSelection]) -> list[Acl]:
    """Remove the selected entries, and return them; raises RequestFailedError."""
    filters = [DeleteAclsFilter(*selection) for selection in selections]
    answer = client.call(DeleteAclsRequest(filters), DeleteAclsResponse)
    removed = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message, what="the ACLs")
        for acl in result.matching_acls:
            check(acl.error_code, acl.error_message, what="the ACL")
            removed.append(Acl(acl.resource_type, acl.resource_name, acl.pattern_type, *_entry(acl)))
    return sorted(removed)


def _entry(acl: AclDescription | DeleteAclsMatchingAcl) -> tuple[str, str, int, int]:
    return acl.principal, acl.host, acl.operation, acl.permission_type
