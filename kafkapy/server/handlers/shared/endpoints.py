"""The address of a broker that a client can use, for the answers of Metadata and DescribeCluster."""

from typing import TYPE_CHECKING

from kafkapy.metadata.image import BrokerInfo

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


def client_address(context: "RequestContext", broker: BrokerInfo) -> tuple[str, int] | None:
    """Host and port of a broker on the client's listener; None if it has no such listener."""
    endpoint = broker.endpoints.get(context.session.listener)
    if endpoint is None:
        return None
    is_own = broker.id == context.services.config.broker_id
    return context.own_endpoint() if is_own else (endpoint.host, endpoint.port)
