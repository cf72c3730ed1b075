"""DescribeCluster v0-2: the live brokers, the controller and the cluster's id (KIP-700).

Done: brokers with an address on the client's listener; the operations that the client may do on the cluster. A broker
that is not live is not in the metadata, so none is listed as fenced.
Not done: endpoints of controllers, which a cluster without KRaft does not have.
Errors: MISMATCHED_ENDPOINT_TYPE 114 (controllers are wanted), UNSUPPORTED_ENDPOINT_TYPE 115.
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.authorized_operations import cluster_operations
from kafkapy.server.handlers.shared.endpoints import client_address
from kafkapy.types import NO_LEADER

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """See the card."""
    if request.endpoint_type == CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, kafka_texts.BROKER_ENDPOINT)
    if request.endpoint_type != BROKERS:
        text = kafka_texts.unsupported_endpoint_type(request.endpoint_type)
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    image = context.services.metadata.image
    brokers = []
    for broker in image.brokers.values():
        address = client_address(context, broker)
        if address is not None:
            brokers.append(DescribeClusterBroker(broker.id, *address, rack=broker.rack))
    is_known = any(broker.broker_id == image.controller_id for broker in brokers)
    operations = cluster_operations(context.rights(), asked=request.include_cluster_authorized_operations)
    return DescribeClusterResponse(
        cluster_id=image.cluster_id or "",
        controller_id=image.controller_id if is_known else NO_LEADER,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )


def _refused(error_code: int, text: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error_code, error_message=text, brokers=[])
