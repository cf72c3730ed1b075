"""EndTxn v0-5: commit or abort the transaction.

Answered when the decision is in the log of all in-sync replicas. Markers of partitions that this broker leads alone
are written right after, before another request is read; those of more than some hundred partitions in steps. A
repeated request is answered with 0. A v5 request is of transaction version 2 (KIP-890): the response has the epoch of
the producer's next transaction, with another producer id where the epochs are used up.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, INVALID_REQUEST 42,
INVALID_TXN_STATE 48, INVALID_PRODUCER_ID_MAPPING 49, CONCURRENT_TRANSACTIONS 51, KAFKA_STORAGE_ERROR 56 (the metadata
store gives no producer id), PRODUCER_FENCED 90 (below v2: INVALID_PRODUCER_EPOCH 47).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, EndCall, Ended, ProducerIdAndEpoch
from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.server.handlers.shared.older_versions import fencing_code
from kafkapy.server.handlers.shared.producer_ids import code_of, new_producer_id

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_FIRST_VERSION_OF_FENCED: Final = 2
_FIRST_VERSION_WITH_EPOCH: Final = 5

Response = EndTxnResponse | Awaitable[EndTxnResponse]


def handle(context: "RequestContext", request: EndTxnRequest) -> Response:
    """See the card."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    has_epoch = context.header.api_version >= _FIRST_VERSION_WITH_EPOCH
    client_version = EPOCH_PER_TRANSACTION if has_epoch else 0
    call = EndCall(request.transactional_id, producer, request.committed, client_version)
    return _end(context, call, None) or _with_new_id(context, call)


def _end(context: "RequestContext", call: EndCall, new_id: int | None) -> Response | None:
    version = context.header.api_version

    def build(ended: Ended) -> EndTxnResponse:
        error_code = fencing_code(ended.error_code, version, _FIRST_VERSION_OF_FENCED)
        return EndTxnResponse(0, error_code, *ended.producer)

    answer = context.services.transaction_coordinator.end(call, new_id)
    return None if answer is None else respond(answer, build)


async def _with_new_id(context: "RequestContext", call: EndCall) -> EndTxnResponse:
    try:
        new_id = await new_producer_id(context)
    except BrokerError as error:
        return EndTxnResponse(error_code=code_of(error))
    response = _end(context, call, new_id)
    assert response is not None, "a new id was passed"
    return response if isinstance(response, EndTxnResponse) else await response
