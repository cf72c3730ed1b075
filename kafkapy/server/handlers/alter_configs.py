"""AlterConfigs v0-1: all overrides of a topic, of this broker, or of all brokers (an empty name), replaced at once.

Done: validation and codes of 2.7.2, dynamic keys only for brokers, validate-only.
Not done: passwords (they would have to be stored encrypted), alteration policies.
Errors: 3 (no such topic), 40 (unknown topic key, contradicting values), 42 (a value, a key that can't change, another
broker's id, a broker logger, a null value; a resource type that nobody knows fails all resources of the request).
"""

from functools import partial

from kafkapy.config.alteration import replaced
from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kafkapy.server.config_resources import alter, check_types
from kafkapy.server.context import RequestContext


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """See the card."""
    try:
        check_types([resource.resource_type for resource in request.resources])
    except BrokerError as error:
        return AlterConfigsResponse(responses=[_response(resource, error) for resource in request.resources])
    responses = [await _alter(context, each, request.validate_only) for each in request.resources]
    return AlterConfigsResponse(responses=responses)


async def _alter(
    context: RequestContext, resource: AlterConfigsResource, validate_only: bool
) -> AlterConfigsResourceResponse:
    pairs = [(config.name, config.value) for config in resource.configs]
    derive = partial(_replace, pairs)
    try:
        await alter(
            context.services, resource.resource_type, resource.resource_name, derive, validate_only=validate_only
        )
    except BrokerError as error:
        context.log_refusal(f"the configuration of {resource.resource_name!r}", error)
        return _response(resource, error)
    return _response(resource, None)


def _replace(pairs: list[tuple[str, str | None]], _now: object) -> dict[str, str]:
    return replaced(pairs)


def _response(resource: AlterConfigsResource, error: BrokerError | None) -> AlterConfigsResourceResponse:
    code, message = (0, None) if error is None else (error.error_code, str(error))
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
