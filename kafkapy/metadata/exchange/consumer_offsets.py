"""Committed offsets in the metadata tree, where Kafka kept them before ``__consumer_offsets`` (0.8.2).

``/consumers/<group>/offsets/<topic>/<partition>`` holds an offset in decimal. OffsetCommit and OffsetFetch version 0
read and write it, and the oldest clients read and write it themselves; no other code reads it, and nothing deletes it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import UnknownTopicOrPartitionError
from kafkapy.metadata.store import MetadataStore, Node, NoNodeError, SetData, StoreError, ensure_path
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import TopicPartition

LONGEST_GROUP_ID: Final = 1_000
"""Characters of a group that may commit. Four paths have the name in them, in memory and on disk, for ever."""
FORBIDDEN_IN_PATH: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|//|/\\.{1,2}(/|$)|/$")
"""Characters that ZooKeeper does not allow in a path; Java encodes characters above U+FFFF as surrogates."""


class ConsumerOffsetZNode:
    """``/consumers/<group>/offsets/<topic>/<partition>``."""

    @staticmethod
    def path(group_id: str, partition: TopicPartition) -> str:
        """The path of the offset; raises ValueError for a group whose name can't be a part of a path."""
        path = f"/consumers/{group_id}/offsets/{partition.topic}/{partition.partition}"
        if FORBIDDEN_IN_PATH.search(path):
            raise ValueError(f"no path can have the group {group_id!r} in it")
        return path

    @staticmethod
    def encode(offset: int) -> bytes:
        """Plain text."""
        return str(offset).encode()

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        """The offset, None if the node is empty; raises ValueError if the data is no number."""
        return None if data is None else int(data)


class FetchedTreeOffset(NamedTuple):
    """The result for a partition: an error code (0: none) and an offset (-1: none)."""

    error_code: int
    offset: int = -1


async def commit(
    store: MetadataStore, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Set each offset separately; returns an error code for each (0: done)."""
    if len(group_id) > LONGEST_GROUP_ID:
        return dict.fromkeys(offsets, ErrorCode.INVALID_GROUP_ID)
    try:
        paths = {partition: ConsumerOffsetZNode.path(group_id, partition) for partition in offsets}
    except ValueError:
        return dict.fromkeys(offsets, ErrorCode.UNKNOWN_SERVER_ERROR)
    writes = [[SetData(path, ConsumerOffsetZNode.encode(offsets[each]))] for each, path in paths.items()]
    errors = {}
    try:
        outcomes = await store.transactions(writes)
        for (partition, path), outcome in zip(paths.items(), outcomes, strict=True):
            if isinstance(outcome, NoNodeError):
                await ensure_path(store, path, ConsumerOffsetZNode.encode(offsets[partition]))
                errors[partition] = 0
            else:
                errors[partition] = _code(outcome) if isinstance(outcome, StoreError) else 0
    except StoreError as error:
        return {**dict.fromkeys(offsets, _code(error)), **errors}
    return errors


async def fetch(
    store: MetadataStore, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, FetchedTreeOffset]:
    """The offset of each partition; UNKNOWN_TOPIC_OR_PARTITION for one without an offset."""
    wanted = list(partitions)
    try:
        nodes = await store.get_many([ConsumerOffsetZNode.path(group_id, partition) for partition in wanted])
    except ValueError:
        return dict.fromkeys(wanted, FetchedTreeOffset(ErrorCode.UNKNOWN_SERVER_ERROR))
    except StoreError as error:
        return dict.fromkeys(wanted, FetchedTreeOffset(_code(error)))
    return {partition: _fetched(node) for partition, node in zip(wanted, nodes, strict=True)}


def _fetched(node: Node | None) -> FetchedTreeOffset:
    try:
        offset = None if node is None else ConsumerOffsetZNode.decode(node.data)
    except ValueError:
        return FetchedTreeOffset(ErrorCode.UNKNOWN_SERVER_ERROR)
    if offset is None:
        return FetchedTreeOffset(UnknownTopicOrPartitionError.error_code)
    return FetchedTreeOffset(0, offset)


def _code(error: StoreError) -> int:
    return error.error_code if isinstance(error, BrokerError) else ErrorCode.UNKNOWN_SERVER_ERROR
