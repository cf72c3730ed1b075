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
from kafkapy.config.consumer_group_keys import CLASSIC, REBALANCE_PROTOCOLS
from kafkapy.config.errors import InvalidConfigError, invalid_value
from kafkapy.config.java_classes import check_classes
from kafkapy.config.keys import Dynamic, Value, format_of, format_value, is_at_least
from kafkapy.config.listeners import EndPoint, parse_counts, parse_listeners, parse_protocol_map
from kafkapy.config.topic_keys import COMPRESSION_TYPES

# The overrides that change while a broker runs: one layer for all brokers, above it one for this broker alone.


_CLUSTER_LEVEL: Final = (Dynamic.CLUSTER_WIDE,)
_BROKER_LEVEL: Final = (Dynamic.CLUSTER_WIDE, Dynamic.PER_BROKER)


class DynamicLayers(NamedTuple):
    """Both layers as texts, and the values that result from them."""

    cluster_texts: Mapping[str, str]
    broker_texts: Mapping[str, str]
    values: Mapping[str, Value]
    hidden: frozenset[str]
    """Static keys that dynamic ones replace: ``log.retention.ms`` also replaces a static ``log.retention.hours``."""

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


# Rules about the values of several broker keys together.
#
# These are the checks of Apache Kafka 2.7's start that concern more than one key. Checks that kafkapy does not need are
# left out: with 0 ``log.cleaner.threads`` there is no cleaner, and the listeners for other brokers and for the
# controller are not used yet.


def check_broker_values(config: "BrokerConfig") -> None:
    """Raise InvalidConfigError on the first rule that ``config`` breaks."""
    for rule in _RULES:
        rule(config)


def _broker_id_is_in_its_range(config: "BrokerConfig") -> None:
    broker_id, generated = config.integer("broker.id"), config.flag("broker.id.generation.enable")
    lowest = -1 if generated else 0
    if broker_id < lowest:
        raise invalid_value("broker.id", broker_id, f"must be at least {lowest}")
    if generated and broker_id > config.integer("reserved.broker.max.id"):
        raise invalid_value("broker.id", broker_id, "must not be above reserved.broker.max.id, where ids are generated")


def _there_is_a_log_directory(config: "BrokerConfig") -> None:
    if not config.log_dirs:
        raise invalid_value("log.dirs", config["log.dirs"], "must name at least one directory")


def _log_times_are_possible(config: "BrokerConfig") -> None:
    if config.log_roll_ms < 1:
        raise invalid_value("log.roll.ms", config.log_roll_ms, "must be at least 1")
    if config.log_roll_jitter_ms < 0:
        raise invalid_value("log.roll.jitter.ms", config.log_roll_jitter_ms, "must be at least 0")
    if config.log_retention_ms == 0:
        raise invalid_value("log.retention.ms", 0, "must be -1 (no limit) or at least 1")


def _compression_is_known(config: "BrokerConfig") -> None:
    problem = COMPRESSION_TYPES.problem(config["compression.type"])
    if problem is not None:
        raise invalid_value("compression.type", config["compression.type"], problem)


def _offsets_codec_is_known_to_all_brokers(config: "BrokerConfig") -> None:
    codec, protocol = config.integer("offsets.topic.compression.codec"), config.text("inter.broker.protocol.version")
    if not 0 <= codec <= _ZSTD:
        raise invalid_value("offsets.topic.compression.codec", codec, f"must be between 0 and {_ZSTD}")
    if codec == _ZSTD and format_of(protocol) < format_of(_FIRST_RELEASE_WITH_ZSTD):
        # Kafka, too, checks only the message format, though its message names the release 2.1.
        raise invalid_value("offsets.topic.compression.codec", codec, f"{protocol}'s message format has no zstd")


def _the_cleaner_has_memory(config: "BrokerConfig") -> None:
    threads, size = config.integer("log.cleaner.threads"), config.integer("log.cleaner.dedupe.buffer.size")
    if threads > 0 and size // threads <= 1024 * 1024:
        raise invalid_value("log.cleaner.dedupe.buffer.size", size, "must be more than 1 MiB per cleaner thread")


def _replica_fetches_wait_less_than_their_limits(config: "BrokerConfig") -> None:
    wait = config.integer("replica.fetch.wait.max.ms")
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait > config.integer(name):
            raise invalid_value("replica.fetch.wait.max.ms", wait, f"must not be above {name}")


