"""The configuration keys of groups and their offsets, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from kafkapy.config.consumer_group_keys import ASSIGNORS, CONSUMER, REBALANCE_PROTOCOLS
from kafkapy.config.keys import is_at_least
from kafkapy.config.own_keys import GROUP_METADATA_MAX_BYTES
from kafkapy.coordinator.group.metadata_budget import DEFAULT_MAX_BYTES
from kafkapy.coordinator.runtime import Config, TopicSettings
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC

OFFSET_VALUE_RELEASES: Final = {1: "0.8.0", 2: "2.1-IV0", 3: "2.1-IV1"}
GROUP_VALUE_RELEASES: Final = {0: "0.8.0", 1: "0.10.1-IV0", 2: "2.1-IV0", 3: "2.3-IV0"}
"""Version of a value → the lowest inter-broker protocol with which Kafka writes it: older brokers must read the log."""
UNLIMITED: Final = 2**31 - 1
LARGEST_GROUP: Final = 5_000
"""The largest number of members of a classic group while ``group.max.size`` is unlimited, which is its default.

A rebalance handles all of them in one step, in about 10 µs each. The record of a larger group would exceed Kafka's
default of ``max.message.bytes`` anyway.
"""
STATIC_MEMBERS_RELEASE: Final = "2.3-IV0"
"""Below this inter-broker protocol, brokers may not know group instance ids, which are refused then (KIP-345)."""


class MigrationPolicy(Enum):
    """Which groups with members may change their type; the values are those of ``group.consumer.migration.policy``."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of the consumer protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes a classic one when no member of the consumer protocol remains."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerGroupSettings:
    """The keys of consumer groups (KIP-848), with Kafka 4.4's defaults; units as in the names.

    A group may override others (``kafkapy/config/group_keys.py``). ``is_served`` tells whether there are such groups.
    """

    is_served: bool = True
    max_size: int = UNLIMITED
    regex_refresh_interval_ms: int = 600_000
    assignors: tuple[str, ...] = ASSIGNORS
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    @classmethod
    def from_config(cls, config: Config | Mapping[str, Any]) -> "ConsumerGroupSettings":
        """Read the keys from the broker's configuration."""
        return cls(
            is_served=CONSUMER in config[REBALANCE_PROTOCOLS],
            max_size=config["group.consumer.max.size"],
            regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
            assignors=config["group.consumer.assignors"] or ASSIGNORS,
            migration=MigrationPolicy(config["group.consumer.migration.policy"].lower()),
        )


@dataclass(frozen=True, slots=True, eq=False)
class GroupSettings:
    """Kafka 2.7's keys for groups and offsets, with its defaults; units as in the names."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = LARGEST_GROUP
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5_242_880
    topic_partitions: int = 50
    topic_compression_codec: int = 0
    required_acks: int = -1
    offset_value_version: int = 3
    group_value_version: int = 3
    allows_static_members: bool = True
    metadata_max_bytes: int = DEFAULT_MAX_BYTES
    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)

    @classmethod
    def from_config(cls, config: Config | Mapping[str, Any]) -> "GroupSettings":
        """Read the keys from the broker's configuration."""
        protocol = config["inter.broker.protocol.version"]
        return cls(
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            max_size=LARGEST_GROUP if config["group.max.size"] == UNLIMITED else config["group.max.size"],
            offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            offsets_commit_timeout_ms=config["offsets.commit.timeout.ms"],
            offsets_load_buffer_size=config["offsets.load.buffer.size"],
            topic_partitions=config["offsets.topic.num.partitions"],
            topic_compression_codec=config["offsets.topic.compression.codec"],
            required_acks=config["offsets.commit.required.acks"],
            offset_value_version=_newest(OFFSET_VALUE_RELEASES, protocol),
            group_value_version=_newest(GROUP_VALUE_RELEASES, protocol),
            allows_static_members=is_at_least(protocol, STATIC_MEMBERS_RELEASE),
            metadata_max_bytes=config[GROUP_METADATA_MAX_BYTES],
            consumer=ConsumerGroupSettings.from_config(config),
        )

    def topic_settings(self) -> TopicSettings:
        """How the partitions of ``__consumer_offsets`` are read and written."""
        return TopicSettings(
            GROUP_METADATA_TOPIC,
            self.topic_partitions,
            self.offsets_load_buffer_size,
            self.offsets_commit_timeout_ms,
            self.required_acks,
        )


def _newest(versions: Mapping[int, str], protocol: str) -> int:
    return max(version for version, release in versions.items() if is_at_least(protocol, release))
