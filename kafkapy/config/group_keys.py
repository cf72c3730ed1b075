"""The keys that a group may override, and the broker keys that they override and that bound them (KIP-848).

Apache Kafka 4.4 has these and the keys of share and streams groups, which kafkapy does not serve: it refuses them as
keys that it does not know.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kafkapy.config.alteration import Change, Operation, check_changes
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.describe import Description, Descriptions, Synonym
from kafkapy.config.errors import InvalidAlterationError, InvalidConfigError
from kafkapy.config.keys import AtLeast, ConfigKey, ConfigType

DYNAMIC_GROUP: Final = 8
"""The source of a group's own override."""


class Values(Protocol):
    """The broker's configuration: typed values by key (``BrokerConfig``)."""

    def __getitem__(self, key: str, /) -> Any: ...


class GroupConfigKey(NamedTuple):
    """A key of a group, and the broker keys with its default, its lowest and its highest value."""

    key: ConfigKey
    broker_key: str
    lowest: str
    highest: str


SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


def _key(name: str, minimum: int) -> GroupConfigKey:
    protocol, _, rest = name.partition(".")
    bound = f"group.{protocol}.{{}}.{rest}"
    key = ConfigKey(name, ConfigType.INT, None, AtLeast(minimum))
    return GroupConfigKey(key, f"group.{name}", bound.format("min"), bound.format("max"))


GROUP_KEYS: Final[dict[str, GroupConfigKey]] = {
    name: _key(name, minimum)
    for name, minimum in {SESSION_TIMEOUT: 1, HEARTBEAT_INTERVAL: 1, ASSIGNMENT_INTERVAL: 0}.items()
}

GROUP_DOCUMENTATION: Final[dict[str, str]] = {
    SESSION_TIMEOUT: "How long a member of this consumer group stays in it after its last heartbeat, in milliseconds.",
    HEARTBEAT_INTERVAL: "How long a member of this consumer group waits between two heartbeats, in milliseconds.",
    ASSIGNMENT_INTERVAL: (
        "How long this consumer group keeps a target assignment at least when members join or leave, in milliseconds."
    ),
}


def group_value(config: Values, overrides: Mapping[str, str], name: str) -> int:
    """The value of a group's key in force: its override within the broker's bounds, else the broker's value."""
    wanted = GROUP_KEYS[name]
    if name not in overrides:
        value: int = config[wanted.broker_key]
        return value
    lowest, highest = config[wanted.lowest], config[wanted.highest]
    bounded: int = min(max(_parsed(overrides, name), lowest), highest)
    return bounded


def _parsed(overrides: Mapping[str, str], name: str) -> int:
    value = GROUP_KEYS[name].key.parse(overrides[name])
    assert isinstance(value, int)
    return value


def changed_group(overrides: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A group's overrides after IncrementalAlterConfigs."""
    listed = list(changes)
    check_changes(listed)
    result = dict(overrides)
    for name, operation, value in listed:
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            word = Operation(operation).name
            raise InvalidConfigError(f"Can't {word} to key {name} because its type is not LIST.")
        if operation not in (Operation.SET, Operation.DELETE):
            raise InvalidAlterationError(f"Unknown operation {operation} for config key: {name}")
        if operation == Operation.DELETE:
            result.pop(name, None)
        elif value is None:
            raise InvalidAlterationError(f"Null value not supported for : {name}")
        else:
            result[name] = value
    return result


def check_group(config: BrokerConfig, group_id: str, overrides: Mapping[str, str]) -> None:
    """Raise InvalidConfigError or InvalidAlterationError unless a group may have ``overrides``."""
    if not group_id:
        raise InvalidAlterationError("Default group resources are not allowed.")
    for name in overrides:
        if name not in GROUP_KEYS:
            raise InvalidConfigError(f"Unknown group config name: {name}")
    values = {name: _parsed(overrides, name) for name in overrides}
    for name, value in values.items():
        lowest, highest = config.integer(GROUP_KEYS[name].lowest), config.integer(GROUP_KEYS[name].highest)
        if not lowest <= value <= highest:
            raise InvalidConfigError(f"{name} must be in the range {lowest} to {highest} inclusive.")
    if group_value(config, overrides, SESSION_TIMEOUT) <= group_value(config, overrides, HEARTBEAT_INTERVAL):
        raise InvalidConfigError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


def describe_group(config: BrokerConfig, overrides: Mapping[str, str]) -> Descriptions:
    """The keys of a group with ``overrides`` on a broker with ``config``; keys that are not known are left out."""
    return Descriptions(_entry(config, overrides, name) for name in GROUP_KEYS)


def _entry(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Description:
    synonyms = [Synonym(*each) for each in config.settings(GROUP_KEYS[name].broker_key)]
    if name in overrides:
        synonyms.insert(0, Synonym(name, str(_parsed(overrides, name)), DYNAMIC_GROUP))
    return Description(
        name=name,
        value=synonyms[0].value,
        read_only=False,
        source=synonyms[0].source,
        sensitive=False,
        synonyms=tuple(synonyms),
        type=ConfigType.INT,
    )
