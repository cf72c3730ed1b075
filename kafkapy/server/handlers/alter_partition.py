"""AlterPartition v0, AlterIsr in Apache Kafka 2.7: a leader requests a change of the in-sync replicas from the
controller (KIP-497).

Done: each partition separately, compared with the leader epoch and version of the request; a state that is already set
succeeds. Refused beyond what 2.7.2 refuses: a sender that does not lead, replicas that are not assigned, a leader epoch
that the controller does not know (2.7.2 writes all of these). Errors: NOT_CONTROLLER 41 (also of a partition: an
unknown leader epoch), STALE_BROKER_EPOCH 77 (whole request); UNKNOWN_TOPIC_OR_PARTITION 3, INVALID_REQUEST 42,
FENCED_LEADER_EPOCH 74, INVALID_UPDATE_VERSION 95.
"""

from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kafkapy.turns import OneByOne
from kafkapy.types import NO_EPOCH, TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


async def handle(context: "RequestContext", request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Hand the proposals to the controller and translate what became of them."""
    proposals: dict[TopicPartition, LeaderIsr] = {}
    async for topic in OneByOne(request.topics):
        async for asked in OneByOne(topic.partitions):
            proposals[TopicPartition(topic.topic_name, asked.partition_index)] = LeaderIsr(
                request.broker_id, asked.leader_epoch, tuple(asked.new_isr), NO_EPOCH, asked.partition_epoch
            )
    try:
        answers = await context.services.controller.alter_isr(request.broker_id, request.broker_epoch, proposals)
    except BrokerError as refused:
        return AlterPartitionResponse(error_code=refused.error_code)
    topics: dict[str, ResponseTopicData] = {}
    async for (name, index), answer in OneByOne(answers.items()):
        topics.setdefault(name, ResponseTopicData(name)).partitions.append(_answer(index, answer))
    return AlterPartitionResponse(topics=list(topics.values()))


def _answer(index: int, answer: LeaderIsr | BrokerError) -> ResponsePartitionData:
    if isinstance(answer, BrokerError):
        return ResponsePartitionData(index, answer.error_code)
    return ResponsePartitionData(
        index, 0, answer.leader, answer.leader_epoch, list(answer.isr), partition_epoch=answer.zk_version
    )
