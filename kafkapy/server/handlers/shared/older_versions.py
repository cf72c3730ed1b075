"""Adaptations to older requests and older brokers: the metadata tree's offsets, error codes, static members."""

from typing import TYPE_CHECKING, Final

from kafkapy.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

TREE_VERSION: Final = 0
"""The version of OffsetCommit and OffsetFetch whose offsets are kept in the metadata tree."""


def fencing_code(error_code: int, version: int, first_version: int) -> int:
    """The error code of a fenced producer as the request's version knows it (KIP-360).

    PRODUCER_FENCED exists since ``first_version``; INVALID_PRODUCER_EPOCH replaces it in older ones.
    """
    if error_code == ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_code


def refuses_static_member(context: "RequestContext", instance_id: str | None) -> bool:
    """Whether the member names a group instance that this broker's ``inter.broker.protocol.version`` does not allow.

    Below 2.3 a group may move to a broker that does not support static members (KIP-345) and would drop the instance;
    Kafka answers UNSUPPORTED_VERSION.
    """
    return instance_id is not None and not context.services.group_coordinator.settings.allows_static_members
