"""OffsetForLeaderEpoch v0-4: the end offset of a leader epoch (KIP-101, KIP-320).

Done: clients and followers alike; the epoch that the sender knows is checked. A partition that is named twice is
answered once, as it was named last.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, FENCED_LEADER_EPOCH 74, UNKNOWN_LEADER_EPOCH 75.
"""

from functools import partial
from operator import attrgetter

from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.partition_rows import answered_by_topic
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> Steps[OffsetForLeaderEpochResponse]:
    """See the card; a step is a partition."""
    topics = yield from answered_by_topic(
        ((topic.topic, topic.partitions) for topic in request.topics),
        attrgetter("partition"),
        partial(_end_offset, context),
        OffsetForLeaderTopicResult,
    )
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_offset(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = context.services.replica_manager.partition(TopicPartition(topic, wanted.partition))
        partition.check_leader(wanted.current_leader_epoch)
        epoch, end_offset = partition.log.leader_epochs.end_offset_for(wanted.leader_epoch)
    except BrokerError as error:
        return EpochEndOffset(error.error_code, wanted.partition)
    return EpochEndOffset(0, wanted.partition, epoch, end_offset)
