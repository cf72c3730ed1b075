"""The overrides after AlterConfigs and IncrementalAlterConfigs, and the refusals of both, as in Apache Kafka 2.7.2.

A value that its key does not allow is INVALID_REQUEST (42) here, an unknown topic key INVALID_CONFIG (40). Where
2.7.2 fails with UNKNOWN_SERVER_ERROR (a null value, APPEND to a key that it does not know), kafkapy answers with one of
these two codes and an explanation. (KIP-133, KIP-226, KIP-339)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy import kafka_texts
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_keys import (
    BROKER_KEYS,
    LISTENER_LIMITS,
    LISTENER_PREFIX,
    PER_LISTENER_SECURITY,
    base_name,
    broker_key,
)
from kafkapy.config.errors import InvalidAlterationError, InvalidConfigError, InvalidValueError
from kafkapy.config.java_classes import check_classes
from kafkapy.config.keys import ConfigKey, ConfigType, Dynamic, format_value
from kafkapy.config.log_config import validate_topic_overrides
from kafkapy.config.topic_keys import topic_key


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs; the numbers are those of the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


LONGEST_LIST: Final = 0x7FFF
"""Bytes of a list that APPEND may reach: the most that one SET can give and DescribeConfigs can answer."""

_OPERATIONS: Final = frozenset(Operation)


class Change(NamedTuple):
    """One key's change."""

    name: str
    operation: int
    value: str | None


