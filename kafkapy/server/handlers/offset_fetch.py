"""OffsetFetch: returns a group's committed offsets.

Versions 0-10; from version 8 on of several groups, each with its own error code (KIP-709), from version 10 on of topics
by id (KIP-516). Version 0 reads the metadata tree (``metadata/exchange/consumer_offsets.py``), the others the
coordinator; from version 2 a null list of topics means all offsets of the group, from version 7 ``require_stable``
refuses (88) partitions for which an open transaction has written an offset.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16; of a partition:
UNSTABLE_OFFSET_COMMIT 88. An offset that was never committed is -1 without an error; in version 0 it is -1 with
UNKNOWN_TOPIC_OR_PARTITION 3, as for a partition that does not exist, and other errors are KAFKA_STORAGE_ERROR 56 and
UNKNOWN_SERVER_ERROR -1. From version 9 on, of a member of a consumer group (KIP-848): UNKNOWN_MEMBER_ID 25,
STALE_MEMBER_EPOCH 113; from version 10 on, of a partition, UNKNOWN_TOPIC_ID 100. With an authorizer
GROUP_AUTHORIZATION_FAILED 30 of a group, TOPIC_AUTHORIZATION_FAILED 29 of a partition. From version 8 on a request that
names groups again and again is refused with the end of its connection if the response would have more than
``MOST_OFFSETS``.
"""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.group.offsets import FetchedOffset
from kafkapy.metadata.exchange import consumer_offsets
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkapy.server.handlers.shared.older_versions import TREE_VERSION
from kafkapy.server.handlers.shared.partition_rows import few_partitions, few_rows, named_partitions, rows_by_topic
from kafkapy.turns import Steps, in_turns, pause
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.security.authorizer import Rights
    from kafkapy.server.dispatch.context import RequestContext

REQUEST_ERROR_FROM = 2


SEVERAL_FROM: Final = 8
MOST_OFFSETS: Final = 1_000_000
"""Offsets in one response about several groups; each has up to some kB of metadata, usually none."""

Answer = OffsetFetchResponse | Awaitable[OffsetFetchResponse]


def handle(context: "RequestContext", request: OffsetFetchRequest) -> Answer | Steps[OffsetFetchResponse]:
    """Look the offsets up: few at once, many in steps."""
    if context.header.api_version == TREE_VERSION:
        return _fetch_from_tree(context, request)
    if context.header.api_version >= SEVERAL_FROM:
        return _fetch_several(context, request)
    wanted = None if request.topics is None else few_partitions(request.topics)
    if wanted is None:
        return _fetch_many(context, request)
    error_code, offsets = context.services.group_coordinator.fetch_few_offsets(
        request.group_id, wanted, require_stable=request.require_stable
    )
    if error_code:
        offsets, error_code = _failed(context, wanted, error_code)
    return OffsetFetchResponse(topics=list(few_rows(offsets.items(), _topic, _add).values()), error_code=error_code)


def _fetch_many(context: "RequestContext", request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    """Do what ``handle`` does, with places to pause."""
    wanted = None if request.topics is None else (yield from named_partitions(request.topics))
    error_code, offsets = yield from context.services.group_coordinator.fetch_offsets(
        request.group_id, wanted, require_stable=request.require_stable
    )
    if error_code:
        offsets, error_code = _failed(context, wanted or (), error_code)
    return OffsetFetchResponse(topics=(yield from rows_by_topic(offsets, _topic, _add)), error_code=error_code)


def _fetch_several(context: "RequestContext", request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    response = OffsetFetchResponse(groups=[])
    count = 0
    for group in request.groups:
        row = yield from _fetch_group(context, group, require_stable=request.require_stable)
        response.groups.append(row)
        count += sum(len(topic.partitions) for topic in row.topics)
        if count > MOST_OFFSETS:
            raise RefusedError(f"the response of OffsetFetch has more than {MOST_OFFSETS} offsets")
        yield
    return response


def _fetch_group(
    context: "RequestContext", group: OffsetFetchRequestGroup, *, require_stable: bool
) -> Steps[OffsetFetchResponseGroup]:
    """Return the offsets of one group; topics that the client may not describe are refused, or left out of all."""
    rights = context.rights()
    if rights is not None and not rights.may(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
    coordinator = context.services.group_coordinator
    if error_code := coordinator.consumer.fetch_error(group.group_id, group.member_id, group.member_epoch):
        return OffsetFetchResponseGroup(group.group_id, [], error_code)
    wanted = None if group.topics is None else (yield from named_partitions(group.topics))
    error_code, offsets = yield from coordinator.fetch_offsets(group.group_id, wanted, require_stable=require_stable)
    topics = yield from rows_by_topic({} if error_code else offsets, _topic_of_group, _add_of_group)
    if rights is not None:
        topics = yield from _visible(rights, topics, names_all=group.topics is None)
    return OffsetFetchResponseGroup(group.group_id, topics, error_code)


def _visible(
    rights: "Rights", topics: list[OffsetFetchResponseTopics], *, names_all: bool
) -> Steps[list[OffsetFetchResponseTopics]]:
    visible = []
    for topic in topics:
        if rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name, logs=not names_all):
            visible.append(topic)
        elif not names_all:
            denied = [OffsetFetchResponsePartitions(each.partition_index, *_DENIED) for each in topic.partitions]
            visible.append(OffsetFetchResponseTopics(topic.name, partitions=denied))
        yield
    return visible


def _failed(
    context: "RequestContext", wanted: Iterable[TopicPartition], error_code: int
) -> tuple[dict[TopicPartition, FetchedOffset], int]:
    """Return the offsets and the error code of a response with an error; in version 1 each partition has the code."""
    if context.header.api_version < REQUEST_ERROR_FROM:
        return dict.fromkeys(wanted, FetchedOffset(error_code=error_code)), 0
    return {}, error_code


async def _fetch_from_tree(context: "RequestContext", request: OffsetFetchRequest) -> OffsetFetchResponse:
    services = context.services
    wanted = await in_turns(named_partitions(request.topics or ()))
    offsets = dict.fromkeys(wanted, FetchedOffset(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    known = []
    for partition in offsets:
        if services.metadata.image.partition(*partition) is not None:
            known.append(partition)
        await pause()
    for partition, found in (await consumer_offsets.fetch(services.store, request.group_id, known)).items():
        offsets[partition] = FetchedOffset(found.offset, error_code=found.error_code)
    return OffsetFetchResponse(topics=await in_turns(rows_by_topic(offsets, _topic, _add)))


def _topic(name: str) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(name, [])


def _add(topic: OffsetFetchResponseTopic, index: int, found: FetchedOffset) -> None:
    topic.partitions.append(OffsetFetchResponsePartition(index, *found))


def _topic_of_group(name: str) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(name, partitions=[])


def _add_of_group(topic: OffsetFetchResponseTopics, index: int, found: FetchedOffset) -> None:
    topic.partitions.append(OffsetFetchResponsePartitions(index, *found))


_DENIED: Final = FetchedOffset(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
