"""The configuration keys that transactions obey, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkapy.coordinator.group.settings import Config


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka 2.7's keys for transactions, with its defaults; units as in the names."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000
    load_buffer_size: int = 5_242_880
    topic_partitions: int = 50
    request_timeout_ms: int = 30_000

    @classmethod
    def from_config(cls, config: Config | Mapping[str, Any]) -> "TransactionSettings":
        """Read them from the broker's configuration."""
        return cls(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            id_expiration_ms=config["transactional.id.expiration.ms"],
            abort_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_check_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            load_buffer_size=config["transaction.state.log.load.buffer.size"],
            topic_partitions=config["transaction.state.log.num.partitions"],
            request_timeout_ms=config["request.timeout.ms"],
        )
