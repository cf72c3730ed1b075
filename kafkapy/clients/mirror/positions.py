"""The positions of a mirror: offsets of the source, committed for a group on the target, with where they come from.

The metadata of each committed offset has parts with ``;`` between them:

- the path of the topic: the id of the cluster that it is copied from, and before it those that this cluster has it
  from, with commas. So a mirror knows what is a copy of what it would write to.
- where the copied records are on the target, see ``offset_map.py``. It is here because it is thus committed together
  with the position, in the same transaction if there is one.
- of the first partition: which keys of the topic's configuration were copied, see ``settings.py``.

The position of a partition is committed before its first record is produced: a target with records of a mirror has its
position.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.clients.mirror.common import Place
from kafkapy.clients.mirror.offset_map import MirrorOffsetMap
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_UNSTABLE = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})
FIRST_WITH_STABLE = 7
"""The first version of OffsetFetch that tells whether a transaction may still change an offset."""


class Position(NamedTuple):
    """The source's offset up to which a partition is copied, and the other parts of its metadata.

    ``offset_map`` is empty where the target refuses long metadata, and None in a text that no mirror has committed.
    ``configs`` is None where nothing is known of the topic's configuration, as for partitions other than 0.
    """

    offset: int
    path: str
    offset_map: str | None = None
    configs: str | None = None

    @property
    def metadata(self) -> str:
        """The text to commit with the offset."""
        parts = (self.path, self.offset_map, self.configs)
        return ";".join(part for part in parts if part is not None)

    @property
    def origin(self) -> str:
        """The id of the cluster that the partition is copied from; empty if the position is not one of a mirror."""
        is_of_mirror = self.offset_map == "" or MirrorOffsetMap.decode(self.offset_map or "") is not None
        return self.path.split(",")[0] if is_of_mirror else ""

    def shortened(self) -> "Position":
        """The position alone, for a target that refuses long metadata."""
        return Position(self.offset, self.path, "")


def position_of(offset: int, metadata: str) -> Position:
    """The position that a committed offset with this metadata is."""
    return Position(offset, *metadata.split(";")[:3])


def positions(client: ClusterClient, group: str) -> dict[Place, Position]:
    """All positions of a group; waits (10 s) for the end of a transaction that changes one. RequestFailedError."""

    def attempt() -> dict[Place, Position]:
        coordinator = client.coordinator(group)
        request = OffsetFetchRequest(group, None)
        request.require_stable = coordinator.version_for(request) >= FIRST_WITH_STABLE
        answer = coordinator.call(request, OffsetFetchResponse)
        check(answer.error_code, what=f"group {group}")
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, what=f"group {group}, {topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    found[topic.name, each.partition_index] = position_of(each.committed_offset, each.metadata or "")
        return found

    return client.retrying(attempt, also=_UNSTABLE)


def commit(client: ClusterClient, group: str, changed: Mapping[Place, Position]) -> None:
    """Store positions outside of a transaction. Raises RequestFailedError, also if the group has members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), position in changed.items():
        part = OffsetCommitRequestPartition(index, position.offset, committed_metadata=position.metadata)
        topics.setdefault(topic, []).append(part)
    request = OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(topic, partitions=rows) for topic, rows in topics.items()]
    )

    def attempt() -> None:
        for topic in client.coordinator(group).call(request, OffsetCommitResponse).topics:
            for each in topic.partitions:
                check(each.error_code, what=f"group {group}, {topic.name}-{each.partition_index}")

    client.retrying(attempt)