def replaced(changes: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The overrides after AlterConfigs, which replaces them all; the last of several equal keys counts."""
    overrides = {}
    for name, value in changes:
        if value is None:
            raise InvalidAlterationError(f"{name} is given no value")
        overrides[name] = value
    return overrides


def changed_topic(overrides: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A topic's overrides after IncrementalAlterConfigs."""
    return _changed(overrides, list(changes), topic_key)


def changed_broker(overrides: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A broker's, or all brokers', overrides after IncrementalAlterConfigs."""
    return _changed(overrides, list(changes), broker_key)


def check_changes(changes: list[Change]) -> None:
    """Raise InvalidAlterationError if a key is changed more than once."""
    twice = [name for name, count in Counter(change.name for change in changes).items() if count > 1]
    if twice:
        raise InvalidAlterationError(f"Keys given more than once: {','.join(twice)}")


def _changed(
    overrides: Mapping[str, str], changes: list[Change], key_of: Callable[[str], ConfigKey | None]
) -> dict[str, str]:
    check_changes(changes)
    result = dict(overrides)
    for change in changes:
        _apply(result, change, key_of(change.name))
    return result


def _apply(overrides: dict[str, str], change: Change, key: ConfigKey | None) -> None:
    name, number, value = change
    if number not in _OPERATIONS:
        raise InvalidAlterationError(f"Unknown operation {number} for config key: {name}")
    operation = Operation(number)
    if operation is Operation.DELETE:
        overrides.pop(name, None)
    elif value is None:
        raise InvalidAlterationError(f"{operation.name} {name} is given no value")
    elif operation is Operation.SET:
        overrides[name] = value
    else:
        changed = _list_after(overrides.get(name), operation, value, name, key)
        if operation is Operation.APPEND and len(changed.encode()) > LONGEST_LIST:
            raise InvalidAlterationError(f"{name} would have more than {LONGEST_LIST} bytes")
        overrides[name] = changed


def _list_after(current: str | None, operation: Operation, value: str, name: str, key: ConfigKey | None) -> str:
    if key is None:
        raise InvalidConfigError(f"Unknown config name: {name}")
    if key.type is not ConfigType.LIST:
        raise InvalidAlterationError(f"{name} is no list: {operation.name} can't be done to it")
    items = _items(format_value(key.default) if current is None else current)
    if operation is Operation.APPEND:
        return ",".join(items + _items(value))
    removed = Counter(_items(value))
    kept = []
    for item in items:  # each item to remove takes the first one that equals it
        if removed[item]:
            removed[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def _items(text: str | None) -> list[str]:
    """Split as Java's ``split(",")`` does: empty items at the end are dropped, but an empty text is one item."""
    items = (text or "").split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items if items != [""] or not text else []


def check_topic(topic: str, overrides: Mapping[str, str]) -> None:
    """Raise InvalidConfigError or InvalidAlterationError unless ``topic`` may have ``overrides``."""
    try:
        validate_topic_overrides(overrides)
    except InvalidValueError as error:
        raise _refused("TOPIC", topic, str(error)) from error


def check_broker(config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> None:
    """Raise InvalidAlterationError unless a running broker takes ``overrides``.

    ``name`` is the name of the resource: the broker's id, or empty for all brokers.
    """
    try:
        for rule in _RULES:
            rule(config, name, overrides)
    except InvalidConfigError as error:
        raise _refused("BROKER", name, str(error)) from error


def _refused(kind: str, name: str, reason: str) -> InvalidAlterationError:
    return InvalidAlterationError(kafka_texts.invalid_alteration(kind, name, reason))


def _only_dynamic_keys(_config: BrokerConfig, _name: str, overrides: Mapping[str, str]) -> None:
    fixed = [name for name in overrides if name in BROKER_KEYS and BROKER_KEYS[name].dynamic is Dynamic.READ_ONLY]
    if fixed:
        raise InvalidConfigError(kafka_texts.not_dynamic(fixed))


def _security_keys_name_a_listener(_config: BrokerConfig, _name: str, overrides: Mapping[str, str]) -> None:
    bare = [name for name in overrides if name in PER_LISTENER_SECURITY]
    if bare:
        raise InvalidConfigError(kafka_texts.only_per_listener(bare))


def _values_are_allowed(_config: BrokerConfig, _name: str, overrides: Mapping[str, str]) -> None:
    for name, text in overrides.items():
        key = broker_key(name)
        if key is not None:
            key.parse(text)


def _classes_are_known(_config: BrokerConfig, _name: str, overrides: Mapping[str, str]) -> None:
    check_classes(overrides)


def _keys_of_one_broker_have_its_id(_config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> None:
    own = [each for each in overrides if not name and _belongs_to_one_broker(each)]
    if own:
        raise InvalidConfigError(kafka_texts.only_per_broker(own))


def _belongs_to_one_broker(name: str) -> bool:
    if name.startswith(LISTENER_PREFIX):
        return base_name(name) not in LISTENER_LIMITS
    return name in BROKER_KEYS and BROKER_KEYS[name].dynamic is Dynamic.PER_BROKER


def _passwords_can_be_encrypted(config: BrokerConfig, _name: str, overrides: Mapping[str, str]) -> None:
    secret = [name for name in overrides if (key := broker_key(name)) and key.sensitive]
    if secret and not config["password.encoder.secret"]:
        raise InvalidConfigError("Passwords need password.encoder.secret, which is not set")


_THREADS: Final = (
    *("num.network.threads", "num.io.threads", "num.replica.fetchers", "background.threads", "log.cleaner.threads"),
    "num.recovery.threads.per.data.dir",
)


def _thread_counts_at_most_double(config: BrokerConfig, _name: str, overrides: Mapping[str, str]) -> None:
    for name in _THREADS:
        if name not in overrides:
            continue
        now, wanted = config.integer(name), BROKER_KEYS[name].parse(overrides[name])
        assert isinstance(wanted, int)
        if wanted != now and wanted < 1:
            raise InvalidConfigError(f"{name}={wanted} must be at least 1")
        if not now // 2 <= wanted <= now * 2:
            raise InvalidConfigError(f"{name}={wanted} must be between half and double of the current value {now}")


def _values_fit_together(config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> None:
    if name:
        config.with_dynamic(per_broker=overrides)
    else:
        config.with_dynamic(cluster_default=overrides)


_LISTENER_CHANGES: Final = LISTENER_LIMITS.union(
    name for name, key in BROKER_KEYS.items() if key.dynamic is Dynamic.PER_BROKER
)
"""The keys with whose changes 2.7.2 looks at the settings of its open listeners."""


def _listeners_can_change(config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> None:
    """What a listener has at its start stays; another address or protocol needs a listener of another name.

    As in 2.7.2, a change of a listener's settings alone is taken, and so is the return to those of the file: both hold
    from the next start on.
    """
    if not name:  # the keys belong to one broker
        return
    new = config.with_dynamic(per_broker=overrides)
    before, after = _texts(config), _texts(new)
    if all(before.get(key) == after.get(key) for key in _LISTENER_CHANGES):
        return
    protocols = {endpoint.listener_name: endpoint.security_protocol for endpoint in new.listeners}
    for endpoint in config.listeners:
        listener = endpoint.listener_name
        if listener not in protocols:
            continue
        allowed = (_fixed_keys(before, listener), _fixed_keys(config.originals, listener))
        if _fixed_keys(after, listener) not in allowed:
            raise InvalidConfigError(kafka_texts.listener_keys_fixed(listener))
        if protocols[listener] != endpoint.security_protocol:
            raise InvalidConfigError(kafka_texts.listener_protocol_fixed(listener))


def _texts(config: BrokerConfig) -> dict[str, str]:
    return {**config.originals, **config.dynamic.cluster_texts, **config.dynamic.broker_texts}


def _fixed_keys(texts: Mapping[str, str], listener: str) -> dict[str, str]:
    """The settings of a listener that are read when it is opened."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    return {
        name: text
        for name, text in texts.items()
        if name.startswith(prefix) and base_name(name) not in PER_LISTENER_SECURITY
    }


_RULES: Final = (
    _only_dynamic_keys,
    _security_keys_name_a_listener,
    _values_are_allowed,
    _classes_are_known,
    _keys_of_one_broker_have_its_id,
    _passwords_can_be_encrypted,
    _thread_counts_at_most_double,
    _values_fit_together,
    _listeners_can_change,
)
