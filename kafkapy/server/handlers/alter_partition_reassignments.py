"""AlterPartitionReassignments: move the replicas of partitions to other brokers, or cancel that (KIP-455).

Versions 0-1; only the controller serves it. Answered when the move has begun; ListPartitionReassignments shows whether
it is complete. A target for a partition that is moving takes the place of the earlier one; null cancels. A partition
that is named several times gets the last of its targets. A request of version 1 can forbid targets that have another
number of replicas than the partition (KIP-860).
Errors, by partition: 3 (there is none, or its topic is being deleted), 38 (another number of replicas, where that is
forbidden), 39 (no replicas, one twice or below zero; a new one that is not alive; or, other than in 2.7.2, one whose
removal would lose records), 85 (there is nothing to cancel).
For the whole request: 7 (the metadata store does not answer in time), 41 (not the controller).
"""

from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import NotControllerError, RequestTimedOutError
from kafkapy.metadata.store import in_time
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkapy.turns import OneByOne
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


async def handle(
    context: "RequestContext", request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Let the controller begin the moves, and list what became of each partition."""
    services, may_change_count = context.services, request.allow_replication_factor_change
    targets: dict[TopicPartition, list[int] | None] = {}
    async for topic in OneByOne(request.topics):
        async for listed in OneByOne(topic.partitions):
            targets[TopicPartition(topic.name, listed.partition_index)] = listed.replicas
    try:
        move = services.controller.ask(
            "a reassignment", lambda active: active.reassignments.alter(targets, keeps_count=not may_change_count)
        )
        answers = await in_time(services.store, services.clock, request.timeout_ms, move)
    except (NotControllerError, RequestTimedOutError) as error:
        response = AlterPartitionReassignmentsResponse(error_code=error.error_code, error_message=str(error))
    else:
        response = await _response(answers)
    response.allow_replication_factor_change = may_change_count
    return response


async def _response(answers: dict[TopicPartition, BrokerError | None]) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, ReassignableTopicResponse] = {}
    async for (name, index), error in OneByOne(answers.items()):
        result = ReassignablePartitionResponse(index, 0, None)
        if error is not None:
            result = ReassignablePartitionResponse(index, error.error_code, str(error) or None)
        topics.setdefault(name, ReassignableTopicResponse(name)).partitions.append(result)
    return AlterPartitionReassignmentsResponse(error_message="", responses=list(topics.values()))
