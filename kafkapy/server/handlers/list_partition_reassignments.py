"""ListPartitionReassignments: the partitions whose replicas are being moved (KIP-455).

Version 0; only the controller serves it. Partitions that do not move, or do not exist, are left out of the answer.
Errors: 41 (not the controller).
"""

from typing import TYPE_CHECKING

from kafkapy.controller.active_controller import ActiveController
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.znodes import ReplicaAssignment
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkapy.turns import OneByOne
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


async def handle(
    context: "RequestContext", request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the moves among the requested partitions, or all of them."""
    asked = await _asked(request)

    async def moving(active: ActiveController) -> dict[TopicPartition, ReplicaAssignment]:
        return active.reassignments.moving(asked)

    try:
        found = await context.services.controller.ask("the reassignments", moving)
    except NotControllerError as error:
        return ListPartitionReassignmentsResponse(error_code=error.error_code, error_message=str(error))
    topics: dict[str, OngoingTopicReassignment] = {}
    async for (name, index), assignment in OneByOne(found.items()):
        move = OngoingPartitionReassignment(
            index, list(assignment.replicas), list(assignment.adding), list(assignment.removing)
        )
        topics.setdefault(name, OngoingTopicReassignment(name)).partitions.append(move)
    return ListPartitionReassignmentsResponse(error_message="", topics=list(topics.values()))


async def _asked(request: ListPartitionReassignmentsRequest) -> list[TopicPartition] | None:
    if request.topics is None:
        return None
    asked: dict[TopicPartition, None] = {}
    async for topic in OneByOne(request.topics):
        async for index in OneByOne(topic.partition_indexes):
            asked[TopicPartition(topic.name, index)] = None
    return list(asked)
