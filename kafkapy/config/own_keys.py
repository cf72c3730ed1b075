"""The keys that kafkapy has and Apache Kafka has not: their names begin with ``kafkapy.``.

Apache Kafka warns of such a key in ``server.properties`` and goes on. It does not take one among a topic's overrides:
``kafkapy metadata export`` leaves those out.
"""

from typing import Final

from kafkapy.config.allowed import OneOf
from kafkapy.config.keys import ConfigKey, ConfigType, Dynamic

PREFIX: Final = "kafkapy."
FLUSH_AS_KAFKA: Final = "kafka"
FLUSH_BEFORE_ACK: Final = "ack"

_FLUSH: Final = ConfigKey("kafkapy.flush", ConfigType.STRING, FLUSH_AS_KAFKA, OneOf((FLUSH_AS_KAFKA, FLUSH_BEFORE_ACK)))

OWN_BROKER_KEYS: Final[dict[str, ConfigKey]] = {_FLUSH.name: _FLUSH}
"""``kafkapy.flush``: appends are fsynced as ``flush.messages`` and ``flush.ms`` say, or before any is acknowledged."""

OWN_TOPIC_KEYS: Final[dict[str, ConfigKey]] = {_FLUSH.name: _FLUSH._replace(dynamic=Dynamic.CLUSTER_WIDE)}
"""The same for a topic; without an override the broker's value holds."""


def is_own(name: str) -> bool:
    """Whether Apache Kafka has no such key, because it is kafkapy's."""
    return name.startswith(PREFIX)
