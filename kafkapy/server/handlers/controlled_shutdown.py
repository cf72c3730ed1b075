"""ControlledShutdown: a broker that is about to stop has its leaderships moved to other brokers first.

Versions 0-3; only the controller serves it. The answer lists the partitions with several replicas that the broker still
leads; the broker repeats the request until there are none. Errors: STALE_CONTROLLER_EPOCH 11 (another broker is the
controller), STALE_BROKER_EPOCH 77, BROKER_NOT_AVAILABLE 8 or, as from 2.7.2 if the request has a broker epoch,
UNKNOWN_SERVER_ERROR -1 (the broker is not registered).
"""

from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import NotControllerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


async def handle(context: "RequestContext", request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    """Move the broker's leaderships and list the partitions that it still leads."""
    broker, epoch = request.broker_id, request.broker_epoch
    try:
        remaining = await context.services.controller.ask(
            f"the shutdown of broker {broker}", lambda active: active.elections.shut_down(broker, epoch)
        )
    except NotControllerError:
        return ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    except BrokerError as error:
        return ControlledShutdownResponse(error_code=error.error_code)
    return ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(partition.topic, partition.partition) for partition in remaining]
    )
