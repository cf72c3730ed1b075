"""The entries of DescribeConfigs for a broker and a topic, field by field as in Apache Kafka 2.7.2.

Its peculiarities are kept: an unknown key is shown as a secret of unknown type, and synonyms begin with the key itself.
(KIP-133, KIP-226, KIP-569)

A description is made once and shared until the configuration changes; nothing may change it. A broker's takes 4 ms to
make, and one request may ask for many thousands.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from kafkapy.config.broker_config import BrokerConfig, Setting, Source
from kafkapy.config.broker_keys import BROKER_KEYS, broker_key
from kafkapy.config.keys import Dynamic, format_value
from kafkapy.config.log_config import FIELD_OF, LogConfig, parse_topic_overrides
from kafkapy.config.own_keys import OWN_TOPIC_KEYS
from kafkapy.config.topic_keys import BROKER_KEY_OF, TOPIC_KEYS

DYNAMIC_TOPIC: Final = 1
"""The source of a topic's own override; the others are ``Source``."""
UNKNOWN_TYPE: Final = 0
MOST_SHARED_TOPICS: Final = 256
"""Descriptions of topics, one for each set of overrides, that are kept for a broker."""
_TOPIC_KEYS: Final = TOPIC_KEYS | OWN_TOPIC_KEYS


class Synonym(NamedTuple):
    """A setting of a key, in force or replaced by those before it; ``value`` is None for secrets."""

    name: str
    value: str | None
    source: int


class Description(NamedTuple):
    """One key as DescribeConfigs shows it."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: int


class Descriptions(list[Description]):
    """The keys of one resource. It is shared: callers must not change it."""

    def __init__(self, each: Iterable[Description] = ()) -> None:
        super().__init__(each)
        self.derived: dict[Any, Any] = {}
        """The encoded forms of the description in a response, kept as long as the description."""


class _CachedDescriptions:
    """The descriptions of one state of a broker's configuration."""

    def __init__(self, config: BrokerConfig) -> None:
        self.dynamic = config.dynamic
        self.broker_id = config.broker_id
        self.broker: Descriptions | None = None
        self.cluster_default: Descriptions | None = None
        self.plain_topic: dict[str, Description] | None = None
        self.topics: dict[tuple[tuple[str, str], ...], Descriptions] = {}

    def is_of(self, config: BrokerConfig) -> bool:
        """Whether the configuration is still the same: each change of it makes new dynamic layers."""
        return self.dynamic is config.dynamic and self.broker_id == config.broker_id


_cached_by_config: "WeakKeyDictionary[BrokerConfig, _CachedDescriptions]" = WeakKeyDictionary()


def _cached(config: BrokerConfig) -> _CachedDescriptions:
    found = _cached_by_config.get(config)
    if found is None or not found.is_of(config):
        found = _cached_by_config[config] = _CachedDescriptions(config)
    return found


def describe_broker(config: BrokerConfig) -> Descriptions:
    """Every key of a broker: the known ones in the table's order, then others that are set on it."""
    shared = _cached(config)
    if shared.broker is None:
        extra = {**config.originals, **config.dynamic.cluster_texts, **config.dynamic.broker_texts}
        names = [*BROKER_KEYS, *(name for name in extra if name not in BROKER_KEYS)]
        shared.broker = Descriptions(_broker_entry(config, name) for name in names)
    return shared.broker


def _broker_entry(config: BrokerConfig, name: str) -> Description:
    settings = config.settings(name)
    key = broker_key(name)
    value = None if key is None else format_value(config[name])
    return _entry(name, value, settings, settings[0].source if settings else Source.DEFAULT)


def describe_cluster_default(config: BrokerConfig) -> Descriptions:
    """The keys that are set for all brokers at once, and only those."""
    shared = _cached(config)
    if shared.cluster_default is None:
        source = Source.DYNAMIC_DEFAULT_BROKER
        shared.cluster_default = Descriptions(
            _entry(name, text, [Setting(name, text, source)], source)
            for name, text in config.dynamic.cluster_texts.items()
        )
    return shared.cluster_default


def _entry(name: str, value: str | None, settings: Iterable[Setting], source: Source) -> Description:
    key = broker_key(name)
    sensitive = key is None or key.sensitive
    return Description(
        name=name,
        value=None if sensitive else value,
        read_only=name not in BROKER_KEYS or BROKER_KEYS[name].dynamic is Dynamic.READ_ONLY,
        source=source,
        sensitive=sensitive,
        synonyms=tuple(Synonym(each, None if sensitive else text, level) for each, text, level in settings),
        type=UNKNOWN_TYPE if key is None else key.type,
    )


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> Descriptions:
    """The 26 keys of a topic with ``overrides`` on a broker with ``config``, then kafkapy's own keys that are set.

    Stored keys that topics don't have are shown without their value, as in Apache Kafka. Topics with equal overrides
    share one description. Raises InvalidConfigError for a value that its key does not allow.
    """
    shared = _cached(config)
    key = tuple(overrides.items())
    found = shared.topics.get(key)
    if found is None:
        if shared.plain_topic is None:
            shared.plain_topic = _plain_topic(config)
        if len(shared.topics) >= MOST_SHARED_TOPICS:
            shared.topics.clear()
        found = shared.topics[key] = _describe_topic(config, overrides, shared.plain_topic)
    return found


def _describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], plain: Mapping[str, Description]
) -> Descriptions:
    values = parse_topic_overrides({name: text for name, text in overrides.items() if name in FIELD_OF})
    own = [name for name in OWN_TOPIC_KEYS if name in overrides or name in config.originals]
    known = [
        _overridden(plain[name], format_value(values[name])) if name in values else plain[name]
        for name in (*TOPIC_KEYS, *own)
    ]
    return Descriptions(known + [_foreign_entry(name) for name in overrides if name not in FIELD_OF])


def _foreign_entry(name: str) -> Description:
    return Description(
        name=name,
        value=None,
        read_only=False,
        source=DYNAMIC_TOPIC,
        sensitive=True,
        synonyms=(Synonym(name, None, DYNAMIC_TOPIC),),
        type=UNKNOWN_TYPE,
    )


def _plain_topic(config: BrokerConfig) -> dict[str, Description]:
    """Each key of a topic without overrides."""
    log_config = LogConfig.resolve(config)
    return {name: _topic_entry(config, log_config, name) for name in _TOPIC_KEYS}


def _topic_entry(config: BrokerConfig, log_config: LogConfig, name: str) -> Description:
    behind = config.settings(BROKER_KEY_OF[name]) if name in BROKER_KEY_OF else []
    return Description(
        name=name,
        value=format_value(getattr(log_config, FIELD_OF[name])),
        read_only=False,
        source=behind[0].source if behind else Source.DEFAULT,
        sensitive=False,
        synonyms=tuple(Synonym(*setting) for setting in behind),
        type=_TOPIC_KEYS[name].type,
    )


def _overridden(plain: Description, value: str | None) -> Description:
    synonyms = (Synonym(plain.name, value, DYNAMIC_TOPIC), *plain.synonyms)
    return plain._replace(value=value, source=DYNAMIC_TOPIC, synonyms=synonyms)
