"""What values of several broker keys must fulfil together, each rule by the keys that it is about.

These are the checks of Apache Kafka 2.7's start that no single key can make.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.config.allowed import format_of
from kafkapy.config.errors import InvalidConfigError, invalid_value

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
    if config.log_retention_ms == 0:
        raise invalid_value("log.retention.ms", 0, "must be -1 (no limit) or at least 1")


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


def _listeners_can_be_reached(config: "BrokerConfig") -> None:
    bound = {endpoint.listener_name for endpoint in config.listeners}
    if not bound:
        raise invalid_value("listeners", config["listeners"], "must name at least one listener")
    for endpoint in config.advertised_listeners:
        if endpoint.host == "0.0.0.0":  # noqa: S104  compared, not bound
            raise invalid_value("advertised.listeners", endpoint, "clients can't connect to 0.0.0.0")
        if endpoint.listener_name not in bound:
            raise InvalidConfigError(f"advertised.listeners names {endpoint.listener_name}, which listeners lacks")


_RULES: Final = (
    _broker_id_is_in_its_range,
    _there_is_a_log_directory,
    _times_of_the_log_are_possible,
    _the_cleaner_has_memory,
    _replicas_wait_less_than_they_may,
    _offset_commits_can_be_acknowledged,
    _brokers_exchange_the_message_format,
    _listeners_can_be_reached,
)
