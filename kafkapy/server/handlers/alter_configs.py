"""AlterConfigs v0-2: all overrides of a topic, a group, this broker, or all brokers (no name), replaced at once.

Done: validation and codes of 2.7.2, dynamic keys only for brokers, validate-only.
A resource that is named several times is altered once, as it was named last (2.7.2 never answers such a request).
Not done: alteration policies.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, INVALID_CONFIG 40 (unknown topic key, contradicting values), INVALID_REQUEST 42 (a
value, a key that can't change, another broker's id, a broker logger, a null value; an unknown resource type fails all
resources of the request).
More than ``MOST_KEYS`` keys of one resource are refused (42), and overrides of more than ``MAX_STORED_BYTES``; 2.7.2
has no such bounds, but ZooKeeper has the second.
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
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.config_resources import (
    all_refused,
    alter,
    check_number_of_keys,
    check_types,
    error_text,
    last_of_each,
)
from kafkapy.turns import pause


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """See the card."""
    try:
        await check_types(request.resources)
    except BrokerError as error:
        return AlterConfigsResponse(responses=await all_refused(request.resources, error, AlterConfigsResourceResponse))
    responses = []
    for resource in await last_of_each(request.resources):
        responses.append(await _alter(context, resource, request.validate_only))
        await pause()
    return AlterConfigsResponse(responses=responses)


async def _alter(
    context: RequestContext, resource: AlterConfigsResource, validate_only: bool
) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    try:
        check_number_of_keys(len(resource.configs))
        derive = partial(_replace, [(config.name, config.value) for config in resource.configs])
        await alter(context.services, kind, name, derive, validate_only=validate_only)
    except BrokerError as error:
        context.log_refusal(f"the configuration of {resource.resource_name!r}", error)
        return _response(resource, error)
    return _response(resource, None)


def _replace(pairs: list[tuple[str, str | None]], _now: object) -> dict[str, str]:
    return replaced(pairs)


def _response(resource: AlterConfigsResource, error: BrokerError | None) -> AlterConfigsResourceResponse:
    code, message = (0, None) if error is None else (error.error_code, error_text(error))
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
