"""DescribeConfigs v0-3: the configuration of topics, of this broker, and of all brokers (an empty name); its loggers.

Done: values, sources and synonyms as 2.7.2 answers them, secrets as null, types (v3), ``is_default`` never set (v0).
Not done: documentation texts (null).
Errors: 3 (no such topic), 17 (topic name), 42 (another broker's id, loggers of none; a resource type that nobody knows
fails all resources of the request).
"""

from kafkapy.cluster.errors import UnknownTopicOrPartitionError
from kafkapy.cluster.topic_rules import check_name
from kafkapy.config.describe import Description, describe_broker, describe_cluster_default, describe_topic
from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkapy.server.broker_loggers import describe_loggers
from kafkapy.server.config_resources import ResourceType, check_broker_name, check_types
from kafkapy.server.context import RequestContext, Services


async def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """See the card."""
    try:
        check_types([resource.resource_type for resource in request.resources])
    except BrokerError as error:
        return DescribeConfigsResponse(results=[_failed(resource, error) for resource in request.resources])
    results = [
        await _result(context.services, resource, request.include_synonyms and context.header.api_version >= 1)
        for resource in request.resources
    ]
    return DescribeConfigsResponse(results=results)


def _failed(resource: DescribeConfigsResource, error: BrokerError) -> DescribeConfigsResult:
    return DescribeConfigsResult(error.error_code, str(error), resource.resource_type, resource.resource_name, [])


async def _result(
    services: Services, resource: DescribeConfigsResource, include_synonyms: bool
) -> DescribeConfigsResult:
    try:
        found = await _descriptions(services, resource)
    except BrokerError as error:
        return _failed(resource, error)
    wanted = set(resource.configuration_keys or ())
    configs = [_entry(each, include_synonyms) for each in found if not wanted or each.name in wanted]
    return DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, configs)


async def _descriptions(services: Services, resource: DescribeConfigsResource) -> list[Description]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        check_name(name)
        if name not in services.metadata.image.topics:
            raise UnknownTopicOrPartitionError("")
        return describe_topic(services.config, await services.config_admin.topic_overrides(name))
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_broker_name(services, name)
        return describe_loggers()
    if not name:
        return describe_cluster_default(services.config)
    check_broker_name(services, name)
    return describe_broker(services.config)


def _entry(description: Description, include_synonyms: bool) -> DescribeConfigsResourceResult:
    synonyms = description.synonyms if include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=description.name,
        value=description.value,
        read_only=description.read_only,
        config_source=description.source,
        is_sensitive=description.sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in synonyms],
        config_type=description.type,
        documentation=None,
    )
