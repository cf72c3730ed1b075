"""OffsetFetch: how far a group has read.

Versions 0-7. Version 0 reads the metadata tree (``cluster/consumer_offsets.py``), the others what the coordinator has;
from version 2 a null list of topics means all of the group's offsets, from version 7 ``require_stable`` refuses (88)
what an open transaction commits.
Errors: 14, 15, 16; of a partition: 88. An offset that was never committed is -1 without an error; in version 0 it is
-1 with 3, as for a partition that does not exist, and other errors are 56 and -1.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkapy.cluster import consumer_offsets
from kafkapy.coordinator.group.offsets import FetchedOffset
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafkapy.server.partition_rows import named_partitions, rows_by_topic
from kafkapy.turns import Steps, in_turns, pause
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

TREE_VERSION = 0
REQUEST_ERROR_FROM = 2


def handle(
    context: "RequestContext", request: OffsetFetchRequest
) -> Steps[OffsetFetchResponse | Awaitable[OffsetFetchResponse]]:
    """Look the offsets up; an error that concerns the whole request goes to every partition in version 1."""
    wanted = None if request.topics is None else (yield from named_partitions(request.topics))
    if context.header.api_version == TREE_VERSION:
        return _fetch_from_tree(context, request.group_id, wanted or [])
    error_code, offsets = yield from context.services.group_coordinator.fetch_offsets(
        request.group_id, wanted, require_stable=request.require_stable
    )
    if error_code and context.header.api_version < REQUEST_ERROR_FROM:
        offsets, error_code = dict.fromkeys(wanted or (), FetchedOffset(error_code=error_code)), 0
    return OffsetFetchResponse(topics=(yield from _topics(offsets)), error_code=error_code)


async def _fetch_from_tree(
    context: "RequestContext", group_id: str, wanted: Sequence[TopicPartition]
) -> OffsetFetchResponse:
    services = context.services
    offsets = dict.fromkeys(wanted, FetchedOffset(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    known = []
    for partition in offsets:
        if services.metadata.image.partition(*partition) is not None:
            known.append(partition)
        await pause()
    for partition, found in (await consumer_offsets.fetch(services.store, group_id, known)).items():
        offsets[partition] = FetchedOffset(found.offset, error_code=found.error_code)
    return OffsetFetchResponse(topics=await in_turns(_topics(offsets)))


def _topics(offsets: Mapping[TopicPartition, FetchedOffset]) -> Steps[list[OffsetFetchResponseTopic]]:
    return rows_by_topic(
        offsets,
        lambda name: OffsetFetchResponseTopic(name, []),
        lambda topic, index, found: topic.partitions.append(OffsetFetchResponsePartition(index, *found)),
    )
