"""The rules of APIs about topics and their records."""

from collections import Counter
from collections.abc import Sequence
from struct import Struct
from typing import Final
from uuid import UUID

from kafkapy import kafka_texts
from kafkapy.network.errors import UnansweredFailureError
from kafkapy.protocol.constants import AclOperation
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafkapy.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopicResult,
)
from kafkapy.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopicResponse,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kafkapy.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.records.batch import TRANSACTIONAL_BIT
from kafkapy.security.authorizer import Rights
from kafkapy.server.access.rules import (
    CHECKS_IN_A_STEP,
    NO_CLUSTER,
    NO_TOPIC,
    NO_TRANSACTION,
    TOPIC,
    TRANSACTIONAL_ID,
    may_on_only_topic,
    may_on_topics,
    name,
    partition_indexes,
    rows_as_listed,
    rows_of,
    split,
    with_fields,
    without_denied,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.result import Response
from kafkapy.server.dispatch.verdicts import Partial, Verdict
from kafkapy.turns import MaybeSteps, Steps, pieces
from kafkapy.types import NO_OFFSET, NO_PRODUCER_ID

# Produce

_BATCH: Final = Struct(">16xb4xh20xq")
"""Format, attributes and producer id of a batch of format 2."""
_FORMAT_2: Final = 2
_FIRST_VERSION_WITH_CONFIGS: Final = 5


def produce(rights: Rights, _context: RequestContext, request: ProduceRequest) -> MaybeSteps[Verdict]:
    """Write on the transactional id, or IdempotentWrite on the cluster, for such batches; Write on each topic."""
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        is_transactional, has_producer = _producer_of(topics[0].partition_data[0].records)
        error_code = _sender_error(rights, request, is_transactional, has_producer)
        if error_code:
            return _refused_produce(request, error_code)
        if may_on_only_topic(rights, AclOperation.WRITE, topics, name):
            return None
        return _produce_to_topics(rights, request)
    return _produce(rights, request)


def _produce(rights: Rights, request: ProduceRequest) -> Steps[Verdict]:
    is_transactional = has_producer = False
    for topic in request.topic_data:
        for piece in pieces(topic.partition_data):
            for each in piece:
                flags = _producer_of(each.records)
                is_transactional, has_producer = is_transactional or flags[0], has_producer or flags[1]
            yield
    error_code = _sender_error(rights, request, is_transactional, has_producer)
    steps = _refused_produce(request, error_code) if error_code else _produce_to_topics(rights, request)
    return (yield from steps)


def _refused_produce(request: ProduceRequest, error_code: int) -> Steps[Verdict]:
    _check_answered(request)
    return ProduceResponse((yield from _denied_produce(request.topic_data, error_code)))


def _produce_to_topics(rights: Rights, request: ProduceRequest) -> Steps[Verdict]:
    kept, denied = yield from may_on_topics(rights, AclOperation.WRITE, request.topic_data, name)
    if not denied:
        return None
    rows = yield from _denied_produce(denied, NO_TOPIC)

    def merge(response: ProduceResponse | None) -> Response:
        _check_answered(request)
        assert response is not None, "the request is answered"
        response.responses += rows
        return response

    return Partial(with_fields(request, topic_data=kept), merge)


def _producer_of(records: object) -> tuple[bool, bool]:
    """Whether the first batch of a partition is transactional, and whether it has a producer id."""
    if not isinstance(records, memoryview | bytes) or len(records) < _BATCH.size:
        return False, False
    magic, attributes, producer_id = _BATCH.unpack_from(records)
    if magic != _FORMAT_2:
        return False, False
    return bool(attributes & TRANSACTIONAL_BIT), producer_id != NO_PRODUCER_ID


def _sender_error(rights: Rights, request: ProduceRequest, is_transactional: bool, has_producer: bool) -> int:
    """Return the error of all partitions; the handler refuses transactional batches without a transactional id."""
    if is_transactional:
        transactional_id = request.transactional_id
        is_allowed = transactional_id is None or rights.may(AclOperation.WRITE, TRANSACTIONAL_ID, transactional_id)
        return 0 if is_allowed else NO_TRANSACTION
    if has_producer and not rights.may_on_cluster(AclOperation.IDEMPOTENT_WRITE):
        return NO_CLUSTER
    return 0


def _check_answered(request: ProduceRequest) -> None:
    """End the connection of a request without an answer, as the handler does for any failure."""
    if request.acks == 0:
        raise UnansweredFailureError("a produce request with acks=0 was not authorized")


def _denied_produce(topics: Sequence[TopicProduceData], error_code: int) -> Steps[list[TopicProduceResponse]]:
    topic_ids: dict[str, UUID] = {}
    for piece in pieces(topics):
        topic_ids.update((topic.name, topic.topic_id) for topic in piece)
        yield
    return (
        yield from rows_of(
            topics,
            (name, lambda topic: (each.index for each in topic.partition_data)),
            lambda index: PartitionProduceResponse(index, error_code, NO_OFFSET),
            lambda topic, rows: TopicProduceResponse(topic, topic_ids[topic], rows),
        )
    )


# Offsets of topics


def list_offsets(rights: Rights, _context: RequestContext, request: ListOffsetsRequest) -> MaybeSteps[Verdict]:
    """Describe on each topic."""
    if may_on_only_topic(rights, AclOperation.DESCRIBE, request.topics, name):
        return None
    return _list_offsets(rights, request)


def _list_offsets(rights: Rights, request: ListOffsetsRequest) -> Steps[Verdict]:
    return without_denied(
        rights,
        AclOperation.DESCRIBE,
        request,
        name,
        lambda denied: rows_as_listed(
            denied,
            (name, partition_indexes),
            lambda index: ListOffsetsPartitionResponse(index, NO_TOPIC),
            ListOffsetsTopicResponse,
        ),
    )


def delete_records(rights: Rights, _context: RequestContext, request: DeleteRecordsRequest) -> Steps[Verdict]:
    """Delete on each topic."""
    return without_denied(
        rights,
        AclOperation.DELETE,
        request,
        name,
        lambda denied: rows_of(
            denied,
            (name, partition_indexes),
            lambda index: DeleteRecordsPartitionResult(index, NO_OFFSET, NO_TOPIC),
            DeleteRecordsTopicResult,
        ),
    )


def offset_for_leader_epoch(
    rights: Rights, _context: RequestContext, request: OffsetForLeaderEpochRequest
) -> MaybeSteps[Verdict]:
    """ClusterAction on the cluster, as followers have it, or Describe on each topic."""
    if rights.may_on_cluster(AclOperation.CLUSTER_ACTION, logs=False):
        return None
    return _offset_for_leader_epoch(rights, request)


def _offset_for_leader_epoch(rights: Rights, request: OffsetForLeaderEpochRequest) -> Steps[Verdict]:
    return without_denied(
        rights,
        AclOperation.DESCRIBE,
        request,
        _topic,
        lambda denied: rows_as_listed(
            denied,
            (_topic, lambda topic: (each.partition for each in topic.partitions)),
            lambda index: EpochEndOffset(NO_TOPIC, index),
            OffsetForLeaderTopicResult,
        ),
    )


def _topic(topic: OffsetForLeaderTopic) -> str:
    return topic.topic


# Topics themselves


def create_topics(rights: Rights, context: RequestContext, request: CreateTopicsRequest) -> Steps[Verdict]:
    """Create on the cluster or on each topic; without DescribeConfigs the response leaves out a topic's configuration.

    A topic that is listed twice is refused before its rights are asked for.
    """
    counts: Counter[str] = Counter()
    for piece in pieces(request.topics):
        counts.update(map(name, piece))
        yield
    creates_all = rights.may_on_cluster(AclOperation.CREATE, logs=False)
    kept, denied = yield from split(
        request.topics,
        name,
        lambda topic: creates_all or counts[topic] > 1 or rights.may(AclOperation.CREATE, TOPIC, topic),
    )
    _, hidden = yield from split(
        request.topics, name, lambda topic: rights.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, topic, logs=False)
    )
    if not denied and not hidden:
        return None
    hidden_names = set(map(name, hidden)) if context.header.api_version >= _FIRST_VERSION_WITH_CONFIGS else set()
    refusal = _creation_refusal(context)

    def merge(response: CreateTopicsResponse) -> Steps[Response]:
        answered = {each.name: each for each in response.topics}
        whole = CreateTopicsResponse(topics=[])
        for topic in request.topics:
            answer = answered.get(topic.name) or CreatableTopicResult(topic.name, configs=[], error_message=None)
            if topic.name not in answered:
                answer.error_code, answer.error_message = refusal
            if topic.name in hidden_names:
                _hide_configs(answer, is_refused=topic.name not in answered or counts[topic.name] > 1)
            whole.topics.append(answer)
            yield
        return whole

    return Partial(with_fields(request, topics=kept), merge)


