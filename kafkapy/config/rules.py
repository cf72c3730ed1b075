"""What values of several broker keys must fulfil together, each rule by the keys that it is about.

These are the checks of Apache Kafka 2.7's start that no single key can make. Left out are those that nothing here
depends on: no ``log.cleaner.threads`` are no cleaner, and the listener of brokers among themselves (with that of the
controller) has nobody to serve yet.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.config.allowed import format_of
from kafkapy.config.errors import InvalidConfigError, invalid_value
from kafkapy.config.listeners import parse_counts
from kafkapy.config.topic_keys import COMPRESSION_TYPES

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig


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


def _times_of_the_log_are_possible(config: "BrokerConfig") -> None:
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


def _offsets_are_compressed_with_what_all_know(config: "BrokerConfig") -> None:
    codec, protocol = config.integer("offsets.topic.compression.codec"), config.text("inter.broker.protocol.version")
    if not 0 <= codec <= _ZSTD:
        raise invalid_value("offsets.topic.compression.codec", codec, f"must be between 0 and {_ZSTD}")
    if codec == _ZSTD and format_of(protocol) < format_of(_FIRST_RELEASE_WITH_ZSTD):
        # Kafka speaks of 2.1, too, and asks for its message format alone.
        raise invalid_value("offsets.topic.compression.codec", codec, f"{protocol}'s message format has no zstd")


def _the_cleaner_has_memory(config: "BrokerConfig") -> None:
    threads, size = config.integer("log.cleaner.threads"), config.integer("log.cleaner.dedupe.buffer.size")
    if threads > 0 and size // threads <= 1024 * 1024:
        raise invalid_value("log.cleaner.dedupe.buffer.size", size, "must be more than 1 MiB per cleaner thread")


def _replicas_wait_less_than_they_may(config: "BrokerConfig") -> None:
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


def _somebody_may_connect(config: "BrokerConfig") -> None:
    overrides = parse_counts("max.connections.per.ip.overrides", config.text("max.connections.per.ip.overrides"))
    if config.integer("max.connections.per.ip") == 0 and not overrides:
        raise invalid_value("max.connections.per.ip", 0, "is possible with max.connections.per.ip.overrides alone")


def _who_may_not_in_is_told_in_time(config: "BrokerConfig") -> None:
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


_ZSTD: Final = 4
_FIRST_RELEASE_WITH_ZSTD: Final = "2.1-IV0"
_REFUSAL_DELAY: Final = "connection.failed.authentication.delay.ms"
_RULES: Final = (
    _broker_id_is_in_its_range,
    _there_is_a_log_directory,
    _times_of_the_log_are_possible,
    _compression_is_known,
    _the_cleaner_has_memory,
    _replicas_wait_less_than_they_may,
    _offset_commits_can_be_acknowledged,
    _brokers_exchange_the_message_format,
    _offsets_are_compressed_with_what_all_know,
    _a_request_fits_the_queue,
    _somebody_may_connect,
    _who_may_not_in_is_told_in_time,
    _listeners_can_be_reached,
)
