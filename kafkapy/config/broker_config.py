"""The configuration of one broker: ``server.properties``, and above it what changes while the broker runs.

Where kafkapy differs from Apache Kafka when nothing is configured (``KAFKAPY_DEFAULTS``): it listens on loopback
alone, keeps its data in the user's own data directory, and needs neither ZooKeeper nor, for its internal topics,
three brokers. Without ``zookeeper.connect`` the broker is alone on its embedded store, where the replication factors
of 3 that Apache Kafka starts with could never be met.
"""

import os
from collections.abc import Callable, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Final, NamedTuple, Self

from kafkapy.config.broker_keys import KNOWN_KEYS, broker_key, synonyms
from kafkapy.config.dynamic import DynamicLayers, layers
from kafkapy.config.keys import Value, format_value
from kafkapy.config.listeners import EndPoint, parse_listeners, parse_protocol_map
from kafkapy.config.rules import check_broker_values

DEFAULT_LISTENERS: Final = "PLAINTEXT://127.0.0.1:9092"
KAFKAPY_DEFAULTS: Final[dict[str, Value]] = {
    "listeners": DEFAULT_LISTENERS,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
"""kafkapy's own defaults on the embedded store; with ``zookeeper.connect`` set, Apache Kafka's hold."""

NO_LAYERS: Final = layers({}, {})
Listener = Callable[[frozenset[str]], None]


class Source(IntEnum):
    """Where a broker key's value comes from; the numbers are those of DescribeConfigs."""

    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Setting(NamedTuple):
    """What one of the places that can set a key says, as it was written there."""

    name: str
    text: str
    source: Source


def default_data_directory(environ: Mapping[str, str] = os.environ) -> str:
    """Where data goes unless ``log.dirs`` says so: ``$XDG_DATA_HOME/kafkapy`` or ``~/.local/share/kafkapy``."""
    base = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "~", ".local", "share")
    return os.path.join(os.path.expanduser(base), "kafkapy")