def _offset_commits_can_be_acknowledged(config: "BrokerConfig") -> None:
    acks = config.integer("offsets.commit.required.acks")
    if not -1 <= acks <= config.integer("offsets.topic.replication.factor"):
        allowed = "must be between -1 and offsets.topic.replication.factor"
        raise invalid_value("offsets.commit.required.acks", acks, allowed)


def _brokers_exchange_the_message_format(config: "BrokerConfig") -> None:
    named, protocol = str(config["log.message.format.version"]), str(config["inter.broker.protocol.version"])
    if format_of(named) > format_of(protocol):
        raise invalid_value(
            "log.message.format.version", named, f"is above what inter.broker.protocol.version {protocol} exchanges"
        )


def _a_request_fits_the_queue(config: "BrokerConfig") -> None:
    queued = config.integer("queued.max.request.bytes")
    if 0 < queued < config.integer("socket.request.max.bytes"):
        raise invalid_value("queued.max.request.bytes", queued, "must not be below socket.request.max.bytes")


def _connections_are_possible(config: "BrokerConfig") -> None:
    overrides = parse_counts("max.connections.per.ip.overrides", config.text("max.connections.per.ip.overrides"))
    if config.integer("max.connections.per.ip") == 0 and not overrides:
        raise invalid_value("max.connections.per.ip", 0, "is possible with max.connections.per.ip.overrides alone")


def _refusal_delay_is_below_idle_time(config: "BrokerConfig") -> None:
    idle, delay = (config.integer(name) for name in ("connections.max.idle.ms", _REFUSAL_DELAY))
    if idle >= 0 and delay >= idle:
        raise invalid_value(_REFUSAL_DELAY, delay, f"must be below connections.max.idle.ms, {idle}")


def _listeners_can_be_reached(config: "BrokerConfig") -> None:
    bound = {endpoint.listener_name for endpoint in config.listeners}
    if not bound:
        raise invalid_value("listeners", config["listeners"], "must name at least one listener")
    for endpoint in config.advertised_listeners:
        if endpoint.host == "0.0.0.0":  # noqa: S104  compared, not bound
            raise invalid_value("advertised.listeners", endpoint, "clients can't connect to 0.0.0.0")
        if endpoint.listener_name not in bound:
            raise InvalidConfigError(f"advertised.listeners names {endpoint.listener_name}, which listeners lacks")
    reachable = bound & {each.listener_name for each in config.advertised_listeners} or bound
    for key in ("inter.broker.listener.name", "control.plane.listener.name"):
        name = config.text(key).upper()
        if name and name not in reachable:
            raise invalid_value(key, name, "must be a listener that listeners and advertised.listeners name")
    if config["control.plane.listener.name"] and config.controller_listener == config.inter_broker_listener:
        name = config.controller_listener
        raise invalid_value("control.plane.listener.name", name, "must be another listener than that for brokers")


_ZSTD: Final = 4
_FIRST_RELEASE_WITH_ZSTD: Final = "2.1-IV0"
_REFUSAL_DELAY: Final = "connection.failed.authentication.delay.ms"


def _intervals_of_consumer_groups_are_possible(config: "BrokerConfig") -> None:
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        key, lowest, highest = (f"group.consumer.{bound}{name}" for bound in ("", "min.", "max."))
        for larger, smaller in ((highest, lowest), (key, lowest)):
            if config.integer(larger) < config.integer(smaller):
                raise InvalidConfigError(f"{larger} must be greater than or equal to {smaller}")
        if config.integer(key) > config.integer(highest):
            raise InvalidConfigError(f"{key} must be less than or equal to {highest}")
    heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    if config.integer(heartbeat) >= config.integer(session):
        raise InvalidConfigError(f"{heartbeat} must be less than {session}")


def _classic_groups_are_served(config: "BrokerConfig") -> None:
    protocols = config[REBALANCE_PROTOCOLS]
    if not isinstance(protocols, tuple) or CLASSIC not in protocols:
        raise InvalidConfigError("Disabling the 'classic' protocol is not supported.")


_RULES: Final = (
    _broker_id_is_in_its_range,
    _there_is_a_log_directory,
    _log_times_are_possible,
    _compression_is_known,
    _the_cleaner_has_memory,
    _replica_fetches_wait_less_than_their_limits,
    _offset_commits_can_be_acknowledged,
    _brokers_exchange_the_message_format,
    _offsets_codec_is_known_to_all_brokers,
    _a_request_fits_the_queue,
    _connections_are_possible,
    _refusal_delay_is_below_idle_time,
    _listeners_can_be_reached,
    _intervals_of_consumer_groups_are_possible,
    _classic_groups_are_served,
)


