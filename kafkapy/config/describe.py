"""What DescribeConfigs tells of a broker's and a topic's configuration, field by field as Apache Kafka 2.7.2 does.

Its quirks are kept: a key that nobody knows is shown as a secret of unknown type, and synonyms begin with the key
itself. (KIP-133, KIP-226, KIP-569)
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.config.broker_config import BrokerConfig, Setting, Source
from kafkapy.config.broker_keys import BROKER_KEYS, broker_key
from kafkapy.config.keys import Dynamic, format_value
from kafkapy.config.log_config import FIELD_OF, LogConfig
from kafkapy.config.own_keys import OWN_TOPIC_KEYS
from kafkapy.config.topic_keys import BROKER_KEY_OF, TOPIC_KEYS

DYNAMIC_TOPIC: Final = 1
"""The source of a topic's own override; the others are ``Source``."""
UNKNOWN_TYPE: Final = 0


class Synonym(NamedTuple):
    """A setting that has, or would have, a say in a key's value; ``value`` is None for secrets."""

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


def describe_broker(config: BrokerConfig) -> list[Description]:
    """Every key of a broker: the known ones in the table's order, then others that are set on it."""
    extra = {**config.originals, **config.dynamic.cluster_texts, **config.dynamic.broker_texts}
    names = [*BROKER_KEYS, *(name for name in extra if name not in BROKER_KEYS)]
    return [_broker_entry(config, name) for name in names]


def _broker_entry(config: BrokerConfig, name: str) -> Description:
    settings = config.settings(name)
    key = broker_key(name)
    value = None if key is None else format_value(config[name])
    return _entry(name, value, settings, settings[0].source if settings else Source.DEFAULT)


def describe_cluster_default(config: BrokerConfig) -> list[Description]:
    """The keys that are set for all brokers at once, and only those."""
    source = Source.DYNAMIC_DEFAULT_BROKER
    return [
        _entry(name, text, [Setting(name, text, source)], source) for name, text in config.dynamic.cluster_texts.items()
    ]


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


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Description]:
    """The 26 keys of a topic with ``overrides`` on a broker with ``config``; of our own those that somebody has set.

    Keys that are stored although topics don't have them show without their value, as in Apache Kafka.
    """
    log_config = LogConfig.resolve(config, overrides)
    own = [name for name in OWN_TOPIC_KEYS if name in overrides or name in config.originals]
    known = [_topic_entry(config, log_config, name, name in overrides) for name in (*TOPIC_KEYS, *own)]
    return known + [_foreign_entry(name) for name in overrides if name not in FIELD_OF]


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


def _topic_entry(config: BrokerConfig, log_config: LogConfig, name: str, overridden: bool) -> Description:
    key = {**TOPIC_KEYS, **OWN_TOPIC_KEYS}[name]
    value = format_value(getattr(log_config, FIELD_OF[name]))
    behind = config.settings(BROKER_KEY_OF[name]) if name in BROKER_KEY_OF else []
    synonyms = [Synonym(*setting) for setting in behind]
    if overridden:
        synonyms.insert(0, Synonym(name, value, DYNAMIC_TOPIC))
    return Description(
        name=name,
        value=value,
        read_only=False,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        sensitive=False,
        synonyms=tuple(synonyms),
        type=key.type,
    )
