"""CreateAcls v0-3: adds access control entries; one that exists is no error.

Version 3 knows users as resources, and the operations on their delegation tokens (KIP-373).
The entries of a resource pattern are written together, and hold on this broker when the request is answered.
The connection is closed when an entry has a type or an operation of 0 ("unknown"), as in 2.7.2.
Errors, by entry: REQUEST_TIMED_OUT 7, CLUSTER_AUTHORIZATION_FAILED 31, INVALID_REQUEST 42 (no name, another name of the
cluster, an unknown type or operation), SECURITY_DISABLED 54 (there is no authorizer), UNKNOWN_SERVER_ERROR -1 (a
principal without a type, a name that the metadata store can't have, or, for all entries, a type or an operation that
only filters have).
"""

from collections.abc import Awaitable
from typing import Final

from kafkapy import kafka_texts
from kafkapy.errors import BrokerError
from kafkapy.metadata.acls import AclStore
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkapy.security.acls import (
    CLUSTER_NAME,
    PATTERN_TYPES,
    RESOURCE_TYPES,
    AclEntry,
    ResourcePattern,
    check_principal,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, pause

_UNKNOWN: Final = 0
_PERMISSIONS: Final = (AclPermissionType.DENY, AclPermissionType.ALLOW)
_OPERATIONS: Final = frozenset(AclOperation) - {AclOperation.ANY}
_OF_USERS: Final = frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS})
_FIRST_VERSION_OF_USERS: Final = 3


def handle(
    context: RequestContext, request: CreateAclsRequest
) -> Steps[CreateAclsResponse | Awaitable[CreateAclsResponse]]:
    """Add the entries, or refuse each."""
    is_for_filters = False
    for creation in request.creations:
        if _UNKNOWN in _kinds(creation):
            raise RefusedError("CreateAcls has an entry of an unknown type or operation")
        is_for_filters = is_for_filters or _is_for_filters(creation)
        yield
    access = context.services.access
    if access is None:
        return _all_refused(request, ErrorCode.SECURITY_DISABLED, kafka_texts.NO_AUTHORIZER)
    if is_for_filters:
        return _all_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)
    return _create(context, access.acls, request)


def _kinds(creation: AclCreation) -> tuple[int, ...]:
    return creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type


def _is_for_filters(creation: AclCreation) -> bool:
    return (
        creation.resource_type == AclResourceType.ANY
        or creation.resource_pattern_type in (AclPatternType.ANY, AclPatternType.MATCH)
        or creation.operation == AclOperation.ANY
        or creation.permission_type == AclPermissionType.ANY
    )


def _all_refused(request: CreateAclsRequest, error_code: int, text: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error_code, text)] * len(request.creations))


async def _create(context: RequestContext, acls: AclStore, request: CreateAclsRequest) -> CreateAclsResponse:
    results = [AclCreationResult() for _ in request.creations]
    places: dict[ResourcePattern, list[int]] = {}
    for place, creation in enumerate(request.creations):
        text = _problem(creation, context.header.api_version)
        if text is None:
            pattern = ResourcePattern(creation.resource_type, creation.resource_name, creation.resource_pattern_type)
            places.setdefault(pattern, []).append(place)
        else:
            results[place] = AclCreationResult(ErrorCode.INVALID_REQUEST, text)
        await pause()
    for pattern, named in places.items():
        try:
            await _add(acls, pattern, [request.creations[place] for place in named])
        except BrokerError as error:
            context.log_refusal(f"ACLs of {pattern.name!r}", error)
            for place in named:
                results[place] = AclCreationResult(error.error_code, str(error))
        await pause()
    return CreateAclsResponse(results=results)


def _problem(creation: AclCreation, version: int) -> str | None:
    if creation.resource_type == AclResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return kafka_texts.only_cluster_name(CLUSTER_NAME)
    if not creation.resource_name:
        return kafka_texts.EMPTY_RESOURCE_NAME
    is_known = (
        creation.resource_type in RESOURCE_TYPES
        and creation.resource_pattern_type in PATTERN_TYPES
        and creation.operation in _OPERATIONS
        and creation.permission_type in _PERMISSIONS
    )
    is_of_users = creation.resource_type == AclResourceType.USER or creation.operation in _OF_USERS
    is_later = is_of_users and version < _FIRST_VERSION_OF_USERS
    return None if is_known and not is_later else kafka_texts.ACL_NOT_CREATED


async def _add(acls: AclStore, pattern: ResourcePattern, creations: list[AclCreation]) -> None:
    added = []
    for creation in creations:
        check_principal(creation.principal)
        added.append(AclEntry(creation.principal, creation.host, creation.operation, creation.permission_type))
        await pause()

    async def together(before: tuple[AclEntry, ...]) -> tuple[AclEntry, ...]:
        return (*before, *added)

    await acls.change(pattern, together)
