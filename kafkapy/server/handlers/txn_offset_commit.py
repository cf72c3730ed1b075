"""TxnOffsetCommit v0-3: offsets of a group that count when the producer's transaction is committed.

The coordinator of the group keeps them until the transaction's marker comes. From version 3 on a member and its
generation are checked, if they are named (KIP-447). Nobody asks whether AddOffsetsToTxn came before, as in 2.7.
Errors, by partition: 3 (no such partition), 12, 14 (below v2: 15), 15, 16, 22, 24, 25, 28, 47, 82.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.results import CommitCall, Producer
from kafkapy.coordinator.runtime import respond_in_turns
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.server.commits import COMMITS_IN_A_STEP, parts_of, split_by_existence
from kafkapy.server.partition_rows import rows_by_topic
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

_FIRST_VERSION_OF_LOADING: Final = 2
"""Older producers give up at COORDINATOR_LOAD_IN_PROGRESS."""


def handle(
    context: "RequestContext", request: TxnOffsetCommitRequest
) -> Steps[TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]]:
    """See the card."""
    services = context.services
    image, now_ms = services.metadata.image, services.clock.now_ms()
    offsets: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, int] = {}
    for part in parts_of(request.topics):
        if offsets or errors:
            yield
        found, missing = split_by_existence(image, (part,), now_ms)
        offsets.update(found)
        errors.update(missing)
    if not offsets:
        return (yield from _build(errors))
    call = CommitCall(request.group_id, request.member_id, request.generation_id, offsets, request.group_instance_id)
    producer = Producer(request.producer_id, request.producer_epoch, 0)
    version = context.header.api_version

    def build(committed: Mapping[TopicPartition, int]) -> Steps[TxnOffsetCommitResponse]:
        return _build({tp: _code(code, version) for tp, code in {**committed, **errors}.items()})

    if len(offsets) >= COMMITS_IN_A_STEP:
        answer = yield from services.group_coordinator.commit_many_offsets(call, producer)
    else:
        answer = services.group_coordinator.commit_offsets_in_transaction(call, producer)
    return (yield from build(answer.value)) if answer.is_set else respond_in_turns(answer, build)


def _code(error_code: int, version: int) -> int:
    is_loading = error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_loading and version < _FIRST_VERSION_OF_LOADING else error_code


def _build(errors: Mapping[TopicPartition, int]) -> Steps[TxnOffsetCommitResponse]:
    topics = yield from rows_by_topic(
        errors,
        lambda name: TxnOffsetCommitResponseTopic(name, []),
        lambda topic, *answer: topic.partitions.append(TxnOffsetCommitResponsePartition(*answer)),
    )
    return TxnOffsetCommitResponse(topics=topics)