class BrokerConfig:
    """Typed values by key, ``config["log.segment.bytes"]``; a broker's overrides beat the cluster's, these the file."""

    def __init__(self, originals: Mapping[str, str], dynamic: DynamicLayers = NO_LAYERS) -> None:
        self.originals: Final = dict(originals)
        """Everything that was configured when the broker started, unknown keys too, as text."""
        self.unknown: Final = tuple(name for name in originals if name not in KNOWN_KEYS)
        """Names that no key has, for a warning (or, on the command line, for a refusal)."""
        self._static = {name: KNOWN_KEYS[name].parse(text) for name, text in originals.items() if name in KNOWN_KEYS}
        self.dynamic = dynamic
        """The dynamic overrides that are in force; ``update_dynamic`` changes them."""
        self._listeners: list[Listener] = []
        check_broker_values(self)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str] | None = None) -> Self:
        """A configuration from texts; raises InvalidConfigError naming key, value and what is allowed."""
        return cls(properties or {})

    def __getitem__(self, name: str) -> Value:
        dynamic = self.dynamic
        if name in dynamic.values:
            return dynamic.values[name]
        if name in self._static and name not in dynamic.hidden:
            return self._static[name]
        return self.default(name)

    def default(self, name: str) -> Value:
        """The value of ``name`` when nobody sets it; KeyError for a name that no key has."""
        if name in KAFKAPY_DEFAULTS and self.embedded_store:
            return KAFKAPY_DEFAULTS[name]
        key = broker_key(name)
        if key is None:
            raise KeyError(name)
        return key.default

    def integer(self, name: str) -> int:
        """The value of a key of whole numbers that has one."""
        value = self[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """The value of a boolean key."""
        return self[name] is True

    def text(self, name: str) -> str:
        """The value of a key of text, empty if it has none."""
        value = self[name]
        return value if isinstance(value, str) else ""

    def settings(self, name: str) -> list[Setting]:
        """Every place that sets ``name`` or a synonym of it, the winning one first (KIP-226).

        As in Apache Kafka what stands before the first setting of ``name`` itself is left out.
        """
        names = synonyms(name)
        places = (
            (Source.DYNAMIC_BROKER, self.dynamic.broker_texts),
            (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic.cluster_texts),
            (Source.STATIC_BROKER, self.originals),
            (Source.DEFAULT, {synonym: text for synonym in names if (text := self._default_text(synonym)) is not None}),
        )
        found = [Setting(each, layer[each], source) for source, layer in places for each in names if each in layer]
        return list(dropwhile(lambda setting: setting.name != name, found))

    def _default_text(self, name: str) -> str | None:
        return format_value(self.default(name)) if name in KNOWN_KEYS else None

    def update_dynamic(
        self, *, cluster_default: Mapping[str, str] | None = None, per_broker: Mapping[str, str] | None = None
    ) -> None:
        """Replace a whole layer of dynamic overrides, then tell the listeners which keys have another value.

        Keys that can't change at that level are passed over, as Apache Kafka does with what it finds in ZooKeeper;
        raises InvalidConfigError, and changes nothing, when the values don't go together.
        """
        old = self.dynamic
        self.dynamic = self.with_dynamic(cluster_default=cluster_default, per_broker=per_broker).dynamic
        names = old.changed_names(self.dynamic)
        if names:
            for listener in tuple(self._listeners):
                listener(names)

    def with_dynamic(
        self, *, cluster_default: Mapping[str, str] | None = None, per_broker: Mapping[str, str] | None = None
    ) -> "BrokerConfig":
        """Return what ``update_dynamic`` would lead to, as a configuration of its own."""
        now = self.dynamic
        cluster = now.cluster_texts if cluster_default is None else cluster_default
        broker = now.broker_texts if per_broker is None else per_broker
        return BrokerConfig(self.originals, layers(cluster, broker))

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` with the names of keys whose dynamic value changed, after the change."""
        self._listeners.append(listener)

    @property
    def embedded_store(self) -> bool:
        """Whether the broker keeps the cluster's state itself: ``zookeeper.connect`` is not set."""
        return not self._static.get("zookeeper.connect")

    @property
    def broker_id(self) -> int:
        """``broker.id``; -1 means that one is to be generated."""
        return self.integer("broker.id")

    def assign_broker_id(self, broker_id: int) -> None:
        """Take the id that was generated, or found in the data directory; it may lie above the reserved ones."""
        self._static["broker.id"] = broker_id

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """``log.dirs``, else ``log.dir``, else the user's data directory."""
        text = self._static.get("log.dirs")
        if text is None:
            text = self._static.get("log.dir") or default_data_directory()
        return tuple(filter(None, (directory.strip() for directory in str(text).split(","))))

    @property
    def listeners(self) -> tuple[EndPoint, ...]:
        """The addresses to bind: ``listeners``, else ``host.name`` and ``port``, else loopback on 9092."""
        text = self.text("listeners") if "listeners" in self._static or "listeners" in self.dynamic.values else ""
        if not text:
            text = f"PLAINTEXT://{self.text('host.name') or '127.0.0.1'}:{self.integer('port')}"
        return parse_listeners("listeners", text, self.listener_protocols)

    @property
    def advertised_listeners(self) -> tuple[EndPoint, ...]:
        """The configured addresses for clients; empty when only ``listeners`` says where the broker is.

        ``advertised.host.name`` and ``advertised.port`` stand in for ``advertised.listeners``, and what is missing of
        the two comes from ``host.name`` and ``port``.
        """
        text = self.text("advertised.listeners")
        host, port = self["advertised.host.name"], self["advertised.port"]
        if self["advertised.listeners"] is None and (host is not None or port is not None):
            host, port = (self.text("host.name") if host is None else host), (self["port"] if port is None else port)
            text = f"PLAINTEXT://{host}:{port}"
        return parse_listeners("advertised.listeners", text, self.listener_protocols)

    @property
    def listener_protocols(self) -> dict[str, str]:
        """``listener.security.protocol.map``: listener name → security protocol."""
        return parse_protocol_map(self.text("listener.security.protocol.map"))

    @property
    def log_roll_ms(self) -> int:
        """``log.roll.ms``, else ``log.roll.hours``, in milliseconds."""
        return self._first_ms(("log.roll.ms", 1), ("log.roll.hours", 3_600_000))

    @property
    def log_roll_jitter_ms(self) -> int:
        """``log.roll.jitter.ms``, else ``log.roll.jitter.hours``, in milliseconds."""
        return self._first_ms(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000))

    @property
    def log_flush_interval_ms(self) -> int:
        """``log.flush.interval.ms``, else ``log.flush.scheduler.interval.ms``."""
        return self._first_ms(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))

    @property
    def log_retention_ms(self) -> int:
        """``log.retention.ms``, else ``.minutes``, else ``.hours``, in milliseconds; -1 keeps data for ever."""
        factors = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
        return max(self._first_ms(*factors), -1)

    def _first_ms(self, *choices: tuple[str, int]) -> int:
        for name, factor in choices:
            value = self[name]
            if isinstance(value, int):
                return value * factor
        raise AssertionError("the last choice has a default")
