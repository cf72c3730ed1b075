"""The overrides that change while a broker runs: one layer for all brokers, above it one for this broker alone."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.config.broker_keys import broker_key, synonyms
from kafkapy.config.keys import Dynamic, Value

_CLUSTER_LEVEL: Final = (Dynamic.CLUSTER_WIDE,)
_BROKER_LEVEL: Final = (Dynamic.CLUSTER_WIDE, Dynamic.PER_BROKER)


class DynamicLayers(NamedTuple):
    """Both layers as texts, and what they come to."""

    cluster_texts: Mapping[str, str]
    broker_texts: Mapping[str, str]
    values: Mapping[str, Value]
    hidden: frozenset[str]
    """Static keys out of force: a dynamic ``log.retention.ms`` also replaces a static ``log.retention.hours``."""

    def changed_names(self, other: "DynamicLayers") -> frozenset[str]:
        """The keys that have another value in ``other``."""
        mine, others = self.values, other.values
        return frozenset(name for name in mine.keys() | others.keys() if mine.get(name, self) != others.get(name, self))


def layers(cluster_texts: Mapping[str, str], broker_texts: Mapping[str, str]) -> DynamicLayers:
    """Both layers without the keys that can't change at their level; raises InvalidConfigError on a bad value."""
    cluster, broker = _allowed(cluster_texts, _CLUSTER_LEVEL), _allowed(broker_texts, _BROKER_LEVEL)
    values = {name: key.parse(text) for name, text in {**cluster, **broker}.items() if (key := broker_key(name))}
    return DynamicLayers(cluster, broker, values, frozenset(each for name in values for each in synonyms(name)))


def _allowed(texts: Mapping[str, str], modes: tuple[Dynamic, ...]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if (key := broker_key(name)) is None or key.dynamic in modes}
