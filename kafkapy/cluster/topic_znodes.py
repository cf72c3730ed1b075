"""Kafka's tree: topics, their partitions' states, and what is asked of the controller about them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafkapy.cluster.znodes import decode_json, encode_json, required
from kafkapy.types import TopicPartition


class ReplicaAssignment(NamedTuple):
    """The brokers of a partition, preferred leader first; while replicas move, which come and which go (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Replicas are being moved."""
        return bool(self.adding or self.removing)


class LeaderIsr(NamedTuple):
    """Who leads a partition and who is in sync; ``zk_version`` is that of the node it was read from."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zk_version: int = 0


class TopicsZNode:
    """``/brokers/topics``: its children are the topics."""

    PATH: Final = "/brokers/topics"


class TopicZNode(NamedTuple):
    """``/brokers/topics/T``: who holds which partition. ``other`` keeps what newer releases put beside (topic_id)."""

    partitions: Mapping[int, ReplicaAssignment]
    other: Mapping[str, Any] = MappingProxyType({})

    @staticmethod
    def path(topic: str) -> str:
        """Where the assignment of ``topic`` is."""
        return f"/brokers/topics/{topic}"

    def encode(self) -> bytes:
        """Version 2, or the newer one that it was read with."""
        value = {
            "version": 2,
            "partitions": {str(index): list(found.replicas) for index, found in self.partitions.items()},
            "adding_replicas": {
                str(index): list(found.adding) for index, found in self.partitions.items() if found.adding
            },
            "removing_replicas": {
                str(index): list(found.removing) for index, found in self.partitions.items() if found.removing
            },
        }
        return encode_json(value | dict(self.other))

    @classmethod
    def decode(cls, data: bytes | None) -> "TopicZNode":
        """Any version."""
        value = decode_json(data)
        adding, removing = value.get("adding_replicas") or {}, value.get("removing_replicas") or {}
        partitions = {
            int(index): ReplicaAssignment(tuple(replicas), tuple(adding.get(index, ())), tuple(removing.get(index, ())))
            for index, replicas in required(value, "partitions").items()
        }
        kept = {key: found for key, found in value.items() if key not in _ASSIGNMENT_KEYS}
        if kept:
            kept["version"] = value.get("version", 3)
        return cls(partitions, kept)


_ASSIGNMENT_KEYS: Final = {"version", "partitions", "adding_replicas", "removing_replicas"}


class TopicPartitionsZNode:
    """``/brokers/topics/T/partitions``: its children are the partitions that the controller has started."""

    @staticmethod
    def path(topic: str) -> str:
        """The parent of the partitions of ``topic``."""
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZNode:
    """``/brokers/topics/T/partitions/P``."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """The parent of the partition's state."""
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}"


class PartitionStateZNode:
    """``/brokers/topics/T/partitions/P/state``: leader and in-sync replicas, written by the controller."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Where the partition's state is."""
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"

    @staticmethod
    def encode(state: LeaderIsr) -> bytes:
        """Version 1."""
        return encode_json(
            {
                "controller_epoch": state.controller_epoch,
                "leader": state.leader,
                "version": 1,
                "leader_epoch": state.leader_epoch,
                "isr": list(state.isr),
            }
        )

    @staticmethod
    def decode(data: bytes | None, zk_version: int) -> LeaderIsr:
        """``zk_version`` is the version of the node that held ``data``."""
        value = decode_json(data)
        return LeaderIsr(
            int(required(value, "leader")),
            int(required(value, "leader_epoch")),
            tuple(required(value, "isr")),
            int(required(value, "controller_epoch")),
            zk_version,
        )


class DeleteTopicsZNode:
    """``/admin/delete_topics``: its children are the topics to delete."""

    PATH: Final = "/admin/delete_topics"


class DeleteTopicZNode:
    """``/admin/delete_topics/T``, without data: asks the controller to delete a topic."""

    @staticmethod
    def path(topic: str) -> str:
        """Where the deletion of ``topic`` is asked for."""
        return f"/admin/delete_topics/{topic}"


class PreferredElectionZNode:
    """``/admin/preferred_replica_election``: asks the controller for preferred leaders (legacy tool)."""

    PATH: Final = "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Version 1."""
        listed = [{"topic": found.topic, "partition": found.partition} for found in partitions]
        return encode_json({"version": 1, "partitions": listed})

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        """The partitions asked for."""
        listed = required(decode_json(data), "partitions")
        return [TopicPartition(str(required(found, "topic")), int(required(found, "partition"))) for found in listed]


class ReassignPartitionsZNode:
    """``/admin/reassign_partitions``: asks the controller to move replicas (legacy tool)."""

    PATH: Final = "/admin/reassign_partitions"

    @staticmethod
    def encode(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
        """Version 1."""
        listed = [
            {"topic": found.topic, "partition": found.partition, "replicas": list(replicas)}
            for found, replicas in targets.items()
        ]
        return encode_json({"version": 1, "partitions": listed})

    @staticmethod
    def decode(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
        """Partition → the replicas that it shall have."""
        return {
            TopicPartition(str(required(found, "topic")), int(required(found, "partition"))): tuple(
                required(found, "replicas")
            )
            for found in required(decode_json(data), "partitions")
        }
