"""The resources of the three configuration APIs, topics, groups and brokers, and how one of them is altered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kafkapy import kafka_texts
from kafkapy.config.alteration import check_broker, check_topic
from kafkapy.config.errors import InvalidAlterationError
from kafkapy.config.group_keys import check_group
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import UnknownTopicOrPartitionError
from kafkapy.metadata.znodes import ConfigZNode
from kafkapy.protocol.constants import ResourceType
from kafkapy.server.dispatch.context import Services
from kafkapy.text import shortened
from kafkapy.turns import pause

Derive = Callable[[Mapping[str, str]], dict[str, str]]
"""Returns the requested overrides, given the current ones; raises a BrokerError if the request is not valid."""


class Resource(Protocol):
    """A resource as the requests of the three APIs name it."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)
T = TypeVar("T")


_TYPES: Final = frozenset(ResourceType)
MOST_KEYS: Final = 1_000
"""Keys of one resource that a request may alter: several times as many as a broker with many listeners has."""
MAX_STORED_BYTES: Final = 1_000_000
"""Of one resource's overrides in the store: ZooKeeper takes about as much (``jute.maxbuffer``), the embedded store any.

Brokers keep keys that they don't know, and read all keys again after each change.
"""
MOST_ERROR_CHARACTERS: Final = 1_000
"""Of an error message, which may quote a name of the maximal length of a string and must fit into a string itself."""


def error_text(error: BrokerError) -> str:
    """Return the message that a response has for ``error``."""
    return shortened(str(error), MOST_ERROR_CHARACTERS)


def check_number_of_keys(count: int) -> None:
    """Raise InvalidAlterationError if a request alters too many keys of one resource."""
    if count > MOST_KEYS:
        raise InvalidAlterationError(f"{count} keys of one resource are altered, more than {MOST_KEYS}")


def check_size(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise InvalidAlterationError if a change leaves more overrides than the store shall keep.

    Overrides that are larger already, as another release or program may have written them, can still be reduced.
    """
    characters = _characters(after)  # the limit does not use fewer bytes: most configurations above it are not encoded
    if characters <= MAX_STORED_BYTES and _stored_bytes(after) <= MAX_STORED_BYTES:
        return
    if characters < _characters(before) and _stored_bytes(after) < _stored_bytes(before):
        return
    raise InvalidAlterationError(
        f"The configuration would take more than {MAX_STORED_BYTES} bytes, which is the limit for one resource"
    )


def _stored_bytes(overrides: Mapping[str, str]) -> int:
    return len(ConfigZNode.encode(overrides))


def _characters(overrides: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in overrides.items())


async def check_types(resources: Sequence[Resource]) -> None:
    """Raise InvalidAlterationError if a type is unknown, which fails the whole request, as in Apache Kafka."""
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
    """Replace a resource's overrides by the result of ``derive``; raises a BrokerError with the response's code."""
    if resource_type == ResourceType.TOPIC:
        await _alter_topic(services, name, derive, validate_only)
    elif resource_type == ResourceType.GROUP:
        await _alter_group(services, name, derive, validate_only)
    elif resource_type == ResourceType.BROKER:
        await _alter_broker(services, name, derive, validate_only)
    else:
        raise InvalidAlterationError(
            "AlterConfigs is for topics, groups and brokers: use IncrementalAlterConfigs for a logger's level"
        )


async def _alter_topic(services: Services, topic: str, derive: Derive, validate_only: bool) -> None:
    before = await services.config_admin.topic_overrides(topic)
    overrides = derive(before)
    if topic not in services.metadata.image.topics:  # Kafka checks this after contradictions in the request
        raise UnknownTopicOrPartitionError(kafka_texts.topic_missing(topic))
    check_topic(topic, overrides)
    check_size(before, overrides)
    if not validate_only:
        await services.config_admin.set_topic_overrides(topic, overrides)


async def _alter_group(services: Services, group_id: str, derive: Derive, validate_only: bool) -> None:
    before = await services.config_admin.group_overrides(group_id) if group_id else {}
    overrides = derive(before)
    check_group(services.config, group_id, overrides)
    if not validate_only:
        await services.config_admin.set_group_overrides(group_id, overrides)


async def _alter_broker(services: Services, name: str, derive: Derive, validate_only: bool) -> None:
    if name:
        check_broker_name(services, name)
    broker_id = services.config.broker_id if name else None
    before = await services.config_admin.broker_overrides(broker_id)
    overrides = derive(before)
    check_size(before, overrides)
    check_broker(services.config, name, overrides)
    if not validate_only:
        await services.config_admin.set_broker_overrides(broker_id, overrides)
