"""The 26 keys that a topic may override in Apache Kafka 2.7, and the broker keys that they override.

The facts were read from the released 2.7.2 jars (see ``broker_keys.py``). All of them can change while the broker runs.
"""

from typing import Final

from kafkapy.config.broker_keys import CLEANUP_POLICIES, LONG_MAX, TIMESTAMP_TYPES
from kafkapy.config.keys import (
    AtLeast,
    Between,
    ConfigKey,
    ConfigType,
    Dynamic,
    Importance,
    OneOf,
    Release,
    ThrottledReplicas,
)
from kafkapy.config.own_keys import OWN_TOPIC_KEYS

BOOLEAN, STRING, INT, _, LONG, DOUBLE, LIST, _, _ = ConfigType
LOW = Importance.LOW
COMPRESSION_TYPES: Final = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))

_KEYS: Final = (
    ConfigKey("segment.bytes", INT, 1_073_741_824, AtLeast(14)),
    ConfigKey("segment.ms", LONG, 604_800_000, AtLeast(1)),
    ConfigKey("segment.jitter.ms", LONG, 0, AtLeast(0)),
    ConfigKey("segment.index.bytes", INT, 10_485_760, AtLeast(0)),
    ConfigKey("flush.messages", LONG, LONG_MAX, AtLeast(0)),
    ConfigKey("flush.ms", LONG, LONG_MAX, AtLeast(0)),
    ConfigKey("retention.bytes", LONG, -1),
    ConfigKey("retention.ms", LONG, 604_800_000, AtLeast(-1)),
    ConfigKey("max.message.bytes", INT, 1_048_588, AtLeast(0)),
    ConfigKey("index.interval.bytes", INT, 4096, AtLeast(0)),
    ConfigKey("delete.retention.ms", LONG, 86_400_000, AtLeast(0)),
    ConfigKey("min.compaction.lag.ms", LONG, 0, AtLeast(0)),
    ConfigKey("max.compaction.lag.ms", LONG, LONG_MAX, AtLeast(1)),
    ConfigKey("file.delete.delay.ms", LONG, 60_000, AtLeast(0)),
    ConfigKey("min.cleanable.dirty.ratio", DOUBLE, 0.5, Between(0, 1)),
    ConfigKey("cleanup.policy", LIST, ("delete",), CLEANUP_POLICIES),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, False),
    ConfigKey("min.insync.replicas", INT, 1, AtLeast(1)),
    ConfigKey("compression.type", STRING, "producer", COMPRESSION_TYPES),
    ConfigKey("preallocate", BOOLEAN, False),
    ConfigKey("message.format.version", STRING, "2.7-IV2", Release()),
    ConfigKey("message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES),
    ConfigKey("message.timestamp.difference.max.ms", LONG, LONG_MAX, AtLeast(0)),
    ConfigKey("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas()),
    ConfigKey("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas()),
    ConfigKey("message.downconversion.enable", BOOLEAN, True, None, importance=LOW),
)

TOPIC_KEYS: Final[dict[str, ConfigKey]] = {key.name: key._replace(dynamic=Dynamic.CLUSTER_WIDE) for key in _KEYS}
"""Every key that a topic may override."""

BROKER_KEY_OF: Final[dict[str, str]] = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "cleanup.policy": "log.cleanup.policy",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "min.insync.replicas": "min.insync.replicas",
    "compression.type": "compression.type",
    "preallocate": "log.preallocate",
    "message.format.version": "log.message.format.version",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "message.downconversion.enable": "log.message.downconversion.enable",
    "kafkapy.flush": "kafkapy.flush",
}
"""Which broker key gives a topic key its value when the topic does not override it; two have none."""


def topic_key(name: str) -> ConfigKey | None:
    """The key called ``name``, Apache Kafka's or our own; None if there is none."""
    return TOPIC_KEYS.get(name) or OWN_TOPIC_KEYS.get(name)
