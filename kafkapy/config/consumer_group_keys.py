"""The broker keys of consumer groups of KIP-848: Apache Kafka has them from release 3.7 on.

Apache Kafka 4.4 also has a lower and an upper bound for each of the intervals, for the values of single groups.
"""

from typing import Final

from kafkapy.config.keys import AtLeast, ConfigKey, ConfigType, OneOf, OneOfInAnyCase

ASSIGNORS: Final = ("uniform", "range")
MIGRATION_POLICIES: Final = ("disabled", "downgrade", "upgrade", "bidirectional")

CONSUMER_GROUP_KEYS: Final[dict[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey("group.consumer.session.timeout.ms", ConfigType.INT, 45_000, AtLeast(1)),
        ConfigKey("group.consumer.heartbeat.interval.ms", ConfigType.INT, 5_000, AtLeast(1)),
        ConfigKey("group.consumer.assignment.interval.ms", ConfigType.INT, 1_000, AtLeast(0)),
        ConfigKey("group.consumer.assignor.offload.enable", ConfigType.BOOLEAN, True),  # the default
        ConfigKey("group.consumer.max.size", ConfigType.INT, 2**31 - 1, AtLeast(1)),
        ConfigKey("group.consumer.assignors", ConfigType.LIST, ASSIGNORS, OneOf(ASSIGNORS)),
        ConfigKey(
            "group.consumer.migration.policy", ConfigType.STRING, "bidirectional", OneOfInAnyCase(MIGRATION_POLICIES)
        ),
    )
}

CONSUMER_GROUP_DOCUMENTATION: Final[dict[str, str]] = {
    "group.consumer.session.timeout.ms": (
        "How long a member of a consumer group stays in it after its last heartbeat, in milliseconds."
    ),
    "group.consumer.heartbeat.interval.ms": (
        "How long a member of a consumer group waits between two heartbeats, in milliseconds."
    ),
    "group.consumer.assignment.interval.ms": (
        "How long a consumer group keeps a target assignment at least when members join or leave, in milliseconds."
    ),
    "group.consumer.assignor.offload.enable": (
        "Apache Kafka computes target assignments in threads of their own; in kafkapy this key changes nothing."
    ),
    "group.consumer.max.size": (
        "How many members a group of the consumer protocol may have; further ones are refused."
    ),
    "group.consumer.assignors": (
        "Names of the assignors that members may choose from; the first one is used if no member chooses one."
    ),
    "group.consumer.migration.policy": (
        "Whether a group with members changes its type when members of the other protocol join or remain: `upgrade` "
        "from the classic to the consumer protocol, `downgrade` back, `bidirectional` both, `disabled` neither."
    ),
}
"""The description of each key."""
