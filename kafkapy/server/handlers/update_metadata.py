"""UpdateMetadata v0-6, from the controller: in the process, or over the listener of a broker that serves others.

Done: the brokers that are alive, the leader of each partition.
Errors: STALE_CONTROLLER_EPOCH 11 (an older controller), STALE_BROKER_EPOCH 77 (meant for an earlier registration).
"""

from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: UpdateMetadataRequest) -> Steps[UpdateMetadataResponse]:
    """Apply the new metadata; a step is a partition."""
    services = context.services
    try:
        services.fence.check(request.controller_epoch, request.broker_epoch)
    except BrokerError as refused:
        return UpdateMetadataResponse(error_code=refused.error_code)
    yield from services.metadata.apply(request)
    return UpdateMetadataResponse()
