"""DescribeTopicPartitions v0: partitions of topics in the order of names, page by page (KIP-966).

Done: named topics or all; the limit of partitions, up to ``MOST_PARTITIONS``; the cursor where the next page begins. A
named topic that the client may not describe is refused, among all topics it is left out.
Not done: eligible leader replicas (KIP-966), which only a KRaft controller keeps: the lists are empty.
Errors, by topic: UNKNOWN_TOPIC_OR_PARTITION 3, INVALID_TOPIC_EXCEPTION 17, TOPIC_AUTHORIZATION_FAILED 29,
INVALID_REQUEST 42 (the cursor's topic is not named, or its partition is negative); by partition
LEADER_NOT_AVAILABLE 5, LISTENER_NOT_FOUND 72.
"""

from heapq import merge
from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.metadata.image import MetadataImage, PartitionInfo
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS, check_name
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.authorized_operations import topic_operations
from kafkapy.turns import Steps, pieces
from kafkapy.types import NO_LEADER

NAMES_IN_A_RUN: Final = 1024
"""Names that are sorted between two places to pause."""
MOST_PARTITIONS: Final = 2_000
"""The default of ``max.request.partition.size.limit`` in 4.4.0."""
FIRST_CURSOR: Final = Cursor("", 0)


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest) -> Steps[DescribeTopicPartitionsResponse]:
    """See the card; a step is a topic or a partition."""
    cursor = request.cursor or FIRST_CURSOR
    topics = yield from _wanted(context, request, cursor)
    if cursor.partition_index < 0 or (request.topics and request.cursor and cursor.topic_name not in topics):
        return DescribeTopicPartitionsResponse(topics=[_topic(each.name, _INVALID) for each in request.topics])
    visible, denied = yield from _visible(context, topics, names_all=not request.topics)
    limit = min(max(request.response_partition_limit, 1), MOST_PARTITIONS)
    response = yield from _page(context, visible, cursor, limit)
    response.topics += denied
    return response


_INVALID: Final = ErrorCode.INVALID_REQUEST


def _wanted(context: RequestContext, request: DescribeTopicPartitionsRequest, cursor: Cursor) -> Steps[list[str]]:
    """Return the names from the cursor on, sorted, each once."""
    named = [topic.name for topic in request.topics] or list(context.services.metadata.image.topics)
    runs = []
    for piece in pieces(named, NAMES_IN_A_RUN):
        runs.append(sorted(name for name in piece if name >= cursor.topic_name))
        yield
    names: list[str] = []
    for name in merge(*runs):
        if not names or names[-1] != name:
            names.append(name)
        yield
    return names


def _visible(
    context: RequestContext, names: list[str], *, names_all: bool
) -> Steps[tuple[list[str], list[DescribeTopicPartitionsResponseTopic]]]:
    rights = context.rights()
    if rights is None:
        return names, []
    visible, denied = [], []
    for name in names:
        if rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, logs=not names_all):
            visible.append(name)
        elif not names_all:
            denied.append(_topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        yield
    return visible, denied


def _page(
    context: RequestContext, names: list[str], cursor: Cursor, limit: int
) -> Steps[DescribeTopicPartitionsResponse]:
    image, rights, listener = context.services.metadata.image, context.rights(), context.session.listener
    response = DescribeTopicPartitionsResponse(topics=[])
    room = limit
    for name in names:
        found = image.topics.get(name)
        first = cursor.partition_index if name == cursor.topic_name else 0
        indexes = [] if found is None else [index for index in sorted(found.partitions) if index >= first]
        if indexes and not room:
            response.next_cursor = Cursor(name, indexes[0])
            break
        row = _topic(name, _missing(name) if found is None else 0)
        row.topic_id = image.topic_id(name)
        row.topic_authorized_operations = topic_operations(rights, name, asked=True)
        response.topics.append(row)
        for index in indexes[:room]:
            assert found is not None, "it has partitions"
            row.partitions.append(_partition(image, index, found.partitions[index], listener))
            yield
        if len(indexes) > room:
            response.next_cursor = Cursor(name, indexes[room])
            break
        room -= len(indexes)
        yield
    return response


def _missing(name: str) -> int:
    try:
        check_name(name)
    except BrokerError as error:
        return error.error_code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(name: str, error_code: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error_code, name=name, is_internal=name in INTERNAL_TOPICS and not error_code, partitions=[]
    )


def _partition(
    image: MetadataImage, index: int, found: PartitionInfo, listener: str
) -> DescribeTopicPartitionsResponsePartition:
    code, leader = ErrorCode.NONE, found.leader
    reachable = {id_ for id_ in found.replicas if id_ in image.brokers and listener in image.brokers[id_].endpoints}
    if leader not in image.brokers:
        code, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif listener not in image.brokers[leader].endpoints:
        code, leader = ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=list(found.replicas),
        isr_nodes=list(found.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[id_ for id_ in found.replicas if id_ not in reachable or id_ in found.offline_replicas],
    )
