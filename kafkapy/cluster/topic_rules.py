"""What a topic may be called, and which replicas it may be given. Each rule has its error, checked in Kafka's order."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkapy.cluster.errors import InvalidReplicaAssignmentError, InvalidTopicError
from kafkapy.config.broker_config import BrokerConfig

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_name(name: str) -> None:
    """A name can be part of a directory's and of a metric's name; raises InvalidTopicError."""
    if not name:
        raise InvalidTopicError("A topic needs a name: this one is empty.")
    if name in (".", ".."):
        raise InvalidTopicError(f"'{name}' names a directory, so it can't name a topic.")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopicError(f"The topic name {name} has {len(name)} characters; {MAX_NAME_LENGTH} is the most.")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(f"The topic name '{name}' may hold only ASCII letters and digits, '.', '_' and '-'.")


def check_collision(name: str, existing: Iterable[str]) -> None:
    """``.`` and ``_`` are the same in metric names, so only one of two such names can be; raises InvalidTopicError."""
    if "." in name or "_" in name:
        flat = name.replace(".", "_")
        colliding = sorted(other for other in existing if other.replace(".", "_") == flat)
        if colliding:
            raise InvalidTopicError(f"The topic name '{name}' is taken but for '.' and '_': {', '.join(colliding)}")


def check_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    """Partitions 0, 1, 2 … with equally many replicas, none twice; raises InvalidReplicaAssignmentError."""
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise InvalidReplicaAssignmentError("Some partitions have more replicas than others.")
    for partition, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(f"Partition {partition} names a broker twice: {list(replicas)}")
    if sorted(assignment) != list(range(len(assignment))):
        raise InvalidReplicaAssignmentError(f"Partitions must be numbered from 0 without a gap: {sorted(assignment)}")


def check_added(added: Mapping[int, Sequence[int]], existing: Sequence[int], brokers: Collection[int]) -> None:
    """Replicas of further partitions: as many as ``existing`` (partition 0's), distinct, on live brokers."""
    for partition, replicas in added.items():
        if not replicas:
            raise InvalidReplicaAssignmentError(f"Partition {partition} has no replica at all.")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(f"Partition {partition} names a broker twice: {list(replicas)}.")
        unknown = sorted(set(replicas) - set(brokers))
        if unknown:
            raise InvalidReplicaAssignmentError(f"Partition {partition} names brokers that are not there: {unknown}.")
        if len(replicas) != len(existing):
            raise InvalidReplicaAssignmentError(
                f"Partition {partition} has {len(replicas)} replicas, partition 0 has {len(existing)}."
            )


def internal_topic_shape(name: str, config: BrokerConfig) -> tuple[int, int, dict[str, str]]:
    """Partitions, replication factor and forced configuration of an internal topic."""
    if name == GROUP_METADATA_TOPIC:
        overrides = {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        }
        partitions = config.integer("offsets.topic.num.partitions")
        return partitions, config.integer("offsets.topic.replication.factor"), overrides
    overrides = {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
        "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
        "unclean.leader.election.enable": "false",
    }
    partitions = config.integer("transaction.state.log.num.partitions")
    return partitions, config.integer("transaction.state.log.replication.factor"), overrides
