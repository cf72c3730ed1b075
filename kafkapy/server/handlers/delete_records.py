"""DeleteRecords v0-2: advances the log start offset.

Done: an offset, or -1 for the high watermark. The answer is the partition's low watermark: the lowest log start offset
of its replicas on live brokers. It waits for the followers, which send their log start offset with each fetch.
A partition that is named twice is handled once, as it was named last.
Errors: OFFSET_OUT_OF_RANGE 1, UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, REQUEST_TIMED_OUT 7 when a
follower has not advanced in time, INVALID_TOPIC_EXCEPTION 17 for internal topics, KAFKA_STORAGE_ERROR 56,
POLICY_VIOLATION 44 for compacted topics whose policy does not include deletion.
"""

from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from kafkapy.delayed import Delayed
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidTopicError, PolicyViolationError
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.partition_rows import answered_by_topic
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.turns import Steps
from kafkapy.types import NO_OFFSET, TopicPartition

HIGH_WATERMARK: Final = -1


class _Trimmed(NamedTuple):
    """A partition whose records this broker has deleted, the low watermark to wait for, and the partition's answer."""

    topic_partition: TopicPartition
    wanted: int
    answer: DeleteRecordsPartitionResult


Answer = DeleteRecordsResponse | Delayed[DeleteRecordsResponse]


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Steps[Answer]:
    """See the card; a step is a partition."""
    replicas = context.services.replica_manager
    trimmed: list[_Trimmed] = []
    topics = yield from answered_by_topic(
        ((topic.name, topic.partitions) for topic in request.topics),
        attrgetter("partition_index"),
        partial(_delete, replicas, trimmed),
        DeleteRecordsTopicResult,
    )
    response = DeleteRecordsResponse(topics=topics)
    waiting = [each for each in trimmed if not _has_followed(replicas, each)]
    return _wait_for_followers(replicas, waiting, response, request.timeout_ms) if waiting else response


def _delete(
    replicas: ReplicaManager, trimmed: list[_Trimmed], topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    topic_partition = TopicPartition(topic, wanted.partition_index)
    try:
        offset = _advance(replicas, topic_partition, wanted.offset)
        answer = DeleteRecordsPartitionResult(wanted.partition_index, replicas.low_watermark(topic_partition))
    except BrokerError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, NO_OFFSET, error.error_code)
    if answer.low_watermark < offset:
        trimmed.append(_Trimmed(topic_partition, offset, answer))
    return answer


def _advance(replicas: ReplicaManager, topic_partition: TopicPartition, offset: int) -> int:
    """Advance the log start offset of this broker's replica; return the requested offset."""
    partition = replicas.partition(topic_partition)
    if topic_partition.topic in INTERNAL_TOPICS:
        raise InvalidTopicError(f"records of {topic_partition.topic} can't be deleted")
    partition.check_leader()
    log = partition.log
    if not log.config.delete:
        raise PolicyViolationError(f"{topic_partition.topic} is compacted only")
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0:
        raise OffsetOutOfRangeError(f"{topic_partition} has no offset {offset}")
    log.advance_log_start_offset(offset)
    replicas.purgatory.check(topic_partition)  # followers learn of it with their next fetch
    return offset


def _has_followed(replicas: ReplicaManager, trimmed: _Trimmed) -> bool:
    """Tell whether the low watermark is reached, or never will be, and update the partition's answer."""
    answer = trimmed.answer
    try:
        answer.low_watermark = replicas.low_watermark(trimmed.topic_partition)
    except BrokerError as error:
        answer.low_watermark, answer.error_code = NO_OFFSET, error.error_code
        return True
    return answer.low_watermark >= trimmed.wanted


def _wait_for_followers(
    replicas: ReplicaManager, waiting: list[_Trimmed], response: DeleteRecordsResponse, timeout_ms: int
) -> Delayed[DeleteRecordsResponse]:
    def attempt(changed: TopicPartition | None) -> DeleteRecordsResponse | None:
        waiting[:] = [each for each in waiting if not _has_followed(replicas, each)]
        if waiting and changed is not None:
            return None
        for each in waiting:
            each.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    return replicas.purgatory.wait([each.topic_partition for each in waiting], attempt, timeout_ms)
