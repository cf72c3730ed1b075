"""Where a group's offsets are: in ZooKeeper, in Kafka (its coordinator), or in both.

``offsets.storage`` chooses the store that counts. With ``offsets.storage=kafka`` and ``dual.commit.enabled=true`` every
commit goes to Kafka and then to ZooKeeper, and the larger of the two offsets is where a consumer starts. A group moves
from ZooKeeper to Kafka in two rounds of restarts: first both settings, then ``dual.commit.enabled=false``.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, check
from kafkapy.clients.groups import commit
from kafkapy.clients.original.registry import Registry, RegistryError, bootstrap_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafkapy.types import NO_OFFSET

Place = tuple[str, int]
"""Topic and partition."""
_NONE_COMMITTED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class OffsetStore(Protocol):
    """Committed offsets of one group: of each partition the next record to read."""

    def fetch(self, places: Iterable[Place]) -> dict[Place, int]:
        """The committed offsets of these partitions, NO_OFFSET where there is none. Raises ClientError."""
        ...

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Commit; raises ClientError, after which some may be committed."""
        ...

    def close(self) -> None:
        """Close connections, not the registry."""
        ...


class ZooKeeperOffsets:
    """``/consumers/<group>/offsets/<topic>/<partition>``, which holds the offset in decimal."""

    def __init__(self, registry: Registry, group_id: str) -> None:
        self._registry = registry
        self._root = f"/consumers/{group_id}/offsets"
        self._written: dict[Place, int] = {}

    def fetch(self, places: Iterable[Place]) -> dict[Place, int]:
        """See ``OffsetStore.fetch``; raises RegistryError also for a node that holds no number."""
        found = {}
        for place in places:
            content = self._registry.get(self._path(place))
            try:
                found[place] = NO_OFFSET if content is None else int(content)
            except ValueError:
                raise RegistryError(
                    f"{self._path(place)} holds {content[:100]!r}, which is no offset: set it or delete the node"
                    if content is not None
                    else ""
                ) from None
        self._written = dict(found)
        return found

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """See ``OffsetStore.commit``. Offsets that have not changed are not written again."""
        for place, offset in offsets.items():
            if self._written.get(place) != offset:
                self._registry.set(self._path(place), b"%d" % offset)
                self._written[place] = offset

    def close(self) -> None:
        """See ``OffsetStore.close``."""

    def _path(self, place: Place) -> str:
        return f"{self._root}/{place[0]}/{place[1]}"


class KafkaOffsets:
    """The group's offsets at its coordinator; a ClientError makes the next call look for the coordinator again."""

    def __init__(self, registry: Registry, group_id: str, timeout_s: float) -> None:
        self._registry = registry
        self._group_id = group_id
        self._timeout_s = timeout_s
        self._client: ClusterClient | None = None

    def fetch(self, places: Iterable[Place]) -> dict[Place, int]:
        """See ``OffsetStore.fetch``."""
        found = dict.fromkeys(places, NO_OFFSET)
        indexes: dict[str, list[int]] = {}
        for topic, partition in found:
            indexes.setdefault(topic, []).append(partition)
        request = OffsetFetchRequest(self._group_id, [OffsetFetchRequestTopic(*pair) for pair in indexes.items()])

        def attempt() -> None:
            coordinator = self._connected().coordinator(self._group_id)
            answer = coordinator.call(request, OffsetFetchResponse)
            check(answer.error_code, what=f"group {self._group_id}")
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code not in _NONE_COMMITTED:
                        check(each.error_code, what=f"partition {topic.name}-{each.partition_index}")
                    found[topic.name, each.partition_index] = each.committed_offset

        try:
            if found:
                self._connected().retrying(attempt)
        except ClientError:
            self.close()
            raise
        return found

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """See ``OffsetStore.commit``. Unchanged offsets are committed too, so that they don't expire."""
        try:
            if offsets:
                commit(self._connected(), self._group_id, offsets)
        except ClientError:
            self.close()
            raise

    def close(self) -> None:
        """See ``OffsetStore.close``."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> ClusterClient:
        if self._client is None:
            bootstrap = bootstrap_of(self._registry)
            if not bootstrap:
                raise ClientError("no broker is registered: start one, or check zookeeper.connect")
            self._client = ClusterClient(bootstrap, self._timeout_s)
        return self._client


class DualOffsets:
    """Kafka's offsets, which ZooKeeper's follow: for a group whose members don't all look at the same store."""

    def __init__(self, kafka: KafkaOffsets, zookeeper: ZooKeeperOffsets) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    def fetch(self, places: Iterable[Place]) -> dict[Place, int]:
        """See ``OffsetStore.fetch``: the larger of the two offsets."""
        in_kafka = self._kafka.fetch(places)
        in_zookeeper = self._zookeeper.fetch(in_kafka)
        return {place: max(offset, in_zookeeper[place]) for place, offset in in_kafka.items()}

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """See ``OffsetStore.commit``: to Kafka, and if that succeeds to ZooKeeper."""
        self._kafka.commit(offsets)
        self._zookeeper.commit(offsets)

    def close(self) -> None:
        """See ``OffsetStore.close``."""
        self._kafka.close()
