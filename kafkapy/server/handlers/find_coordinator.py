"""FindCoordinator: which broker coordinates a group.

Versions 0-3. Creates ``__consumer_offsets`` when it does not exist yet, and answers with its leader as soon as that is
known. Coordinators of transactions: not built, 15.
Errors: 15 COORDINATOR_NOT_AVAILABLE (topic or leader not there yet), -1 UNKNOWN_SERVER_ERROR (unknown kind of key).
"""

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kafkapy.cluster.image import MetadataImage
from kafkapy.coordinator.group.shard import GROUP_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

logger = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
CREATION_TIMEOUT_MS = 5_000


def handle(
    context: "RequestContext", request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Answer at once when the topic is there; else create it first."""
    if request.key_type == TRANSACTION:
        return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if request.key_type != GROUP:
        return _error(ErrorCode.UNKNOWN_SERVER_ERROR)
    if GROUP_TOPIC in context.services.metadata.image.topics:
        return _locate(context, request.key)
    return _create_and_locate(context, request.key)


async def _create_and_locate(context: "RequestContext", group_id: str) -> FindCoordinatorResponse:
    """Real Kafka answers 15 here and lets the client ask again; waiting for the leader saves it that round."""
    services = context.services
    outcome = await services.topic_admin.create_automatically([GROUP_TOPIC])
    if outcome[GROUP_TOPIC] is not None:
        logger.warning("Could not create %s: %s", GROUP_TOPIC, outcome[GROUP_TOPIC])
        return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def has_leader(image: MetadataImage) -> bool:
        partition = image.partition(GROUP_TOPIC, services.group_coordinator.partition_for(group_id))
        return partition is not None and partition.leader >= 0

    await services.metadata.wait_until(has_leader, CREATION_TIMEOUT_MS, services.clock)
    return _locate(context, group_id)


def _locate(context: "RequestContext", group_id: str) -> FindCoordinatorResponse:
    services = context.services
    partition = services.metadata.image.partition(GROUP_TOPIC, services.group_coordinator.partition_for(group_id))
    leader = -1 if partition is None else partition.leader
    if leader == services.config.broker_id:
        host, port = context.own_endpoint()
    else:
        broker = services.metadata.image.brokers.get(leader)
        endpoint = None if broker is None else broker.endpoints.get(context.connection.listener)
        if endpoint is None:
            return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        host, port = endpoint.host, endpoint.port
    return FindCoordinatorResponse(error_message="NONE", node_id=leader, host=host, port=port)


def _error(error: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=error, error_message=error.message, node_id=-1, host="", port=-1)
