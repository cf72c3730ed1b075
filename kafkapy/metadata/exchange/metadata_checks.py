"""Checks whether a tree and a broker's data directories belong together, and whether all partitions would be served."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.log_config import FIELD_OF, LogConfig
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from kafkapy.metadata.znodes import PartitionStateZNode, ReplicaAssignment, TopicZNode
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.types import NO_TOPIC_ID, TopicPartition

_NAMED = 5


class Directories(NamedTuple):
    """The content of a broker's data directories."""

    identity: MetaProperties | None
    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, UUID] = {}
    """The ids of topics that the partitions' folders keep, each from the partition with the lowest number."""

    @classmethod
    def read(cls, directories: Sequence[DataDirectory]) -> "Directories":
        """Read the directories; raises MetadataError if they belong to different brokers, or hold a foreign folder."""
        found = {identity for each in directories if (identity := each.read_identity()) is not None}
        if len(found) > 1:
            raise MetadataError(f"the data directories belong to different brokers: {sorted(map(str, found))}")
        try:
            homes = {partition: each for each in directories for partition in each.list_partitions().partitions}
        except LogDirectoryError as error:
            raise MetadataError(str(error)) from error
        return cls(found.pop() if found else None, frozenset(homes), topic_ids_of(homes))


def topic_ids_of(homes: Mapping[TopicPartition, DataDirectory]) -> dict[str, UUID]:
    """Return the id of each topic that a folder keeps, by the partitions' directories; raises ``OSError``."""
    ids: dict[str, UUID] = {}
    for partition, directory in sorted(homes.items(), reverse=True):
        topic_id = directory.topic_id(partition)
        if topic_id != NO_TOPIC_ID:
            ids[partition.topic] = topic_id
    return ids


def check_identity(tree: MetadataTree, directories: Directories, where: str) -> None:
    """Raise MetadataError when ``where``'s meta.properties names another cluster than the tree."""
    found = directories.identity
    if found is not None and found.cluster_id not in (None, tree.cluster_id):
        raise MetadataError(
            f"{where} belongs to cluster {found.cluster_id} (meta.properties), the metadata to {tree.cluster_id}: "
            "no broker would start on the two together"
        )


def check_topic_configs(tree: MetadataTree) -> list[str]:
    """Raise MetadataError on a topic's setting that no broker starts with; return a warning about ignored settings."""
    unknown, defaults = [], BrokerConfig.from_properties({})
    for topic, config in sorted(tree.configs("topics").items()):
        try:
            LogConfig.resolve(defaults, config)
        except InvalidConfigError as error:
            raise MetadataError(f"/config/topics/{topic}: {error}") from error
        unknown += [f"{key} of {topic}" for key in config if key not in FIELD_OF]
    return [f"topics' settings that kafkapy does not know and ignores: {', '.join(unknown)}"] if unknown else []


def warnings(tree: MetadataTree, directories: Directories) -> list[str]:
    """Return sentences that a user should read before a broker starts on both."""
    assigned = tree.replicas()
    broker_id = None if directories.identity is None else directories.identity.broker_id
    here = {partition for partition, replicas in assigned.items() if broker_id is None or broker_id in replicas}
    started = {partition for partition in here if tree.state(partition) is not None}
    doomed = tree.topics_to_delete()
    missing = sorted(each for each in started - directories.partitions if each.topic not in doomed)
    unknown = sorted(directories.partitions - assigned.keys())
    said = []
    if missing and directories.partitions:
        said.append(f"partitions without a folder, which will be empty: {_listed(missing)}")
    if unknown:
        said.append(f"folders of topics that the metadata does not know, which are not served: {_listed(unknown)}")
    if broker_id is not None and assigned and not here:
        said.append(f"no partition has a replica on broker {broker_id}, whose data directory this is")
    return said


def require_one_broker(tree: MetadataTree, broker_id: int | None) -> None:
    """Raise MetadataError unless every partition has its replica on ``broker_id`` (None: all on one broker)."""
    sets = {tuple(replicas) for replicas in tree.replicas().values()}
    expected = (broker_id,) if broker_id is not None else next(iter(sets), ())
    foreign = {broker for replicas in sets for broker in replicas} - set(expected)
    if foreign or len(expected) > 1:
        everyone = ", ".join(map(str, sorted(foreign | set(expected))))
        raise MetadataError(
            f"the partitions are spread over the brokers {everyone}, and a kafkapy with its own metadata is one "
            "broker: move all partitions to it first (kafka-reassign-partitions), or give --only-this-broker to take "
            "over the replicas of this data directory alone"
        )


def only_of_broker(tree: MetadataTree, broker_id: int) -> MetadataTree:
    """The tree of a cluster that has no broker but this one: its replica of each partition leads.

    Raises MetadataError when a partition has no replica here, or one that was not in sync and lacks records.
    """
    nodes = dict(tree.nodes)
    lost = []
    for name, topic in tree.topics().items():
        kept = {index: ReplicaAssignment((broker_id,)) for index in topic.partitions}
        for index in topic.partitions:
            partition = TopicPartition(name, index)
            state = tree.state(partition)
            if state is None or broker_id not in state.isr:
                lost.append(partition)
                continue
            led = state._replace(leader=broker_id, leader_epoch=state.leader_epoch + 1, isr=(broker_id,))
            nodes[PartitionStateZNode.path(partition)] = PartitionStateZNode.encode(led)
        nodes[TopicZNode.path(name)] = topic._replace(partitions=kept).encode()
    if lost:
        raise MetadataError(
            f"broker {broker_id} is not in sync for {_listed(sorted(lost))}: what is there would be lost; move these "
            "partitions to it first (kafka-reassign-partitions)"
        )
    return MetadataTree(nodes, tree.broker_id_sequence, tree.live_brokers)


def _listed(partitions: Sequence[TopicPartition]) -> str:
    named = ", ".join(map(str, partitions[:_NAMED]))
    return named if len(partitions) <= _NAMED else f"{named} and {len(partitions) - _NAMED} more"
