"""FindCoordinator: which brokers coordinate groups, or transactional ids.

Versions 0-6; from version 4 for several keys at once, each with its own error code (KIP-699). Creates the topic that
keeps their state (``__consumer_offsets``, ``__transaction_state``) if it does not exist yet, and answers with the
leader of the key's partition as soon as that is known.
Not done: coordinators of share groups (a kind of key of version 6), which are not built.
Errors: COORDINATOR_NOT_AVAILABLE 15 (topic or leader not there yet); for an unknown kind of key UNKNOWN_SERVER_ERROR
-1, from version 4 on INVALID_REQUEST 42.
"""

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.protocol.constants import GROUP_KEY, TRANSACTIONAL_ID_KEY
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkapy.server.handlers.shared.endpoints import client_address
from kafkapy.turns import Steps, in_turns
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext, Services

logger = logging.getLogger(__name__)

CREATION_TIMEOUT_MS = 5_000


SEVERAL_FROM: Final = 4
_TOPICS: Final = {GROUP_KEY: GROUP_METADATA_TOPIC, TRANSACTIONAL_ID_KEY: TRANSACTION_STATE_TOPIC}

Answer = FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]


class _Located(NamedTuple):
    node_id: int
    host: str
    port: int


def handle(context: "RequestContext", request: FindCoordinatorRequest) -> Answer | Steps[Answer]:
    """Answer at once when the topic is there; else create it first."""
    if context.header.api_version >= SEVERAL_FROM:
        return _find_several(context, request)
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return _error(ErrorCode.UNKNOWN_SERVER_ERROR)
    if topic in context.services.metadata.partition_counts:
        return _find(context, topic, request.key)
    return _create_and_find(context, topic, request.key)


def _find_several(context: "RequestContext", request: FindCoordinatorRequest) -> Steps[Answer]:
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return (yield from _refused(request.coordinator_keys, ErrorCode.INVALID_REQUEST))
    if request.coordinator_keys and topic not in context.services.metadata.partition_counts:
        return _create_and_find_several(context, topic, request.coordinator_keys)
    return (yield from _located(context, topic, request.coordinator_keys))


def _located(context: "RequestContext", topic: str, keys: list[str]) -> Steps[FindCoordinatorResponse]:
    response = FindCoordinatorResponse(coordinators=[])
    for key in keys:
        found = _locate(context, topic, key)
        row = Coordinator(key, *(found or _NOWHERE), error_code=0 if found else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response.coordinators.append(row)
        yield
    return response


def _refused(keys: list[str], error_code: int) -> Steps[FindCoordinatorResponse]:
    response = FindCoordinatorResponse(coordinators=[])
    for key in keys:
        response.coordinators.append(Coordinator(key, *_NOWHERE, error_code=error_code))
        yield
    return response


async def _create_and_find_several(context: "RequestContext", topic: str, keys: list[str]) -> FindCoordinatorResponse:
    if not await _create(context, topic, keys[0]):
        return await in_turns(_refused(keys, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return await in_turns(_located(context, topic, keys))


async def _create_and_find(context: "RequestContext", topic: str, key: str) -> FindCoordinatorResponse:
    if not await _create(context, topic, key):
        return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _find(context, topic, key)


async def _create(context: "RequestContext", topic: str, key: str) -> bool:
    """Create the topic and wait for the leader of the key; Kafka answers 15 instead, and the client asks again."""
    services = context.services
    outcome = await services.topic_admin.create_automatically([topic])
    if outcome[topic] is not None:
        logger.warning("Could not create %s: %s", topic, outcome[topic])
        return False

    def has_leader(image: MetadataImage) -> bool:
        if topic not in services.metadata.partition_counts:
            return False
        partition = image.partition(*_partition(services, topic, key))
        return partition is not None and partition.leader >= 0

    return await services.metadata.wait_until(has_leader, CREATION_TIMEOUT_MS, services.clock)


def _partition(services: "Services", topic: str, key: str) -> TopicPartition:
    coordinator = services.group_coordinator if topic == GROUP_METADATA_TOPIC else services.transaction_coordinator
    return TopicPartition(topic, coordinator.partition_for(key))


def _locate(context: "RequestContext", topic: str, key: str) -> _Located | None:
    """The coordinator of a key and its address on the client's listener; None while there is none."""
    services = context.services
    partition = services.metadata.image.partition(*_partition(services, topic, key))
    leader = -1 if partition is None else partition.leader
    if leader == services.config.broker_id:
        return _Located(leader, *context.own_endpoint())
    broker = services.metadata.image.brokers.get(leader)
    address = None if broker is None else client_address(context, broker)
    return None if address is None else _Located(leader, *address)


def _find(context: "RequestContext", topic: str, key: str) -> FindCoordinatorResponse:
    found = _locate(context, topic, key)
    if found is None:
        return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse(error_message="NONE", node_id=found.node_id, host=found.host, port=found.port)


_NOWHERE: Final = _Located(-1, "", -1)


def _error(error: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=error, error_message=error.message, node_id=-1, host="", port=-1)
