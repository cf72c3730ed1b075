"""The resources of the three configuration APIs: a topic, a broker, all brokers; and how one of them is altered."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeVar

from kafkapy.config.alteration import check_broker, check_topic
from kafkapy.config.errors import InvalidAlterationError
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import UnknownTopicOrPartitionError
from kafkapy.server.context import Services
from kafkapy.text import shortened
from kafkapy.turns import pause

Derive = Callable[[Mapping[str, str]], dict[str, str]]
"""From the overrides of now to those that are asked for; raises a BrokerError that says why not."""


class ResourceType(IntEnum):
    """What has a configuration, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class Resource(Protocol):
    """A resource as the requests of the three APIs name it."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)
T = TypeVar("T")


_TYPES: Final = frozenset(ResourceType)
MOST_KEYS: Final = 1_000
"""Keys of one resource that a request may alter: several times as many as a broker with many listeners has."""
MOST_ERROR_CHARACTERS: Final = 1_000
"""Of an error message: it may hold a name as long as a string can be, and would not fit into one itself."""


def error_text(error: BrokerError) -> str:
    """Return the message that a response has for ``error``."""
    return shortened(str(error), MOST_ERROR_CHARACTERS)


def check_number_of_keys(count: int) -> None:
    """Raise InvalidAlterationError if a request alters too many keys of one resource."""
    if count > MOST_KEYS:
        raise InvalidAlterationError(f"{count} keys of one resource are altered, more than {MOST_KEYS}")


async def check_types(resources: Sequence[Resource]) -> None:
    """Raise InvalidAlterationError if a type is unknown: as in Apache Kafka that fails the whole request."""
    for resource in resources:
        if resource.resource_type not in _TYPES:
            raise InvalidAlterationError(f"There is no resource type {resource.resource_type}")
        await pause()


async def all_refused(
    resources: Sequence[Resource], error: BrokerError, response: Callable[[int, str, int, str], T]
) -> list[T]:
    """Return an error response for each resource: error code, message, resource type, resource name."""
    code, message = error.error_code, error_text(error)
    refused = []
    for resource in resources:
        refused.append(response(code, message, resource.resource_type, resource.resource_name))
        await pause()
    return refused


async def last_of_each(resources: Sequence[R]) -> list[R]:
    """Return each resource once, as it was named last, in the order in which they were named first."""
    last: dict[tuple[int, str], R] = {}
    for resource in resources:
        last[resource.resource_type, resource.resource_name] = resource
        await pause()
    return list(last.values())


def check_broker_name(services: Services, name: str) -> None:
    """Raise InvalidAlterationError unless ``name`` is this broker's id."""
    own = services.config.broker_id
    try:
        asked = int(name)
    except ValueError:
        raise InvalidAlterationError(f"A broker is named by its number, not by {name}") from None
    if asked != own:
        raise InvalidAlterationError(f"This is broker {own}, not {name}")


async def alter(services: Services, resource_type: int, name: str, derive: Derive, *, validate_only: bool) -> None:
    """Replace a resource's overrides by what ``derive`` makes of them; raises the BrokerError to answer."""
    if resource_type == ResourceType.TOPIC:
        await _alter_topic(services, name, derive, validate_only)
    elif resource_type == ResourceType.BROKER:
        await _alter_broker(services, name, derive, validate_only)
    else:
        raise InvalidAlterationError(
            "AlterConfigs is for topics and brokers: a logger's level is altered incrementally"
        )


async def _alter_topic(services: Services, topic: str, derive: Derive, validate_only: bool) -> None:
    overrides = derive(await services.config_admin.topic_overrides(topic))
    if topic not in services.metadata.image.topics:  # Kafka looks for it after what contradicts itself
        raise UnknownTopicOrPartitionError(f"There is no topic '{topic}'.")
    check_topic(topic, overrides)
    if not validate_only:
        await services.config_admin.set_topic_overrides(topic, overrides)


async def _alter_broker(services: Services, name: str, derive: Derive, validate_only: bool) -> None:
    if name:
        check_broker_name(services, name)
    broker_id = services.config.broker_id if name else None
    overrides = derive(await services.config_admin.broker_overrides(broker_id))
    check_broker(services.config, name, overrides)
    if not validate_only:
        await services.config_admin.set_broker_overrides(broker_id, overrides)
