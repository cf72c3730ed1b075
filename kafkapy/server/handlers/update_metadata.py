"""UpdateMetadata: the controller tells a broker who is alive and who leads what.

Versions 0-6; served inside the process only, until several brokers are.
Errors: 11 (an older controller), 77 (meant for an earlier registration of this broker).
"""

from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: UpdateMetadataRequest) -> Steps[UpdateMetadataResponse]:
    """Take the new picture over; a step is a partition."""
    services = context.services
    try:
        services.fence.check(request.controller_epoch, request.broker_epoch)
    except BrokerError as refused:
        return UpdateMetadataResponse(error_code=refused.error_code)
    yield from services.metadata.apply(request)
    return UpdateMetadataResponse()
