"""The broker keys of consumer groups of KIP-848: Apache Kafka has them from release 3.7 on.

The lower and upper bounds are for the values of the broker and of single groups (``group_keys.py``).
"""

from typing import Final

from kafkapy.config.keys import AtLeast, ConfigKey, ConfigType, OneOf, OneOfInAnyCase

ASSIGNORS: Final = ("uniform", "range")
MIGRATION_POLICIES: Final = ("disabled", "downgrade", "upgrade", "bidirectional")
CLASSIC, CONSUMER = "classic", "consumer"
PROTOCOLS: Final = OneOf((CONSUMER, CLASSIC, "share", "streams"))
REBALANCE_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"

CONSUMER_GROUP_KEYS: Final[dict[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(REBALANCE_PROTOCOLS, ConfigType.LIST, (CLASSIC, CONSUMER), PROTOCOLS),
        ConfigKey("group.consumer.session.timeout.ms", ConfigType.INT, 45_000, AtLeast(1)),
        ConfigKey("group.consumer.min.session.timeout.ms", ConfigType.INT, 45_000, AtLeast(1)),
        ConfigKey("group.consumer.max.session.timeout.ms", ConfigType.INT, 60_000, AtLeast(1)),
        ConfigKey("group.consumer.heartbeat.interval.ms", ConfigType.INT, 5_000, AtLeast(1)),
        ConfigKey("group.consumer.min.heartbeat.interval.ms", ConfigType.INT, 5_000, AtLeast(1)),
        ConfigKey("group.consumer.max.heartbeat.interval.ms", ConfigType.INT, 15_000, AtLeast(1)),
        ConfigKey("group.consumer.assignment.interval.ms", ConfigType.INT, 1_000, AtLeast(0)),
        ConfigKey("group.consumer.min.assignment.interval.ms", ConfigType.INT, 0, AtLeast(0)),
        ConfigKey("group.consumer.max.assignment.interval.ms", ConfigType.INT, 15_000, AtLeast(0)),
        ConfigKey("group.consumer.regex.refresh.interval.ms", ConfigType.INT, 600_000, AtLeast(10_000)),
        ConfigKey("group.consumer.assignor.offload.enable", ConfigType.BOOLEAN, True),  # the default
        ConfigKey("group.consumer.max.size", ConfigType.INT, 2**31 - 1, AtLeast(1)),
        ConfigKey("group.consumer.assignors", ConfigType.LIST, ASSIGNORS, OneOf(ASSIGNORS)),
        ConfigKey(
            "group.consumer.migration.policy", ConfigType.STRING, "bidirectional", OneOfInAnyCase(MIGRATION_POLICIES)
        ),
    )
}

CONSUMER_GROUP_DOCUMENTATION: Final[dict[str, str]] = {
    REBALANCE_PROTOCOLS: (
        "The protocols of groups that are served: classic, without which the broker does not start, and consumer. "
        "share and streams change nothing in kafkapy."
    ),
    "group.consumer.min.session.timeout.ms": (
        "The shortest session timeout of consumer groups, in milliseconds, of the broker and of single groups."
    ),
    "group.consumer.max.session.timeout.ms": (
        "The longest session timeout of consumer groups, in milliseconds, of the broker and of single groups."
    ),
    "group.consumer.min.heartbeat.interval.ms": (
        "The shortest heartbeat interval of consumer groups, in milliseconds, of the broker and of single groups."
    ),
    "group.consumer.max.heartbeat.interval.ms": (
        "The longest heartbeat interval of consumer groups, in milliseconds, of the broker and of single groups."
    ),
    "group.consumer.min.assignment.interval.ms": (
        "The shortest assignment interval of consumer groups, in milliseconds, of the broker and of single groups."
    ),
    "group.consumer.max.assignment.interval.ms": (
        "The longest assignment interval of consumer groups, in milliseconds, of the broker and of single groups."
    ),
    "group.consumer.regex.refresh.interval.ms": (
        "How often the topics are searched again for the regular expressions of a consumer group, in milliseconds: the "
        "rights of its members may have changed."
    ),
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
