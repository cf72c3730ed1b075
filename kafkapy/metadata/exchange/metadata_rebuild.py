"""Rebuild a cluster's metadata from a broker's data directories, when every copy of the metadata is lost.

The folders name the topics and partitions, and keep the topics' ids; ``meta.properties`` names the cluster and the
broker, and the leader epoch checkpoints have the last leader epochs. Used producer ids are in the producer snapshots,
except recent ones: the next block begins far above. The configurations of topics, brokers, clients and users, and ACLs,
are in no file of a partition, and are lost. So that no record is deleted by a default, topics keep everything
(``KEEP_ALL``) until an operator configures them; the internal topics get Apache Kafka's own configuration.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.exchange.metadata_checks import topic_ids_of
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS, internal_topic_shape
from kafkapy.metadata.znodes import (
    ClusterIdZNode,
    ConfigEntity,
    ConfigZNode,
    ControllerEpochZNode,
    LeaderIsr,
    PartitionStateZNode,
    ProducerIdBlockZNode,
    ReplicaAssignment,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicsZNode,
    TopicZNode,
)
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import decode, number
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.storage.errors import CorruptSnapshotError, MalformedCheckpointError
from kafkapy.storage.inspection.log_scan import LogScan
from kafkapy.storage.log.leader_epochs import LEADER_EPOCHS_NAME
from kafkapy.storage.log.producer_state import SUFFIX as SNAPSHOT_SUFFIX
from kafkapy.storage.log.producer_state import decode_snapshot
from kafkapy.storage.log.segment import LOG_SUFFIX
from kafkapy.types import TopicPartition

KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
UNSEEN_PRODUCER_IDS: Final = 1_000_000_000
"""The most producer ids that may have been used above the largest one in a snapshot."""
MAX_PARTITIONS: Final = 100_000
"""A larger number in a folder's name is taken for a mistake."""

_CONTROLLER_EPOCH: Final = 1


def rebuilt(
    files: Files, directories: Sequence[DataDirectory], identity: MetaProperties | None, config: BrokerConfig
) -> tuple[MetadataTree, list[str]]:
    """Return the metadata, and sentences about it that a user should read.

    Raises ``MetadataError`` when ``meta.properties`` does not say whose the directories are, and ``OSError``.
    """
    if identity is None or identity.broker_id is None or identity.cluster_id is None:
        raise MetadataError(f"no meta.properties in {', '.join(each.path for each in directories)} says whose they are")
    homes = {partition: each for each in directories for partition in each.list_partitions().partitions}
    folders = {partition: each.partition_path(partition) for partition, each in homes.items()}
    nodes: dict[str, bytes | None] = {
        ClusterIdZNode.PATH: ClusterIdZNode.encode(identity.cluster_id),
        ControllerEpochZNode.PATH: ControllerEpochZNode.encode(_CONTROLLER_EPOCH),
        TopicsZNode.PATH: None,
        ConfigZNode.kind_path("topics"): None,
    }
    counts: dict[str, int] = {}
    for partition, folder in folders.items():
        if partition.partition >= MAX_PARTITIONS:
            raise MetadataError(f"{folder} would be one of more than {MAX_PARTITIONS} partitions; move it elsewhere")
        counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
    said = []
    for topic, count in sorted(counts.items()):
        said += _add_topic(nodes, topic, count, identity.broker_id, config)
    last = -1
    for partition, folder in sorted(folders.items()):
        state = LeaderIsr(identity.broker_id, _last_epoch(files, folder) + 1, (identity.broker_id,), _CONTROLLER_EPOCH)
        nodes[TopicPartitionZNode.path(partition)] = None
        nodes[PartitionStateZNode.path(partition)] = PartitionStateZNode.encode(state)
        last = max(last, *_producer_ids(files, folder), -1)
    said += [
        f"{topic} partition {index} has no folder and will be empty"
        for topic, count in sorted(counts.items())
        for index in range(count)
        if TopicPartition(topic, index) not in folders
    ]
    first = last + 1 + UNSEEN_PRODUCER_IDS
    block = ProducerIdBlockZNode(identity.broker_id, first - 1, first - 1)
    nodes[ProducerIdBlockZNode.PATH] = block.encode()
    said.append(
        "configurations of topics, brokers, clients and users, and ACLs, could not be recovered: topics keep every "
        "record until you set their retention.ms, retention.bytes and cleanup.policy"
    )
    return MetadataTree(nodes).with_topic_ids(topic_ids_of(homes)), said


def _add_topic(
    nodes: dict[str, bytes | None], topic: str, count: int, broker_id: int, config: BrokerConfig
) -> list[str]:
    """Add a topic's nodes; return sentences that a user should read."""
    said = []
    settings = KEEP_ALL
    if topic in INTERNAL_TOPICS:
        usual, _, settings = internal_topic_shape(topic, config)
        if count != usual:
            said.append(f"{topic} has {count} partitions here and {usual} by the configuration: are folders missing?")
    assigned = {index: ReplicaAssignment((broker_id,)) for index in range(count)}
    nodes[TopicZNode.path(topic)] = TopicZNode(assigned).encode()
    nodes[TopicPartitionsZNode.path(topic)] = None
    nodes[ConfigZNode.path(ConfigEntity.topic(topic))] = ConfigZNode.encode(settings)
    return said


def _last_epoch(files: Files, folder: str) -> int:
    """The last leader epoch of a partition, from its checkpoint or its batches; -1 without either."""
    with suppress(ValueError, MalformedCheckpointError, FileNotFoundError):
        entries = [number(epoch) for epoch, _ in decode(files.read(f"{folder}/{LEADER_EPOCHS_NAME}"), 2)]
        if entries:
            return max(entries)
    logs = [path for path, size in _files_of(files, folder, LOG_SUFFIX) if size]
    batches = (each.header for path in logs for each in LogScan(files, path))
    return max((header.partition_leader_epoch for header in batches), default=-1)


def _producer_ids(files: Files, folder: str) -> Iterator[int]:
    """The producer ids that a partition's snapshots name; a damaged snapshot names none."""
    for path, _ in _files_of(files, folder, SNAPSHOT_SUFFIX):
        with suppress(CorruptSnapshotError):
            yield from (entry.producer_id for entry in decode_snapshot(files.read(path)))


def _files_of(files: Files, folder: str, suffix: str) -> list[tuple[str, int]]:
    """The paths and sizes of a folder's files whose names end with ``suffix``."""
    return [
        (f"{folder}/{name}", size) for name, size in files.list_directory(folder) if name.endswith(suffix) and size >= 0
    ]
