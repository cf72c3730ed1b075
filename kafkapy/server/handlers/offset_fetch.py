"""OffsetFetch: how far a group has read.

Versions 1-7 (version 0 kept offsets in ZooKeeper: not built); from version 2 a null list of topics means all of the
group's offsets, from version 7 ``require_stable`` refuses (88) what an open transaction commits.
Errors: 14, 15, 16; of a partition: 88. An offset that was never committed is -1 without an error.
"""

from typing import TYPE_CHECKING

from kafkapy.coordinator.group.offsets import FetchedOffset
from kafkapy.coordinator.group.results import by_topic
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

REQUEST_ERROR_FROM = 2


def handle(context: "RequestContext", request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Look the offsets up; an error that concerns the whole request goes to every partition in version 1."""
    wanted = (
        None
        if request.topics is None
        else [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    )
    error_code, offsets = context.services.group_coordinator.fetch_offsets(
        request.group_id, wanted, require_stable=request.require_stable
    )
    if error_code and context.header.api_version < REQUEST_ERROR_FROM:
        return _build({partition: FetchedOffset(error_code=error_code) for partition in wanted or ()}, 0)
    return _build(offsets, error_code)


def _build(offsets: dict[TopicPartition, FetchedOffset], error_code: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(index, *each) for index, each in partitions])
            for name, partitions in by_topic(offsets).items()
        ],
        error_code=error_code,
    )
