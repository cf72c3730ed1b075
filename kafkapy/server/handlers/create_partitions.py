"""CreatePartitions: increases the number of a topic's partitions; it can't be decreased.

Versions 0-3. Only the controller serves it.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, REQUEST_TIMED_OUT 7, INVALID_TOPIC_EXCEPTION 17 (the topic is being deleted),
INVALID_PARTITIONS 37, INVALID_REPLICA_ASSIGNMENT 39, NOT_CONTROLLER 41, INVALID_REQUEST 42 (a topic twice),
POLICY_VIOLATION 44 (more replicas than ``kafkapy.max.replicas``), KAFKA_STORAGE_ERROR 56 (the disk of the metadata is
full), REASSIGNMENT_IN_PROGRESS 60 (its replicas are being moved), THROTTLING_QUOTA_EXCEEDED 89 (from version 3 on).
"""

from typing import TYPE_CHECKING, Final

from kafkapy.controller.topics import MorePartitions
from kafkapy.metadata.errors import PolicyViolationError
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafkapy.turns import OneByOne

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


FIRST_STRICT_VERSION: Final = 3
"""From this version on clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle(context: "RequestContext", request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Pass the topics to ``TopicAdmin`` and translate its results."""
    services = context.services
    topics = []
    async for topic in OneByOne(request.topics):
        assigned = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
        topics.append(MorePartitions(topic.name, topic.count, assigned))
    budget = context.budget(FIRST_STRICT_VERSION)
    results = await services.topic_admin.create_partitions(
        topics, request.timeout_ms, validate_only=request.validate_only, budget=budget
    )
    response = CreatePartitionsResponse(budget.throttle_ms, results=[])
    async for result in OneByOne(results):
        code = 0 if result.error is None else result.error.error_code
        text = str(result.error or "") or None
        response.results.append(CreatePartitionsTopicResult(name=result.name, error_code=code, error_message=text))
        if isinstance(result.error, PolicyViolationError):
            services.metrics.topics_refused_by_replica_limit += 1
    return response
