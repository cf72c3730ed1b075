"""DeleteAcls v0-3: deletes the access control entries that filters select, and lists them.

An entry that several filters select is in the result of the first of them. What is deleted holds no more on this broker
when the request is answered.
Errors, by filter: CLUSTER_AUTHORIZATION_FAILED 31, SECURITY_DISABLED 54 (there is no authorizer); by entry:
REQUEST_TIMED_OUT 7 and other errors of the metadata store.
"""

from collections.abc import Awaitable

from kafkapy import kafka_texts
from kafkapy.errors import BrokerError
from kafkapy.metadata.acls import AclStore
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkapy.security.acls import AclEntry, AclFilter, ResourcePattern
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import pause, pieces

Numbered = list[tuple[int, AclFilter]]
"""Filters with their places in the request."""


def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    """Delete what each filter selects, or refuse each filter."""
    access = context.services.access
    if access is None:
        refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, kafka_texts.NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    return _delete(context, access.acls, request)


async def _delete(context: RequestContext, acls: AclStore, request: DeleteAclsRequest) -> DeleteAclsResponse:
    results = [DeleteAclsFilterResult(0, None, []) for _ in request.filters]
    for pattern, filters in (await _filters_by_pattern(acls, request)).items():
        error: BrokerError | None = None
        deletion = _Deletion(filters)
        try:
            await acls.change(pattern, deletion.kept)
        except BrokerError as refusal:
            context.log_refusal(f"the deletion of ACLs of {pattern.name!r}", refusal)
            error = refusal
        code, text = (0, None) if error is None else (error.error_code, str(error))
        for entry, place in deletion.deleted.items():
            results[place].matching_acls.append(_row(code, text, pattern, entry))
            await pause()
    return DeleteAclsResponse(filter_results=results)


def _row(code: int, text: str | None, pattern: ResourcePattern, entry: AclEntry) -> DeleteAclsMatchingAcl:
    principal, host, operation, permission_type = entry
    return DeleteAclsMatchingAcl(code, text, *pattern, principal, host, operation, permission_type)


async def _filters_by_pattern(acls: AclStore, request: DeleteAclsRequest) -> dict[ResourcePattern, Numbered]:
    """Return each pattern that filters select, with these. A pattern that one filter names may be new here."""
    found: dict[ResourcePattern, Numbered] = {}
    others: Numbered = []
    for place, each in enumerate(request.filters):
        wanted = AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        if wanted.pattern is None:
            others.append((place, wanted))
        else:
            found.setdefault(wanted.pattern, []).append((place, wanted))
        await pause()
    for pattern in acls.authorizer.patterns() if others else ():
        for numbered in others:
            if numbered[1].selects_pattern(pattern):
                found.setdefault(pattern, []).append(numbered)
            await pause()
    for filters in found.values():
        filters.sort(key=lambda numbered: numbered[0])
    return found


class _Deletion:
    """The deletion of a pattern's entries."""

    def __init__(self, filters: Numbered) -> None:
        self.deleted: dict[AclEntry, int] = {}
        """The deleted entries, and the place of the first filter that selects each."""
        self._filters = filters

    async def kept(self, before: tuple[AclEntry, ...]) -> list[AclEntry]:
        """Return the entries that no filter selects."""
        self.deleted.clear()
        for entry in before:
            place = await self._place_for(entry)
            if place is not None:
                self.deleted[entry] = place
        return [entry for entry in before if entry not in self.deleted]

    async def _place_for(self, entry: AclEntry) -> int | None:
        for some in pieces(self._filters):
            for place, each in some:
                if each.selects_entry(entry):
                    return place
            await pause()
        return None
