"""IncrementalAlterConfigs v0-1: sets and deletes single overrides, adds to and removes from lists (KIP-339).

Done: topics, this broker, all brokers (an empty name), loggers' levels, validation and codes of 2.7.2; groups, with
those of 4.4.0; validate-only.
A resource that is named several times is altered once, as it was named last.
Not done: alteration policies.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, INVALID_CONFIG 40 (unknown topic key, contradicting values), INVALID_REQUEST 42
(as AlterConfigs, and: the same key twice, APPEND or SUBTRACT on a key that is no list; an unknown logger or level).
More than ``MOST_KEYS`` keys of one resource are refused (42), and overrides of more than ``MAX_STORED_BYTES``; 2.7.2
has no such bounds, but ZooKeeper has the second.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkapy.config.alteration import Change, changed_broker, changed_topic
from kafkapy.config.group_keys import changed_group
from kafkapy.errors import BrokerError
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.handlers.shared.broker_loggers import alter_loggers
from kafkapy.server.handlers.shared.config_resources import (
    all_refused,
    alter,
    check_broker_name,
    check_number_of_keys,
    check_types,
    error_text,
    last_of_each,
)
from kafkapy.turns import pause

Changed = Callable[[Mapping[str, str], Iterable[Change]], dict[str, str]]
"""Returns the overrides of a resource after changes."""
_CHANGED: Final[dict[int, Changed]] = {ResourceType.TOPIC: changed_topic, ResourceType.GROUP: changed_group}


async def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """See the card."""
    try:
        await check_types(request.resources)
    except BrokerError as error:
        refused = await all_refused(request.resources, error, AlterConfigsResourceResponse)
        return IncrementalAlterConfigsResponse(responses=refused)
    responses = []
    for resource in await last_of_each(request.resources):
        responses.append(await _alter(context, resource, request.validate_only))
        await pause()
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    context: RequestContext, resource: AlterConfigsResource, validate_only: bool
) -> AlterConfigsResourceResponse:
    try:
        await _apply(context.services, resource, validate_only)
    except BrokerError as error:
        context.log_refusal(f"the configuration of {resource.resource_name!r}", error)
        return _response(resource, error)
    return _response(resource, None)


async def _apply(services: Services, resource: AlterConfigsResource, validate_only: bool) -> None:
    kind, name = resource.resource_type, resource.resource_name
    check_number_of_keys(len(resource.configs))
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    if kind == ResourceType.BROKER_LOGGER:
        if name:
            check_broker_name(services, name)
        alter_loggers(changes, validate_only=validate_only)
        return
    changed = _CHANGED.get(kind, changed_broker)
    await alter(services, kind, name, lambda overrides: changed(overrides, changes), validate_only=validate_only)


def _response(resource: AlterConfigsResource, error: BrokerError | None) -> AlterConfigsResourceResponse:
    code, message = (0, None) if error is None else (error.error_code, error_text(error))
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
