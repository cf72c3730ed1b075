"""OffsetDelete: forget offsets of topics that a group does not read any more (KIP-496).

Version 0.
Errors: 14, 15, 16, 24, 68 (members whose subscriptions are not known), 69; of a partition: 3, 86 (a member reads it).
"""

from typing import TYPE_CHECKING

from kafkapy.coordinator.group.results import by_topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete what belongs to partitions that exist."""
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    errors: dict[TopicPartition, int] = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    known = [partition for partition in errors if context.services.metadata.image.partition(*partition) is not None]
    error_code, deleted = context.services.group_coordinator.delete_offsets(request.group_id, known)
    if error_code:
        return OffsetDeleteResponse(error_code=error_code)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(name, [OffsetDeleteResponsePartition(*each) for each in partitions])
            for name, partitions in by_topic({**errors, **deleted}).items()
        ]
    )
