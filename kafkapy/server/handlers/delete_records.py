"""DeleteRecords v0-2: move the log start offset.

Done: an offset, or -1 for the high watermark. The answer is the partition's new low watermark.
What is asked twice is done once, as it was asked last.
Not done: waiting for followers (there are none yet).
Errors: OFFSET_OUT_OF_RANGE 1, UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, INVALID_TOPIC_EXCEPTION 17 for
internal topics, KAFKA_STORAGE_ERROR 56, POLICY_VIOLATION 44 for compacted topics that don't delete.
"""

from functools import partial
from operator import attrgetter
from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidTopicError, PolicyViolationError
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.context import RequestContext
from kafkapy.server.partition_rows import answered_by_topic
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.turns import Steps
from kafkapy.types import NO_OFFSET, TopicPartition

HIGH_WATERMARK: Final = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    """See the card; a step is a partition."""
    replicas = context.services.replica_manager
    topics = yield from answered_by_topic(
        ((topic.name, topic.partitions) for topic in request.topics),
        attrgetter("partition_index"),
        partial(_delete, replicas),
        DeleteRecordsTopicResult,
    )
    return DeleteRecordsResponse(topics=topics)


def _delete(replicas: ReplicaManager, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _advance(replicas, TopicPartition(topic, wanted.partition_index), wanted.offset)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, NO_OFFSET, error.error_code)
    return DeleteRecordsPartitionResult(wanted.partition_index, low_watermark)


def _advance(replicas: ReplicaManager, topic_partition: TopicPartition, offset: int) -> int:
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
    return log.log_start_offset
