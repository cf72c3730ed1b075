"""The rules of APIs about producer ids and transactions."""

from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.protocol.constants import AclOperation
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkapy.security.authorizer import Rights
from kafkapy.server.access.rules import (
    GROUP,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    TOPIC,
    TRANSACTIONAL_ID,
    may_on_only_topic,
    name,
    partition_indexes,
    rows_as_listed,
    rows_of,
    split,
    without_denied,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.verdicts import Verdict
from kafkapy.server.handlers.add_partitions_to_txn import build, error_of, refused
from kafkapy.server.handlers.shared.broker_transactions import FIRST_VERSION_OF_BROKERS
from kafkapy.server.handlers.write_txn_markers import failed
from kafkapy.turns import PIECE, MaybeSteps, Steps, pieces
from kafkapy.types import NO_EPOCH, TopicPartition


def init_producer_id(rights: Rights, _context: RequestContext, request: InitProducerIdRequest) -> Verdict:
    """Write on the transactional id, or IdempotentWrite on the cluster without one."""
    if request.transactional_id is None:
        error_code = 0 if rights.may_on_cluster(AclOperation.IDEMPOTENT_WRITE) else NO_CLUSTER
    else:
        error_code = 0 if _may_write(rights, request.transactional_id) else NO_TRANSACTION
    return InitProducerIdResponse(error_code=error_code, producer_epoch=NO_EPOCH) if error_code else None


def _may_write(rights: Rights, transactional_id: str) -> bool:
    return rights.may(AclOperation.WRITE, TRANSACTIONAL_ID, transactional_id)


def add_partitions_to_txn(
    rights: Rights, context: RequestContext, request: AddPartitionsToTxnRequest
) -> MaybeSteps[Verdict]:
    """Write on the transactional id, then on each topic; if one is denied, no partition is added.

    ClusterAction on the cluster for a request of a broker.
    """
    if context.header.api_version >= FIRST_VERSION_OF_BROKERS:
        is_broker = rights.may_on_cluster(AclOperation.CLUSTER_ACTION)
        return None if is_broker else AddPartitionsToTxnResponse(error_code=NO_CLUSTER)
    topics = request.v3_and_below_topics
    is_allowed = _may_write(rights, request.v3_and_below_transactional_id)
    is_short = len(topics) == 1 and len(topics[0].partitions) <= PIECE
    if is_allowed and is_short and may_on_only_topic(rights, AclOperation.WRITE, topics, name):
        return None
    return _add_partitions(rights, context, request, is_allowed)


def _add_partitions(
    rights: Rights, context: RequestContext, request: AddPartitionsToTxnRequest, is_allowed: bool
) -> Steps[Verdict]:
    topics = request.v3_and_below_topics
    _, denied = yield from split(
        topics,
        name,
        lambda topic: is_allowed and (topic in INTERNAL_TOPICS or rights.may(AclOperation.WRITE, TOPIC, topic)),
    )
    if not denied:
        return None
    hidden = set(map(name, denied))
    errors: dict[TopicPartition, int] = {}
    for topic in topics:
        for piece in pieces(topic.partitions):
            for index in piece:
                partition = TopicPartition(topic.name, index)
                errors[partition] = NO_TOPIC if topic.name in hidden else error_of(context, topic.name, index)
            yield
    if not is_allowed:
        errors = dict.fromkeys(errors, NO_TRANSACTION)
    return (yield from build(refused(errors)))


def add_offsets_to_txn(rights: Rights, _context: RequestContext, request: AddOffsetsToTxnRequest) -> Verdict:
    """Write on the transactional id, then Read on the group."""
    if not _may_write(rights, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=NO_TRANSACTION)
    if not rights.may(AclOperation.READ, GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=NO_GROUP)
    return None


def end_txn(rights: Rights, _context: RequestContext, request: EndTxnRequest) -> Verdict:
    """Write on the transactional id."""
    return None if _may_write(rights, request.transactional_id) else EndTxnResponse(error_code=NO_TRANSACTION)


def txn_offset_commit(rights: Rights, _context: RequestContext, request: TxnOffsetCommitRequest) -> MaybeSteps[Verdict]:
    """Write on the transactional id, then Read on the group, then on each topic."""
    if not _may_write(rights, request.transactional_id):
        return _refused_commit(request, NO_TRANSACTION)
    if not rights.may(AclOperation.READ, GROUP, request.group_id):
        return _refused_commit(request, NO_GROUP)
    if may_on_only_topic(rights, AclOperation.READ, request.topics, name):
        return None
    return _txn_offset_commit(rights, request)


def _refused_commit(request: TxnOffsetCommitRequest, error_code: int) -> Steps[Verdict]:
    rows = yield from rows_as_listed(
        request.topics,
        (name, partition_indexes),
        lambda index: TxnOffsetCommitResponsePartition(index, error_code),
        lambda topic, rows: TxnOffsetCommitResponseTopic(topic, partitions=rows),
    )
    return TxnOffsetCommitResponse(topics=rows)


def _txn_offset_commit(rights: Rights, request: TxnOffsetCommitRequest) -> Steps[Verdict]:
    return without_denied(
        rights,
        AclOperation.READ,
        request,
        name,
        lambda denied: rows_of(
            denied,
            (name, partition_indexes),
            lambda index: TxnOffsetCommitResponsePartition(index, NO_TOPIC),
            lambda topic, rows: TxnOffsetCommitResponseTopic(topic, partitions=rows),
        ),
    )


def write_txn_markers(rights: Rights, _context: RequestContext, request: WriteTxnMarkersRequest) -> MaybeSteps[Verdict]:
    """ClusterAction on the cluster."""
    return None if rights.may_on_cluster(AclOperation.CLUSTER_ACTION) else failed(request, NO_CLUSTER)
