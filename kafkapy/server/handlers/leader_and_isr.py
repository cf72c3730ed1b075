"""LeaderAndIsr v0-7, from the controller: in the process, or over the listener of a broker that serves others.

Done: fencing by controller and broker epoch; each partition's leader epoch; creating logs, with the configuration of
their topics, which is read from the metadata store first; leading, or fetching from the leader; ids of topics (v5),
which the partitions' directories keep. The recovery state of a leader (v6) is ignored: kafkapy recovers none.
Errors: STALE_CONTROLLER_EPOCH 11 (whole request, or a partition whose leader epoch is not newer), STALE_BROKER_EPOCH
77, UNKNOWN_TOPIC_OR_PARTITION 3 (not a replica), INVALID_TOPIC_EXCEPTION 17 (a name that CreateTopics refuses, a
negative partition; 2.7.2 creates the folder), KAFKA_STORAGE_ERROR 56 (its data directory is, or may be, offline),
INCONSISTENT_TOPIC_ID 103 (its directory belongs to an earlier topic of this name), UNKNOWN_SERVER_ERROR -1 (its topic's
configuration can't be read).
"""

import asyncio
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidTopicError
from kafkapy.metadata.topic_rules import check_name
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkapy.replication.partition import LeaderAndIsrPartition
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, turns
from kafkapy.types import TopicPartition

FIRST_VERSION_WITH_IDS: Final = 5


def handle(context: RequestContext, request: LeaderAndIsrRequest) -> Steps[LeaderAndIsrResponse]:
    """Make this broker leader or follower of each partition; a step is a partition, which may get a new log."""
    unread = yield from _read_configuration(context, request)
    response = LeaderAndIsrResponse()
    try:
        context.services.fence.check(request.controller_epoch, request.broker_epoch)
    except BrokerError as error:
        response.error_code = error.error_code
    results = Results(response, context.header.api_version)
    for topic, topic_id, state in states_of(request):
        yield
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR if topic in unread else 0
        code = response.error_code or unknown or _apply(context, topic, topic_id, state)
        results.add(topic, topic_id, state.partition_index, code)
    return response


class Results:
    """Adds the results of partitions to ``response``: by name, from version 5 on by the topics' ids."""

    def __init__(self, response: LeaderAndIsrResponse, version: int) -> None:
        self._response = response
        self._by_id: dict[UUID, LeaderAndIsrTopicError] | None = {} if version >= FIRST_VERSION_WITH_IDS else None

    def add(self, topic: str, topic_id: UUID, index: int, code: int) -> None:
        """Add the result of a partition."""
        if self._by_id is None:
            self._response.partition_errors.append(LeaderAndIsrPartitionError(topic, index, code))
            return
        found = self._by_id.get(topic_id)
        if found is None:
            found = self._by_id[topic_id] = LeaderAndIsrTopicError(topic_id)
            self._response.topics.append(found)
        found.partition_errors.append(LeaderAndIsrPartitionError("", index, code))


def _read_configuration(context: RequestContext, request: LeaderAndIsrRequest) -> Steps[set[str]]:
    """Wait until the configuration of all topics is known: a new log must not begin with the defaults.

    Returns the topics whose configuration can't be read.
    """
    configs = context.services.config_admin
    topics = configs.unread_topics(topic for topic, _, _ in states_of(request) if _is_legal(topic))
    if topics:
        reading = asyncio.ensure_future(configs.load_topics(topics))
        turns().wait_for(reading)
        yield
        reading.result()
    return set(configs.unread_topics(topics))


def _is_legal(topic: str) -> bool:
    try:
        check_name(topic)
    except InvalidTopicError:
        return False
    return True


def states_of(request: LeaderAndIsrRequest) -> Iterator[tuple[str, UUID, LeaderAndIsrPartitionState]]:
    """Yield each partition's state with the topic's name and id."""
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _apply(context: RequestContext, topic: str, topic_id: UUID, state: LeaderAndIsrPartitionState) -> int:
    topic_partition = TopicPartition(topic, state.partition_index)
    try:
        context.services.replica_manager.become_leader_or_follower(
            topic_partition,
            LeaderAndIsrPartition(
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=tuple(state.isr),
                zk_version=state.partition_epoch,
                replicas=tuple(state.replicas),
                adding_replicas=tuple(state.adding_replicas),
                removing_replicas=tuple(state.removing_replicas),
                is_new=state.is_new,
                topic_id=topic_id,
            ),
        )
    except InvalidTopicError as error:
        context.log_refusal(f"a replica of {str(topic_partition)!r}", error)
        return error.error_code
    except BrokerError as error:
        return error.error_code
    return 0
