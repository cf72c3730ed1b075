"""The broker keys of transactions that Apache Kafka has from release 3.6 on (KIP-890)."""

from typing import Final

from kafkapy.config.keys import ConfigKey, ConfigType, Dynamic, Importance

VERIFICATION: Final = "transaction.partition.verification.enable"

TRANSACTION_KEYS: Final[dict[str, ConfigKey]] = {
    VERIFICATION: ConfigKey(
        VERIFICATION, ConfigType.BOOLEAN, default=True, dynamic=Dynamic.CLUSTER_WIDE, importance=Importance.LOW
    )
}

TRANSACTION_DOCUMENTATION: Final[dict[str, str]] = {
    VERIFICATION: (
        "Whether the first batch of a transaction in a partition is written only after the coordinator has confirmed "
        "that the partition is part of the open transaction."
    )
}
