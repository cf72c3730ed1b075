"""InitProducerId v0-4.

Done: an idempotent producer (no transactional id) gets an id of this broker's block.
Not done: transactional ids; their coordinator does not exist here yet.
Errors: COORDINATOR_NOT_AVAILABLE 15, INVALID_REQUEST 42, KAFKA_STORAGE_ERROR 56.
"""

from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.server.context import RequestContext

_COORDINATOR_NOT_AVAILABLE: Final = 15
_INVALID_REQUEST: Final = 42
_NONE: Final = -1


async def _next_id(context: RequestContext) -> InitProducerIdResponse:
    try:
        producer_id = await context.services.producer_ids.next_producer_id()
    except BrokerError as error:
        return InitProducerIdResponse(error_code=error.error_code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def handle(context: RequestContext, request: InitProducerIdRequest) -> object:
    """See the card."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return InitProducerIdResponse(error_code=_INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is None:
        return _next_id(context)
    if not request.transactional_id:
        return InitProducerIdResponse(error_code=_INVALID_REQUEST, producer_epoch=-1)
    return InitProducerIdResponse(error_code=_COORDINATOR_NOT_AVAILABLE, producer_epoch=-1)
