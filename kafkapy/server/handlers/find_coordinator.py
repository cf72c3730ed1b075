"""FindCoordinator: which broker coordinates a group, or a transactional id.

Versions 0-3. Creates the topic that keeps their state (``__consumer_offsets``, ``__transaction_state``) if it does not
exist yet, and answers with the leader of the key's partition as soon as that is known.
Errors: COORDINATOR_NOT_AVAILABLE 15 (topic or leader not there yet), UNKNOWN_SERVER_ERROR -1 (unknown kind of key).
"""

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.protocol.constants import GROUP_KEY, TRANSACTIONAL_ID_KEY
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext, Services

logger = logging.getLogger(__name__)

CREATION_TIMEOUT_MS = 5_000


def handle(
    context: "RequestContext", request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Answer at once when the topic is there; else create it first."""
    if request.key_type not in (GROUP_KEY, TRANSACTIONAL_ID_KEY):
        return _error(ErrorCode.UNKNOWN_SERVER_ERROR)
    topic = GROUP_METADATA_TOPIC if request.key_type == GROUP_KEY else TRANSACTION_STATE_TOPIC
    if topic in context.services.metadata.partition_counts:
        return _locate(context, topic, request.key)
    return _create_and_locate(context, topic, request.key)


def _partition(services: "Services", topic: str, key: str) -> TopicPartition:
    coordinator = services.group_coordinator if topic == GROUP_METADATA_TOPIC else services.transaction_coordinator
    return TopicPartition(topic, coordinator.partition_for(key))


async def _create_and_locate(context: "RequestContext", topic: str, key: str) -> FindCoordinatorResponse:
    """Create the topic and wait for its leader; Kafka answers 15 instead, so that the client repeats its request."""
    services = context.services
    outcome = await services.topic_admin.create_automatically([topic])
    if outcome[topic] is not None:
        logger.warning("Could not create %s: %s", topic, outcome[topic])
        return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def has_leader(image: MetadataImage) -> bool:
        if topic not in services.metadata.partition_counts:
            return False
        partition = image.partition(*_partition(services, topic, key))
        return partition is not None and partition.leader >= 0

    if not await services.metadata.wait_until(has_leader, CREATION_TIMEOUT_MS, services.clock):
        return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _locate(context, topic, key)


def _locate(context: "RequestContext", topic: str, key: str) -> FindCoordinatorResponse:
    services = context.services
    partition = services.metadata.image.partition(*_partition(services, topic, key))
    leader = -1 if partition is None else partition.leader
    if leader == services.config.broker_id:
        host, port = context.own_endpoint()
    else:
        broker = services.metadata.image.brokers.get(leader)
        endpoint = None if broker is None else broker.endpoints.get(context.session.listener)
        if endpoint is None:
            return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        host, port = endpoint.host, endpoint.port
    return FindCoordinatorResponse(error_message="NONE", node_id=leader, host=host, port=port)


def _error(error: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=error, error_message=error.message, node_id=-1, host="", port=-1)
