"""TxnOffsetCommit v0-6: stores offsets of a group that become valid when the producer's transaction is committed.

The coordinator of the group keeps them until the transaction's marker comes. From version 3 on a member and its
generation are checked, if they are named (KIP-447). The coordinator of the transaction has to confirm that an
AddOffsetsToTxn came before; from v5 on the group's partition is added to the transaction here (KIP-890). From v6 on
topics are named by id (KIP-516).
Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION 3, OFFSET_METADATA_TOO_LARGE 12, COORDINATOR_LOAD_IN_PROGRESS 14 (below
v2: COORDINATOR_NOT_AVAILABLE 15), COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, ILLEGAL_GENERATION 22,
INVALID_GROUP_ID 24, UNKNOWN_MEMBER_ID 25, INVALID_COMMIT_OFFSET_SIZE 28, INVALID_REQUEST 42,
INVALID_PRODUCER_EPOCH 47, INVALID_PRODUCER_ID_MAPPING 49, FENCED_INSTANCE_ID 82, UNKNOWN_TOPIC_ID 100,
TRANSACTION_ABORTABLE 120 (below v4: INVALID_TXN_STATE 48).
"""

from collections.abc import Awaitable, Generator, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond, respond_in_turns
from kafkapy.coordinator.group.calls import CommitCall, Producer, commit_call_of
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.transaction.transaction import ProducerIdAndEpoch
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.server.handlers.shared.commits import is_large, parts_of, split_by_existence
from kafkapy.server.handlers.shared.confirmation import Confirmation, ConfirmationRules
from kafkapy.server.handlers.shared.partition_rows import few_rows, rows_by_topic
from kafkapy.turns import Steps
from kafkapy.types import NO_SEQUENCE, TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_FIRST_VERSION_OF_LOADING: Final = 2
"""Older producers fail at COORDINATOR_LOAD_IN_PROGRESS instead of retrying."""


_CONFIRMATION: Final = ConfirmationRules(4, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

Answered = TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]


def handle(context: "RequestContext", request: TxnOffsetCommitRequest) -> Answered | Steps[Answered]:
    """See the card; a large request takes steps."""
    if _has_to_ask(context, request):
        return _confirm(context, request)
    return _commit(context, request)


def _has_to_ask(context: "RequestContext", request: TxnOffsetCommitRequest) -> bool:
    """Whether the commit begins a transaction in the group's partition, which its coordinator has to confirm."""
    services = context.services
    if not services.log_manager.storage.verifies_transactions:
        return False
    partition = services.replica_manager.partitions.get(_group_partition(context, request))
    if partition is None:
        return False
    return not partition.log.producer_state.is_verified(request.producer_id, request.producer_epoch)


def _group_partition(context: "RequestContext", request: TxnOffsetCommitRequest) -> TopicPartition:
    return TopicPartition(GROUP_METADATA_TOPIC, context.services.group_coordinator.partition_for(request.group_id))


def _confirm(context: "RequestContext", request: TxnOffsetCommitRequest) -> Steps[Answered]:
    """Ask the coordinator of the transaction, again if a marker has come in the meantime, then commit."""
    services, topic_partition = context.services, _group_partition(context, request)
    confirmation = Confirmation(request.transactional_id, context.header.api_version, _CONFIRMATION)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    while (partition := services.replica_manager.partitions.get(topic_partition)) is not None:
        state = partition.log.producer_state
        guard = state.guard(*producer, NO_SEQUENCE)
        error_code = yield from confirmation.ask(services, producer, topic_partition)
        is_verified = state.is_verified(*producer, guard)
        state.forget_verification(producer.producer_id)
        if error_code:
            return (yield from _refuse(context, request, error_code))
        if is_verified:
            break
    committed = _commit(context, request)
    return (yield from committed) if isinstance(committed, Generator) else committed


def _refuse(
    context: "RequestContext", request: TxnOffsetCommitRequest, error_code: int
) -> Steps[TxnOffsetCommitResponse]:
    """The transaction can't have the offsets; partitions that do not exist have an error of their own."""
    errors: dict[TopicPartition, int] = {}
    for part in parts_of(request.topics):
        found, missing = split_by_existence(context.services.metadata.image, (part,), 0)
        errors.update(dict.fromkeys(found, error_code))
        errors.update(missing)
        yield
    return (yield from _build(_codes(context.header.api_version, errors, {})))


def _commit(context: "RequestContext", request: TxnOffsetCommitRequest) -> Answered | Steps[Answered]:
    if is_large(request.topics):
        return _commit_many(context, request)
    services = context.services
    offsets, errors = split_by_existence(services.metadata.image, request.topics, services.clock.now_ms())
    if not offsets:
        return _build_at_once(errors)
    call, producer = _call(request, offsets)
    version = context.header.api_version
    return respond(
        services.group_coordinator.commit_offsets_in_transaction(call, producer),
        lambda committed: _build_at_once(_codes(version, committed, errors)),
    )


def _commit_many(context: "RequestContext", request: TxnOffsetCommitRequest) -> Steps[Answered]:
    """Do what ``handle`` does, with places to pause; the metadata image is that of the beginning."""
    services, version = context.services, context.header.api_version
    image, now_ms = services.metadata.image, services.clock.now_ms()
    offsets: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, int] = {}
    for part in parts_of(request.topics):
        found, missing = split_by_existence(image, (part,), now_ms)
        offsets.update(found)
        errors.update(missing)
        yield
    if not offsets:
        return (yield from _build(errors))
    answer = yield from services.group_coordinator.commit_many_offsets(*_call(request, offsets))
    if answer.is_set:
        return (yield from _build(_codes(version, answer.value, errors)))
    return respond_in_turns(answer, lambda committed: _build(_codes(version, committed, errors)))


def _call(
    request: TxnOffsetCommitRequest, offsets: dict[TopicPartition, CommittedOffset]
) -> tuple[CommitCall, Producer]:
    fields = (request.group_id, request.member_id, request.generation_id, offsets, request.group_instance_id, True)
    return commit_call_of(fields), Producer(request.producer_id, request.producer_epoch, 0)


def _codes(
    version: int, committed: Mapping[TopicPartition, int], errors: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {topic_partition: _code(code, version) for topic_partition, code in {**committed, **errors}.items()}


def _code(error_code: int, version: int) -> int:
    is_loading = error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_loading and version < _FIRST_VERSION_OF_LOADING else error_code


def _build_at_once(errors: Mapping[TopicPartition, int]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=list(few_rows(errors.items(), _topic, _row).values()))


def _build(errors: Mapping[TopicPartition, int]) -> Steps[TxnOffsetCommitResponse]:
    return TxnOffsetCommitResponse(topics=(yield from rows_by_topic(errors, _topic, _row)))


def _topic(name: str) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(name, partitions=[])


def _row(topic: TxnOffsetCommitResponseTopic, index: int, error_code: int) -> None:
    topic.partitions.append(TxnOffsetCommitResponsePartition(index, error_code))
