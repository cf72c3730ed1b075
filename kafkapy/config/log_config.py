"""The configuration of one topic's logs: its overrides above the broker's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from kafkapy import kafka_texts
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.keys import Value, format_of
from kafkapy.config.own_keys import FLUSH_AS_KAFKA, FLUSH_BEFORE_ACK, OWN_TOPIC_KEYS
from kafkapy.config.topic_keys import BROKER_KEY_OF, TOPIC_KEYS, topic_key


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LogConfig:
    """All 26 topic keys, dots written as underscores, with Kafka 2.7's units and defaults; then kafkapy's own."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    max_message_bytes: int = 1_048_588
    index_interval_bytes: int = 4096
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: tuple[str, ...] = ("delete",)
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    preallocate: bool = False
    message_format_version: str = "2.7-IV2"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_difference_max_ms: int = 2**63 - 1
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    message_downconversion_enable: bool = True
    kafkapy_flush: str = FLUSH_AS_KAFKA

    @property
    def compact(self) -> bool:
        """Whether only the newest record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def flush_before_ack(self) -> bool:
        """Whether records are acknowledged and visible only after an fsync."""
        return self.kafkapy_flush == FLUSH_BEFORE_ACK

    @property
    def message_format(self) -> int:
        """The magic that ``message_format_version`` stands for."""
        return format_of(self.message_format_version)

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> Self:
        """The broker's values with stored ``overrides`` above them.

        Keys that topics don't have are ignored, as Apache Kafka does: another release or distribution has written them.
        Raises InvalidConfigError as ``parse_topic_overrides`` does.
        """
        values: dict[str, Any] = broker_values(broker)
        values |= parse_topic_overrides({name: text for name, text in (overrides or {}).items() if name in FIELD_OF})
        return cls(**{name.replace(".", "_"): value for name, value in values.items()})


FIELD_OF: Final = dict(zip((*TOPIC_KEYS, *OWN_TOPIC_KEYS), (field.name for field in fields(LogConfig)), strict=True))
"""Topic key → name of LogConfig's field."""


def broker_values(broker: BrokerConfig) -> dict[str, Value]:
    """Topic key → the value that ``broker`` gives it."""
    values = {name: broker[synonym] for name, synonym in BROKER_KEY_OF.items()}
    return values | {
        "segment.ms": broker.log_roll_ms,
        "segment.jitter.ms": broker.log_roll_jitter_ms,
        "flush.ms": broker.log_flush_interval_ms,
        "retention.ms": broker.log_retention_ms,
    }


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Typed values of a topic's overrides.

    Raises InvalidConfigError for a key that topics don't have, a value that its key does not allow, or compaction
    lags that leave no time between them.
    """
    keys = {}
    for name in overrides:
        key = topic_key(name)
        if key is None:
            raise InvalidConfigError(kafka_texts.unknown_topic_key(name))
        keys[name] = key
    values = {name: keys[name].parse(text) for name, text in overrides.items()}
    shortest, longest = (
        values.get(name, TOPIC_KEYS[name].default) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise InvalidConfigError(
            f"min.compaction.lag.ms ({shortest}) must not be above max.compaction.lag.ms ({longest})"
        )
    return values


def validate_topic_overrides(overrides: Mapping[str, str]) -> None:
    """Raise InvalidConfigError unless a topic may have ``overrides``."""
    parse_topic_overrides(overrides)
