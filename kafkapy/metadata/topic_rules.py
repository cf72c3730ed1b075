"""The rules for names and replica assignments of topics. Each rule has its error; they are checked in Kafka's order."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkapy import kafka_texts
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.errors import InvalidReplicaAssignmentError, InvalidTopicError, PolicyViolationError
from kafkapy.text import shortened
from kafkapy.turns import Steps, in_turns
from kafkapy.types import TopicPartition

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
MAX_NAME_LENGTH: Final = 249
MAX_FOLDER_LENGTH: Final = 255
"""The longest name of a partition's folder that file systems accept."""
MOST_REPLICAS: Final = 1_000
"""The most replicas of one partition that a CreateTopics request may name, whether these brokers exist or not. Each
step of the controller handles a partition with all of its replicas; Apache Kafka has no bound."""
_SHOWN: Final = 100
"""The number of brokers that an error's text shows."""
_LONGEST_SHOWN: Final = 1_000
"""Characters of an illegal name that an error's text shows."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_name(name: str) -> None:
    """Raise InvalidTopicError for a name that can't be part of a directory's and of a metric's name."""
    if not name:
        raise InvalidTopicError(kafka_texts.EMPTY_TOPIC_NAME)
    if name in (".", ".."):
        raise InvalidTopicError(kafka_texts.DIRECTORY_TOPIC_NAME)
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopicError(kafka_texts.topic_name_too_long(shortened(name, _LONGEST_SHOWN)))
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(kafka_texts.topic_name_characters(shortened(name, _LONGEST_SHOWN)))


def check_partition(topic_partition: TopicPartition) -> None:
    """Raise InvalidTopicError for a partition of a peer's request that can't have a folder and a node of its own."""
    topic, partition = topic_partition
    check_name(topic)
    if partition < 0:
        raise InvalidTopicError(f"There is no partition {partition} of '{topic}': the numbers begin with 0.")
    if len(topic) + len(f"-{partition}") > MAX_FOLDER_LENGTH:
        raise InvalidTopicError(
            f"The name of a folder for partition {partition} of {topic[:_SHOWN]} has more than {MAX_FOLDER_LENGTH} "
            "characters."
        )


class TopicNames:
    """The names of all topics, with a lookup of those that differ only in ``.`` and ``_``.

    Metrics of two such topics would have the same name, so only one of them can exist.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._by_flat_name: dict[str, set[str]] = {}
        self._reading = asyncio.Lock()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    async def refresh(self, read: Callable[[], Awaitable[Iterable[str]]]) -> None:
        """Replace all names by those that ``read`` returns.

        Other work runs between two names, but no other ``refresh``: it would work with a difference that this one has
        changed. A name may be added meanwhile if it is not known yet (``__contains__``).
        """
        async with self._reading:
            now = set(await read())
            await in_turns(self._replace(now))

    def _replace(self, now: set[str]) -> Steps[None]:
        """Step through the names that are new, or no longer exist."""
        for name in self._names - now:
            yield
            self.discard(name)
        for name in now - self._names:
            yield
            self.add(name)

    def add(self, name: str) -> None:
        """Add a name."""
        self._names.add(name)
        self._by_flat_name.setdefault(_flat(name), set()).add(name)

    def discard(self, name: str) -> None:
        """Remove a name, if it is there."""
        self._names.discard(name)
        alike = self._by_flat_name.get(_flat(name), set())
        alike.discard(name)
        if not alike:
            self._by_flat_name.pop(_flat(name), None)

    def check_collision(self, name: str) -> None:
        """Raise InvalidTopicError if a topic exists whose name differs from ``name`` only in ``.`` and ``_``."""
        if "." in name or "_" in name:
            colliding = self._by_flat_name.get(_flat(name))
            if colliding:
                raise InvalidTopicError(kafka_texts.topic_collides(name, sorted(colliding)))


def _flat(name: str) -> str:
    return name.replace(".", "_")


def count_replicas(assignment: Mapping[int, Sequence[int]]) -> Steps[int]:
    """Return the number of replicas of all partitions together; a step is a partition.

    Raises PolicyViolationError for a partition of more than ``MOST_REPLICAS``.
    """
    count = 0
    for partition, replicas in assignment.items():
        if len(replicas) > MOST_REPLICAS:
            raise PolicyViolationError(
                f"Partition {partition} has {len(replicas)} replicas, at most {MOST_REPLICAS} are allowed."
            )
        count += len(replicas)
        yield
    return count


def check_assignment(assignment: Mapping[int, Sequence[int]]) -> Steps[None]:
    """Check for partitions 0, 1, 2 … with equally many distinct replicas; raises InvalidReplicaAssignmentError.

    A step is a partition.
    """
    first = next(iter(assignment), None)
    if first is None:
        raise InvalidReplicaAssignmentError("The assignment names no partition.")
    for partition, replicas in assignment.items():
        yield
        if len(replicas) != len(assignment[first]):
            raise InvalidReplicaAssignmentError(
                f"All partitions must have the same number of replicas: partition {first} has "
                f"{len(assignment[first])}, partition {partition} has {len(replicas)}."
            )
    for partition, replicas in assignment.items():
        yield
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(
                f"Partition {partition} has more than one replica on a broker: {_listed(replicas)}."
            )
    for partition in range(len(assignment)):
        yield
        if partition not in assignment:
            raise InvalidReplicaAssignmentError(
                f"Partitions must be numbered from 0 without a gap; partition {partition} is missing."
            )


def check_added(added: Mapping[int, Sequence[int]], existing: Sequence[int], brokers: Collection[int]) -> Steps[None]:
    """Check the replicas of added partitions: as many as ``existing`` (partition 0's), distinct, on live brokers.

    A step is a partition.
    """
    for partition, replicas in added.items():
        yield
        if not replicas:
            raise InvalidReplicaAssignmentError(f"Partition {partition} has a replication factor of 0.")
        if len(replicas) > max(len(brokers), _SHOWN):  # some are unknown, or named twice: don't find out which
            raise InvalidReplicaAssignmentError(
                f"Partition {partition} has {len(replicas)} replicas; there are {len(brokers)} brokers."
            )
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(
                f"Partition {partition} has more than one replica on a broker: {_listed(replicas)}."
            )
        unknown = sorted(set(replicas) - set(brokers))
        if unknown:
            raise InvalidReplicaAssignmentError(
                f"Partition {partition} has replicas on unknown brokers: {_listed(unknown)}; "
                f"available brokers: {_listed(sorted(brokers))}."
            )
        if len(replicas) != len(existing):
            raise InvalidReplicaAssignmentError(
                f"The replication factor of partition 0 is {len(existing)}, that of partition {partition} "
                f"is {len(replicas)}."
            )


def _listed(brokers: Sequence[int]) -> str:
    shown = ", ".join(map(str, brokers[:_SHOWN]))
    return shown if len(brokers) <= _SHOWN else f"{shown} and {len(brokers) - _SHOWN} more"


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
