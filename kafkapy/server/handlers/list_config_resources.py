"""ListConfigResources v0-1: the resources that can be configured (KIP-714, KIP-1142).

Done: topics, brokers, the loggers of brokers, and the groups that have a configuration; version 0 lists client metrics
alone, of which there are none.
Errors: UNSUPPORTED_VERSION 35 (a type that can't be listed), CLUSTER_AUTHORIZATION_FAILED 31.
"""

from collections.abc import Collection
from typing import Final

from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_client_metrics_resources import (
    ClientMetricsResource,
    ListClientMetricsResourcesRequest,
    ListClientMetricsResourcesResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, pieces

CLIENT_METRICS: Final = 16
FIRST_VERSION_WITH_TYPES: Final = 1
LISTED: Final = (
    ResourceType.GROUP,
    CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)
"""The types that can be listed, in the order of the response."""


def handle(
    context: RequestContext, request: ListClientMetricsResourcesRequest
) -> Steps[ListClientMetricsResourcesResponse]:
    """See the card."""
    has_types = context.header.api_version >= FIRST_VERSION_WITH_TYPES
    wanted = frozenset(request.resource_types or LISTED) if has_types else frozenset({CLIENT_METRICS})
    if not wanted.issubset(LISTED):
        return ListClientMetricsResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, client_metrics_resources=[])
    response = ListClientMetricsResourcesResponse(client_metrics_resources=[])
    for kind in LISTED:
        for piece in pieces(list(_names(context, kind) if kind in wanted else ())):
            response.client_metrics_resources += [ClientMetricsResource(name, kind) for name in piece]
            yield
    return response


def _names(context: RequestContext, kind: int) -> Collection[str]:
    image = context.services.metadata.image
    if kind == ResourceType.TOPIC:
        return image.topics.keys()
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    if kind == ResourceType.GROUP:
        return context.services.config_admin.groups()
    return ()
