"""A cluster's whole metadata, as it is carried from one store to another while no broker runs.

The persistent nodes of Kafka's tree are carried: the cluster's id, topics with assignments and partition states (with
leader epochs), configurations, pending deletions and reassignments, the controller epoch, the producer id block,
features, ACLs, delegation tokens, old consumers. The nodes of running brokers are not carried: registrations, the
elected controller, and notes about changes, since every broker reads all configurations when it starts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from uuid import UUID

from kafkapy.config.own_keys import is_own
from kafkapy.metadata.errors import InvalidTopicError
from kafkapy.metadata.topic_rules import check_name
from kafkapy.metadata.znodes import (
    ClusterIdZNode,
    ConfigZNode,
    ControllerEpochZNode,
    DeleteTopicsZNode,
    FeatureZNode,
    LeaderIsr,
    PartitionStateZNode,
    ProducerIdBlockZNode,
    TopicsZNode,
    TopicZNode,
)
from kafkapy.types import NO_TOPIC_ID, TopicPartition

ROOTS: Final = (
    "/admin",
    "/brokers/seqid",
    "/brokers/topics",
    "/cluster",
    "/config",
    "/consumers",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-extended",
    "/latest_producer_id_block",
)
"""The nodes that are carried with all nodes below them."""

NOTES: Final = ("/config/changes", "/config/group_changes", "/delegation_token/token_changes")
"""The nodes that are carried without their children, which announce changes to running brokers."""


KINDS: Final = ("topics", "brokers", "clients", "users")
"""The kinds of entities that have configurations."""

_T = TypeVar("_T")


class MetadataError(Exception):
    """The metadata can't be carried over; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class MetadataTree:
    """Path → data of every node that is carried; ``live_brokers`` are registered in the store of the tree."""

    nodes: Mapping[str, bytes | None]
    broker_id_sequence: int = 0
    live_brokers: tuple[int, ...] = ()

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, None in a store that no broker has ever used."""
        return self._at(ClusterIdZNode.PATH, ClusterIdZNode.decode)

    @property
    def controller_epoch(self) -> int:
        """The number of controllers so far: of two trees of one cluster, the newer one has the larger number."""
        return self._at(ControllerEpochZNode.PATH, ControllerEpochZNode.decode) or 0

    @property
    def producer_ids(self) -> ProducerIdBlockZNode | None:
        """The block of producer ids that was claimed last."""
        return self._at(ProducerIdBlockZNode.PATH, ProducerIdBlockZNode.decode)

    def topics(self) -> dict[str, TopicZNode]:
        """The assignments by topic."""
        found = {name: self._at(TopicZNode.path(name), TopicZNode.decode) for name in self._below(TopicsZNode.PATH)}
        return {name: topic for name, topic in found.items() if topic is not None}

    def topics_to_delete(self) -> frozenset[str]:
        """The topics whose deletion was requested and is not complete: a part of each may be deleted."""
        return frozenset(self._below(DeleteTopicsZNode.PATH))

    def state(self, partition: TopicPartition) -> LeaderIsr | None:
        """A partition's leader and in-sync replicas; None when no controller has started it."""
        return self._at(PartitionStateZNode.path(partition), lambda data: PartitionStateZNode.decode(data, 0))

    def configs(self, kind: str) -> dict[str, dict[str, str]]:
        """The configurations of one of ``KINDS``: name → key → value, without the empty ones."""
        parent = ConfigZNode.kind_path(kind)
        prefix = parent + "/"
        found = {
            path[len(prefix) :]: self._at(path, ConfigZNode.decode) for path in self.nodes if path.startswith(prefix)
        }
        return {name: config for name, config in found.items() if config}

    def for_kafka(self) -> "MetadataTree":
        """The same without what Apache Kafka on ZooKeeper refuses: finalized features, and kafkapy's own keys.

        It does not start with a feature that it does not support, and does not change a topic that has such a key.
        """
        nodes = dict(self.nodes)
        if FeatureZNode.PATH in nodes:
            nodes[FeatureZNode.PATH] = FeatureZNode.encode()
        for kind in KINDS:
            for name, config in self.configs(kind).items():
                kept = {key: value for key, value in config.items() if not is_own(key)}
                if kept != config:
                    nodes[f"{ConfigZNode.kind_path(kind)}/{name}"] = ConfigZNode.encode(kept)
        return replace(self, nodes=nodes)

    def with_topic_ids(self, topic_ids: Mapping[str, UUID]) -> "MetadataTree":
        """The same with these ids of topics that have none, since with other ids their folders would not be served.

        A release of Apache Kafka below 2.8 drops the id of a topic that it changes.
        """
        nodes = dict(self.nodes)
        for name, topic in self.topics().items():
            if topic.topic_id == NO_TOPIC_ID and name in topic_ids:
                nodes[TopicZNode.path(name)] = topic._replace(topic_id=topic_ids[name]).encode()
        return replace(self, nodes=nodes)

    def own_keys(self) -> list[str]:
        """The settings that ``for_kafka`` leaves out, in words."""
        return [
            f"{key} of {kind} {name}"
            for kind in KINDS
            for name, config in sorted(self.configs(kind).items())
            for key in sorted(config)
            if is_own(key)
        ]

    def with_ids_taken(self, broker_ids: Iterable[int], reserved_max: int) -> "MetadataTree":
        """The same, so that none of these ids is generated again; generated ids are above ``reserved_max``."""
        sequence = max(broker_ids, default=0) - reserved_max
        return replace(self, broker_id_sequence=max(self.broker_id_sequence, sequence))

    def with_own_keys_of(self, other: "MetadataTree") -> "MetadataTree":
        """The same with what a ZooKeeper could not keep of ``other``: features, and own keys of nodes that exist."""
        nodes = dict(self.nodes)
        if FeatureZNode.PATH in other.nodes:
            nodes[FeatureZNode.PATH] = other.nodes[FeatureZNode.PATH]
        for kind in KINDS:
            here = self.configs(kind)
            for name, config in other.configs(kind).items():
                path = f"{ConfigZNode.kind_path(kind)}/{name}"
                own = {key: value for key, value in config.items() if is_own(key)}
                if own and path in nodes:
                    nodes[path] = ConfigZNode.encode({**own, **here.get(name, {})})
        return replace(self, nodes=nodes)

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The brokers of every partition."""
        return {
            TopicPartition(name, index): assigned.replicas
            for name, topic in self.topics().items()
            for index, assigned in topic.partitions.items()
        }

    def check(self) -> None:
        """Raise MetadataError, naming the node, on what no broker could start with."""
        if self.cluster_id is None:
            raise MetadataError("there is no cluster's metadata there: it has no /cluster/id")
        for name, topic in self.topics().items():
            _check_topic(name, topic)
        for partition in self.replicas():
            state = self.state(partition)
            if state is not None and not _are_brokers(state.isr):
                raise MetadataError(f"{PartitionStateZNode.path(partition)} names no brokers in sync: {state.isr}")
        for kind in KINDS:
            self.configs(kind)
        _ = self.controller_epoch, self.producer_ids

    def _below(self, parent: str) -> list[str]:
        prefix = parent + "/"
        below = (path[len(prefix) :] for path in self.nodes if path.startswith(prefix))
        return [name for name in below if "/" not in name]

    def _at(self, path: str, decode: Callable[[bytes | None], _T]) -> _T | None:
        data = self.nodes.get(path)
        if not data:
            return None
        try:
            return decode(data)
        except (ValueError, TypeError, AttributeError) as error:
            raise MetadataError(f"{path} does not hold what Kafka keeps there: {error}") from error


def _check_topic(name: str, topic: TopicZNode) -> None:
    try:
        check_name(name)
    except InvalidTopicError as error:
        raise MetadataError(f"{TopicZNode.path(name)}: {error}") from error
    for index, assigned in topic.partitions.items():
        if not assigned.replicas or not _are_brokers(assigned.replicas):
            raise MetadataError(f"{TopicZNode.path(name)} names no brokers for partition {index}")


def _are_brokers(ids: Sequence[object]) -> bool:
    return all(type(each) is int and each >= 0 for each in ids)


def is_carried(path: str) -> bool:
    """Whether a persistent node at ``path`` is part of the metadata."""
    if any(path.startswith(note + "/") for note in NOTES):
        return False
    return any(path == root or path.startswith(root + "/") for root in ROOTS)