DEFAULT_LISTENERS: Final = "PLAINTEXT://127.0.0.1:9092"
KAFKAPY_DEFAULTS: Final[dict[str, Value]] = {
    "listeners": DEFAULT_LISTENERS,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
"""kafkapy's own defaults on the embedded store; with ``zookeeper.connect`` set, those of Apache Kafka are used."""

SUPER_USERS: Final = "super.users"
ALLOW_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_KEYS: Final = frozenset({SUPER_USERS, ALLOW_IF_NO_ACL})
"""Keys that no table has, as in Apache Kafka: only the authorizer reads them, from ``BrokerConfig.originals``."""

NO_LAYERS: Final = layers({}, {})
Listener = Callable[[frozenset[str]], None]


class Source(IntEnum):
    """Where a broker key's value comes from; the numbers are those of DescribeConfigs."""

    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Setting(NamedTuple):
    """The setting of a key in one of the sources, as text."""

    name: str
    text: str
    source: Source


def default_data_directory(environ: Mapping[str, str] = os.environ) -> str:
    """The data directory without ``log.dirs``: ``$XDG_DATA_HOME/kafkapy`` or ``~/.local/share/kafkapy``."""
    base = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "~", ".local", "share")
    return os.path.join(os.path.expanduser(base), "kafkapy")


