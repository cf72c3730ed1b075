"""The configuration keys that groups obey, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Config(Protocol):
    """What is asked of the broker's configuration: typed values by key (``BrokerConfig``)."""

    def __getitem__(self, key: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka 2.7's keys for groups and offsets, with its defaults; units as in the names."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5_242_880
    topic_partitions: int = 50
    topic_compression_codec: int = 0

    @classmethod
    def from_config(cls, config: Config | Mapping[str, Any]) -> "GroupSettings":
        """Read them from the broker's configuration."""
        return cls(
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            max_size=config["group.max.size"],
            offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            offsets_commit_timeout_ms=config["offsets.commit.timeout.ms"],
            offsets_load_buffer_size=config["offsets.load.buffer.size"],
            topic_partitions=config["offsets.topic.num.partitions"],
            topic_compression_codec=config["offsets.topic.compression.codec"],
        )
