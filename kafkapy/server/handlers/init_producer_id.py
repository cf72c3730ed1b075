"""InitProducerId v0-5: assigns a producer id and epoch, and fences an earlier producer of the transactional id.

Done: an idempotent producer (no transactional id) gets an id of this broker's block; a transactional id has one of its
own, with a higher epoch each time; a producer that names its id and epoch keeps the id (v3, KIP-360). An open
transaction is aborted first; until then the answer is 51.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14 (also if the metadata store, which has the ids, does not answer),
COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, INVALID_REQUEST 42, INVALID_TRANSACTION_TIMEOUT 50,
CONCURRENT_TRANSACTIONS 51, KAFKA_STORAGE_ERROR 56, PRODUCER_FENCED 90 (below v4: INVALID_PRODUCER_EPOCH 47).
"""

from collections.abc import Awaitable
from typing import Final

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.transaction.transaction import InitializeCall, Initialized, ProducerIdAndEpoch
from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.older_versions import fencing_code
from kafkapy.server.handlers.shared.producer_ids import code_of, new_producer_id
from kafkapy.types import NO_EPOCH, NO_PRODUCER_ID

_FIRST_VERSION_OF_FENCED: Final = 4

Response = InitProducerIdResponse | Awaitable[InitProducerIdResponse]


def handle(context: RequestContext, request: InitProducerIdRequest) -> Response:
    """See the card."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is None:
        return _next_id(context)
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    call = InitializeCall(request.transactional_id, request.transaction_timeout_ms, expected)
    return _initialize(context, call, None) or _with_new_id(context, call)


def _initialize(context: RequestContext, call: InitializeCall, new_id: int | None) -> Response | None:
    version = context.header.api_version

    def build(result: Initialized) -> InitProducerIdResponse:
        error_code = fencing_code(result.error_code, version, _FIRST_VERSION_OF_FENCED)
        return InitProducerIdResponse(
            error_code=error_code, producer_id=result.producer_id, producer_epoch=result.epoch
        )

    answer = context.services.transaction_coordinator.initialize(call, new_id)
    return None if answer is None else respond(answer, build)


async def _with_new_id(context: RequestContext, call: InitializeCall) -> InitProducerIdResponse:
    try:
        new_id = await new_producer_id(context)
    except BrokerError as error:
        return _refused(error)
    response = _initialize(context, call, new_id)
    assert response is not None, "a new id was passed"
    return response if isinstance(response, InitProducerIdResponse) else await response


async def _next_id(context: RequestContext) -> InitProducerIdResponse:
    try:
        producer_id = await new_producer_id(context)
    except BrokerError as error:
        return _refused(error)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: BrokerError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code_of(error), producer_epoch=-1)
