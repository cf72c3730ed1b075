"""DescribeTransactions v0: the state of transactional ids that this broker coordinates (KIP-664).

Done: state, time-out, start, producer and partitions of each id; topics that the client may not describe are left out.
A request that names ids again and again is refused with the end of its connection if the response would have more than
``MOST_PARTITIONS``.
Errors, by transactional id: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16,
INVALID_REQUEST 42 (an empty id), TRANSACTIONAL_ID_AUTHORIZATION_FAILED 53, TRANSACTIONAL_ID_NOT_FOUND 105.
"""

from typing import Final

from kafkapy.coordinator.transaction.states import STATE_NAMES
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition

MOST_PARTITIONS: Final = 1_000_000
"""Partitions in one response; each has up to 4 bytes and its topic's name once."""


def handle(context: RequestContext, request: DescribeTransactionsRequest) -> Steps[DescribeTransactionsResponse]:
    """Describe each transactional id once, also one that is named several times."""
    known: dict[str, TransactionState] = {}
    response = DescribeTransactionsResponse(transaction_states=[])
    count = 0
    for transactional_id in request.transactional_ids:
        row = known.get(transactional_id)
        if row is None:
            row = known[transactional_id] = yield from _describe(context, transactional_id)
        response.transaction_states.append(row)
        count += sum(len(topic.partitions) for topic in row.topics)
        if count > MOST_PARTITIONS:
            raise RefusedError(f"the response of DescribeTransactions has more than {MOST_PARTITIONS} partitions")
        yield
    return response


def _describe(context: RequestContext, transactional_id: str) -> Steps[TransactionState]:
    rights = context.rights()
    if rights is not None and not rights.may(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
    data = context.services.transaction_coordinator.describe(transactional_id)
    if isinstance(data, int):
        return _refused(data, transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=STATE_NAMES[data.state],
        transaction_timeout_ms=data.timeout_ms,
        transaction_start_time_ms=data.start_ms,
        producer_id=data.producer_id,
        producer_epoch=data.producer_epoch,
        topics=(yield from _topics(context, data.partitions)),
    )


def _topics(context: RequestContext, partitions: tuple[TopicPartition, ...]) -> Steps[list[TopicData]]:
    rights = context.rights()
    found: dict[str, TopicData] = {}
    for piece in pieces(partitions):
        for topic, partition in piece:
            found.setdefault(topic, TopicData(topic, [])).partitions.append(partition)
        yield
    if rights is None:
        return list(found.values())
    visible = []
    for name, row in found.items():
        if rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
            visible.append(row)
        yield
    return visible


def _refused(error_code: int, transactional_id: str) -> TransactionState:
    return TransactionState(error_code=error_code, transactional_id=transactional_id, topics=[])
