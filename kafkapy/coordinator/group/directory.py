"""Where groups are: on which partition of ``__consumer_offsets``, and whether this broker may speak for it.

Order of checks, as in Kafka: group id (24), running (15), leading (16) or loading (14), then the group (25).
"""

from collections.abc import Callable
from typing import Any, Protocol

from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.shard import Shard
from kafkapy.coordinator.placement import partition_for
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode


class Metadata(Protocol):
    """``MetadataCache``: what the cluster looks like."""

    @property
    def image(self) -> Any:
        """The present image; ``topics`` by name, each with its ``partitions``."""
        ...

    def add_listener(self, listener: Callable[..., Any], /) -> None:
        """Call ``listener(image, deleted partitions)`` after each change."""
        ...


class Directory:
    """Finds the shard and the group of an id; every miss is an error code."""

    def __init__(self, shards: dict[int, Shard], metadata: Metadata, configured_partitions: int) -> None:
        self._shards = shards
        self._metadata = metadata
        self._configured_partitions = configured_partitions
        self._partition_count: int | None = None
        self.is_running = False

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that keeps the group.

        The number of partitions is the topic's when first seen, as in Kafka: the configured one only creates it.
        """
        if self._partition_count is None:
            topic = self._metadata.image.topics.get(GROUP_METADATA_TOPIC)
            if topic is None:
                return partition_for(group_id, self._configured_partitions)
            self._partition_count = len(topic.partitions)
        return partition_for(group_id, self._partition_count)

    def shard(self, group_id: str) -> Shard | int:
        """The shard that keeps the group, or the error code that says why this broker can't."""
        if not self.is_running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        count = self._partition_count
        shard = self._shards.get(self.partition_for(group_id) if count is None else partition_for(group_id, count))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.is_loading else shard

    def named_shard(self, group_id: str) -> Shard | int:
        """The same for requests that need a group with a name."""
        return self.shard(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def group(self, group_id: str) -> Group | int:
        """For requests of members: their group has a name, exists, and is led here."""
        shard = self.named_shard(group_id)
        if isinstance(shard, int):
            return shard
        return shard.groups.get(group_id) or ErrorCode.UNKNOWN_MEMBER_ID
