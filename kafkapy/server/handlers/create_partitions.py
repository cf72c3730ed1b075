"""CreatePartitions: a topic gets more partitions; fewer it can't get.

Versions 0-3. Only the controller serves it.
Errors: 3 (unknown topic), 7 (still going on), 17 (the topic is being deleted), 37 (number), 39 (assignment),
41 (not the controller), 42 (a topic twice), 60 (its replicas are being moved).
"""

from typing import TYPE_CHECKING

from kafkapy.cluster.topics import MorePartitions
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


async def handle(context: "RequestContext", request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Hand the topics to the administration and translate what became of them."""
    topics = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [assigned.broker_ids for assigned in topic.assignments],
        )
        for topic in request.topics
    ]
    results = await context.services.topic_admin.create_partitions(
        topics, request.timeout_ms, validate_only=request.validate_only
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.name,
                error_code=0 if result.error is None else result.error.error_code,
                error_message=str(result.error or "") or None,
            )
            for result in results
        ]
    )
