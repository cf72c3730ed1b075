"""EndTxn v0-2: commit or abort the transaction.

Answered when the decision is in the log of all in-sync replicas. Markers of partitions that this broker leads alone
are written right after, before another request is read; those of more than some hundred partitions in steps. A
repeated request is answered with 0.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, INVALID_REQUEST 42,
INVALID_TXN_STATE 48, INVALID_PRODUCER_ID_MAPPING 49, CONCURRENT_TRANSACTIONS 51, PRODUCER_FENCED 90 (below v2:
INVALID_PRODUCER_EPOCH 47).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.transaction.transaction import EndCall, ProducerIdAndEpoch
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.server.handlers.shared.older_versions import fencing_code

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_FIRST_VERSION_OF_FENCED: Final = 2


def handle(context: "RequestContext", request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """See the card."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    call = EndCall(request.transactional_id, producer, request.committed)
    version = context.header.api_version

    def build(error_code: int) -> EndTxnResponse:
        return EndTxnResponse(error_code=fencing_code(error_code, version, _FIRST_VERSION_OF_FENCED))

    return respond(context.services.transaction_coordinator.end(call), build)
