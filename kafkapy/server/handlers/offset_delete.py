"""OffsetDelete: deletes offsets of topics that a group does not read any more (KIP-496).

Version 0.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, INVALID_GROUP_ID 24,
NON_EMPTY_GROUP 68 (members whose subscriptions are not known), GROUP_ID_NOT_FOUND 69; of a partition:
UNKNOWN_TOPIC_OR_PARTITION 3, GROUP_SUBSCRIBED_TO_TOPIC 86 (a member reads it).
"""

from typing import TYPE_CHECKING

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkapy.server.handlers.shared.partition_rows import rows_by_topic
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


def handle(context: "RequestContext", request: OffsetDeleteRequest) -> Steps[OffsetDeleteResponse]:
    """Delete the offsets of partitions that exist."""
    errors: dict[TopicPartition, int] = {}
    known: dict[TopicPartition, None] = {}
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            for each in piece:
                partition = TopicPartition(topic.name, each.partition_index)
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if context.services.metadata.image.partition(*partition) is not None:
                    known[partition] = None
            yield
        yield  # a request may name very many topics without partitions
    coordinator = context.services.group_coordinator
    error_code, deleted = yield from coordinator.delete_offsets(request.group_id, list(known))
    if error_code:
        return OffsetDeleteResponse(error_code=error_code)
    errors.update(deleted)
    topics = yield from rows_by_topic(
        errors,
        lambda name: OffsetDeleteResponseTopic(name, []),
        lambda topic, *answer: topic.partitions.append(OffsetDeleteResponsePartition(*answer)),
    )
    return OffsetDeleteResponse(topics=topics)
