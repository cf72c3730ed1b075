"""TxnOffsetCommit v0-3: offsets of a group that count when the producer's transaction is committed.

The coordinator of the group keeps them until the transaction's marker comes. From version 3 on a member and its
generation are checked, if they are named (KIP-447). Nobody asks whether AddOffsetsToTxn came before, as in 2.7.
Errors, by partition: 3 (no such partition), 12, 14 (below v2: 15), 15, 16, 22, 24, 25, 28, 47, 82.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.group.results import CommitCall, Producer, by_topic
from kafkapy.coordinator.runtime import respond
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.server.commits import split_by_existence
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

_FIRST_VERSION_OF_LOADING: Final = 2
"""Older producers give up at COORDINATOR_LOAD_IN_PROGRESS."""


def handle(
    context: "RequestContext", request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """See the card."""
    services = context.services
    offsets, errors = split_by_existence(services.metadata.image, request.topics, services.clock.now_ms())
    if not offsets:
        return _build(errors)
    call = CommitCall(request.group_id, request.member_id, request.generation_id, offsets, request.group_instance_id)
    producer = Producer(request.producer_id, request.producer_epoch, 0)
    version = context.header.api_version

    def build(committed: Mapping[TopicPartition, int]) -> TxnOffsetCommitResponse:
        return _build({tp: _code(code, version) for tp, code in {**committed, **errors}.items()})

    return respond(services.group_coordinator.commit_offsets_in_transaction(call, producer), build)


def _code(error_code: int, version: int) -> int:
    is_loading = error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_loading and version < _FIRST_VERSION_OF_LOADING else error_code


def _build(errors: Mapping[TopicPartition, int]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(name, [TxnOffsetCommitResponsePartition(*each) for each in partitions])
            for name, partitions in by_topic(errors).items()
        ]
    )
