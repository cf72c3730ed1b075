"""The resources of the three configuration APIs: a topic, a broker, all brokers; and how one of them is altered."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from kafkapy.cluster.errors import UnknownTopicOrPartitionError
from kafkapy.config.alteration import check_broker, check_topic
from kafkapy.config.errors import InvalidAlterationError
from kafkapy.server.context import Services

Derive = Callable[[Mapping[str, str]], dict[str, str]]
"""From the overrides of now to those that are asked for; raises a BrokerError that says why not."""


class ResourceType(IntEnum):
    """What has a configuration, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


_TYPES: Final = frozenset(ResourceType)


def check_types(resource_types: list[int]) -> None:
    """Raise InvalidAlterationError if any is unknown: as in Apache Kafka that fails the whole request."""
    for resource_type in resource_types:
        if resource_type not in _TYPES:
            raise InvalidAlterationError(f"There is no resource type {resource_type}")


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