def _creation_refusal(context: RequestContext) -> tuple[int, str | None]:
    """Return error code and text of a topic that may not be created: a broker that is no controller says only that."""
    if not context.services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER, None
    return NO_TOPIC, kafka_texts.CREATION_NOT_AUTHORIZED


def _hide_configs(answer: CreatableTopicResult, *, is_refused: bool) -> None:
    """Leave the configuration out; an error of the creation itself has no further code."""
    if is_refused or not answer.error_code:
        answer.topic_config_error_code = NO_TOPIC
    answer.num_partitions = answer.replication_factor = -1
    answer.configs = []


def delete_topics(rights: Rights, context: RequestContext, request: DeleteTopicsRequest) -> Steps[Verdict]:
    """Delete on each topic."""
    kept, denied = yield from may_on_topics(rights, AclOperation.DELETE, request.topic_names, str)
    if not denied:
        return None
    error_code = _deletion_refusal(context)

    def merge(response: DeleteTopicsResponse) -> Steps[Response]:
        answered = {each.name: each for each in response.responses}
        whole = DeleteTopicsResponse(responses=[])
        for number, topic in enumerate(request.topic_names, start=1):
            whole.responses.append(answered.get(topic) or DeletableTopicResult(topic, error_code=error_code))
            if number % CHECKS_IN_A_STEP == 0:
                yield
        return whole

    return Partial(with_fields(request, topic_names=kept), merge)


def _deletion_refusal(context: RequestContext) -> int:
    if not context.services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER
    if not context.services.config.flag("delete.topic.enable"):
        is_known = context.header.api_version >= 3
        return ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
    return NO_TOPIC


def create_partitions(rights: Rights, context: RequestContext, request: CreatePartitionsRequest) -> Steps[Verdict]:
    """Alter on each topic. A topic that is listed twice is refused before its rights are asked for."""
    counts: Counter[str] = Counter()
    for piece in pieces(request.topics):
        counts.update(map(name, piece))
        yield
    kept, denied = yield from split(
        request.topics, name, lambda topic: counts[topic] > 1 or rights.may(AclOperation.ALTER, TOPIC, topic)
    )
    if not denied:
        return None
    refusal: tuple[int, str | None] = NO_TOPIC, kafka_texts.PARTITIONS_NOT_AUTHORIZED
    if not context.services.controller.is_active:
        refusal = ErrorCode.NOT_CONTROLLER, None

    def merge(response: CreatePartitionsResponse) -> Message:
        response.results += [CreatePartitionsTopicResult(topic.name, *refusal) for topic in denied]
        return response

    return Partial(with_fields(request, topics=kept), merge)