class BrokerConfig:
    """Typed values by key: ``config["log.segment.bytes"]``.

    The overrides of the broker have precedence over those of the cluster, and these over the file.
    """

    def __init__(self, originals: Mapping[str, str], dynamic: DynamicLayers = NO_LAYERS) -> None:
        self.originals: Final = dict(originals)
        """Everything that was configured when the broker started, unknown keys too, as text."""
        self.unknown: Final = tuple(
            name for name in originals if broker_key(name) is None and name not in AUTHORIZER_KEYS
        )
        """Names of unknown keys, for a warning (or, on the command line, for a refusal)."""
        self._static = {name: KNOWN_KEYS[name].parse(text) for name, text in originals.items() if name in KNOWN_KEYS}
        self.dynamic = dynamic
        """The dynamic overrides that are in force; ``update_dynamic`` changes them."""
        self._listeners: list[Listener] = []
        self._found: dict[str, Value] = {}
        """Values that were looked up since the last change."""
        self._endpoints: dict[str, tuple[EndPoint, ...]] = {}
        """Addresses that were parsed since the last change, by their key."""
        check_broker_values(self)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str] | None = None) -> Self:
        """A configuration from texts; raises InvalidConfigError naming key, value and the allowed values."""
        return cls(properties or {})

    def __getitem__(self, name: str) -> Value:
        found = self._found
        if name in found:
            return found[name]
        value = self._look_up(name)
        if name in KNOWN_KEYS:  # clients may ask for a key of any listener: there is no end of such names
            found[name] = value
        return value

    def _look_up(self, name: str) -> Value:
        dynamic = self.dynamic
        if name in dynamic.values:
            return dynamic.values[name]
        if name in self._static and name not in dynamic.hidden:
            return self._static[name]
        return self.default(name)

    def default(self, name: str) -> Value:
        """The value of ``name`` without any setting; raises KeyError for an unknown key."""
        if name in KAFKAPY_DEFAULTS and self.embedded_store:
            return KAFKAPY_DEFAULTS[name]
        key = broker_key(name)
        if key is None:
            raise KeyError(name)
        return key.default

    def integer(self, name: str) -> int:
        """The value of an integer key; it must not be None."""
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
        """Every setting of ``name`` or a synonym of it, the one in force first (KIP-226).

        As in Apache Kafka, settings before the first one of ``name`` itself are left out.
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

        They are told of none if the layer was written again as it was: files that it names may have changed.
        Keys that can't change at that level are ignored, as Apache Kafka ignores them in ZooKeeper; raises
        InvalidConfigError, and changes nothing, if the values contradict each other.
        """
        old = self.dynamic
        self.dynamic = self.with_dynamic(cluster_default=cluster_default, per_broker=per_broker).dynamic
        self._found.clear()
        self._endpoints.clear()
        names = old.changed_names(self.dynamic)
        for listener in tuple(self._listeners):
            listener(names)

    def with_dynamic(
        self, *, cluster_default: Mapping[str, str] | None = None, per_broker: Mapping[str, str] | None = None
    ) -> "BrokerConfig":
        """Return another configuration, with the values that ``update_dynamic`` would result in."""
        now = self.dynamic
        cluster = now.cluster_texts if cluster_default is None else cluster_default
        broker = now.broker_texts if per_broker is None else per_broker
        return BrokerConfig(self.originals, layers(cluster, broker))

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` with the names of keys whose dynamic value changed, maybe none, after the change."""
        self._listeners.append(listener)

    @property
    def embedded_store(self) -> bool:
        """Whether the broker keeps the cluster's state itself: ``zookeeper.connect`` is not set."""
        return not self._static.get("zookeeper.connect")

    @property
    def has_topic_ids(self) -> bool:
        """Whether topics get ids (KIP-516): on the embedded store, and with an inter-broker protocol from 2.8 on.

        Apache Kafka's controller gives ids from 2.8-IV0 on, and sends them to brokers from 2.8-IV1 on; here both begin
        with 2.8-IV1, so that no id is in the tree that brokers don't know.
        """
        return self.embedded_store or is_at_least(self.text("inter.broker.protocol.version"), FIRST_PROTOCOL_WITH_IDS)

    @property
    def broker_id(self) -> int:
        """``broker.id``; -1 means that one is to be generated."""
        return self.integer("broker.id")

    def assign_broker_id(self, broker_id: int) -> None:
        """Take the id that was generated, or found in the data directory; it may lie above the reserved ones."""
        self._static["broker.id"] = broker_id
        self._found.clear()
        self._endpoints.clear()

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
        if "listeners" not in self._endpoints:
            text = self.text("listeners") if "listeners" in self._static or "listeners" in self.dynamic.values else ""
            if not text:
                text = f"PLAINTEXT://{self.text('host.name') or '127.0.0.1'}:{self.integer('port')}"
            self._endpoints["listeners"] = parse_listeners("listeners", text, self.listener_protocols)
        return self._endpoints["listeners"]

    @property
    def advertised_listeners(self) -> tuple[EndPoint, ...]:
        """The configured addresses for clients; empty if only ``listeners`` is set.

        Without ``advertised.listeners``, ``advertised.host.name`` and ``advertised.port`` are used; if one of them is
        missing, ``host.name`` or ``port``.
        """
        if "advertised.listeners" not in self._endpoints:
            self._endpoints["advertised.listeners"] = self._advertised()
        return self._endpoints["advertised.listeners"]

    def _advertised(self) -> tuple[EndPoint, ...]:
        text = self.text("advertised.listeners")
        host, port = self["advertised.host.name"], self["advertised.port"]
        if self["advertised.listeners"] is None and (host is not None or port is not None):
            host, port = (self.text("host.name") if host is None else host), (self["port"] if port is None else port)
            text = f"PLAINTEXT://{host}:{port}"
        return parse_listeners("advertised.listeners", text, self.listener_protocols)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener for requests of other brokers."""
        return self.text("inter.broker.listener.name").upper() or self.text("security.inter.broker.protocol")

    @property
    def controller_listener(self) -> str:
        """The name of the listener for requests of the controller: its own (KIP-291), or that for other brokers."""
        return self.text("control.plane.listener.name").upper() or self.inter_broker_listener

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


# Features that Apache Kafka has and kafkapy does not have yet. A configuration that needs one is refused: serving
# plaintext instead of TLS, or every client instead of the authorized ones, would be worse than not starting.

REFUSED_KEYS: Final = {
    "zookeeper.ssl.crl.enable": "kafkapy reads no revocation lists",
    "zookeeper.ssl.ocsp.enable": "kafkapy has no Online Certificate Status Protocol",
    "security.providers": "kafkapy can't load Java classes",
    "client.quota.callback.class": "kafkapy can't load Java classes",
    "create.topic.policy.class.name": "kafkapy can't load Java classes",
    "alter.config.policy.class.name": "kafkapy can't load Java classes",
}
"""Key → the reason why kafkapy does not start while it is set."""

FIRST_PROTOCOL_WITH_IDS: Final = "2.8-IV1"
OLDEST_CLUSTER_PROTOCOL: Final = "2.6-IV0"
"""The first inter-broker protocol with all versions that this broker sends to others; StopReplica 3 came last."""


def check_built(config: BrokerConfig) -> None:
    """Raise InvalidConfigError if ``config`` needs a feature that kafkapy does not have."""
    for name, reason in REFUSED_KEYS.items():
        if config[name]:
            raise InvalidConfigError(f"{name} is set: {reason}")
    check_classes(config.originals)
    protocol = config.text("inter.broker.protocol.version")
    if not config.embedded_store and not is_at_least(protocol, OLDEST_CLUSTER_PROTOCOL):
        raise InvalidConfigError(
            f"inter.broker.protocol.version is {protocol}: in a cluster it must be at least {OLDEST_CLUSTER_PROTOCOL}"
        )
