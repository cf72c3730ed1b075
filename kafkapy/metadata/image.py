"""The image of the cluster's metadata that a broker keeps: immutable, replaced as a whole by each UpdateMetadata.

Handlers read ``MetadataCache.image`` and need no lock; two reads of one image always agree. UpdateMetadata replaces
the live brokers and adds, updates or (leader -2) removes single partitions.

After a broker has registered, the controller sends it the metadata in one request or in several, in an order that
depends on the controller. Until all have arrived, the image is partial: a topic that it lacks may exist, and a topic
that it has may have more partitions. So the broker reads the partitions of all topics from the metadata store before it
registers (``metadata/expected.py``) and passes them to ``expect``. The image ``is_whole`` when it has all of them.
Three rules follow:

- ``lacks`` is the only way to conclude that a partition does not exist;
- requests whose answer depends on what exists wait until the image has been whole (``Api.needs_whole_image``). A broker
  that registers again, because its session has expired, answers from the image that it has, as Apache Kafka does;
- the number of partitions of an internal topic comes from the metadata store (``partition_counts``), never from the
  image.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from kafkapy.turns import Steps
from kafkapy.types import LEADER_DURING_DELETE, TopicPartition

SECURITY_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_PROTOCOL_NAMES: Final = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}


class Endpoint(NamedTuple):
    """The address of a broker's listener."""

    host: str
    port: int
    security_protocol: str


class BrokerInfo(NamedTuple):
    """A live broker; ``endpoints`` by listener name."""

    id: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition as the controller last described it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    controller_epoch: int = -1
    zk_version: int = 0


class TopicImage(NamedTuple):
    """A topic and its partitions by number."""

    name: str
    partitions: Mapping[int, PartitionInfo]
    topic_id: UUID = ZERO_UUID


class MetadataImage(NamedTuple):
    """The cluster at one moment.

    ``controller_id`` is -1 before the first UpdateMetadata; ``replica_count`` is that of all partitions together.
    """

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, BrokerInfo] = MappingProxyType({})
    topics: Mapping[str, TopicImage] = MappingProxyType({})
    replica_count: int = 0
    topic_names: Mapping[UUID, str] = MappingProxyType({})
    """The names of the topics that have an id, by id."""

    def topic_id(self, name: str) -> UUID:
        """The id of a topic; ``ZERO_UUID`` if the topic is not known, or has no id."""
        found = self.topics.get(name)
        return ZERO_UUID if found is None else found.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """The topic that has this id now; None if there is none."""
        return self.topic_names.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """One partition, or None when it is not known."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)


Listener = Callable[[MetadataImage, list[TopicPartition]], None]
Predicate = Callable[[MetadataImage], bool]
OnCount = Callable[[int], None]


class MetadataCache:
    """Holds the current image, and calls listeners and ends waits when it changes."""

    def __init__(self, cluster_id: str | None = None) -> None:
        self.image = MetadataImage(cluster_id)
        self.derived: dict[Hashable, object] = {}
        """Values derived from ``image``, each by the key of its use; emptied when the image changes."""
        self.is_whole = False
        """Whether the image has all partitions that existed when this broker registered, and live brokers."""
        self.has_been_whole = False
        """Whether the image was whole at any time since the start."""
        self.partition_counts: dict[str, int] = {}
        """By name, the number of partitions of each internal topic that is in the metadata store."""
        self._missing: set[TopicPartition] = set()
        self._on_count: dict[str, OnCount] = {}
        self._listeners: list[Listener] = []
        self._waiting: dict[asyncio.Future[bool], Predicate] = {}
        self._is_stopping = False

    def set_cluster_id(self, cluster_id: str) -> None:
        """Set the cluster's id, which the store has before the first UpdateMetadata."""
        self.image = self.image._replace(cluster_id=cluster_id)
        self.derived.clear()

    def lacks(self, topic: str, partition: int) -> bool:
        """Tell whether the cluster does not have the partition: never true while the image is partial."""
        return self.is_whole and self.image.partition(topic, partition) is None

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the partitions that exist before this broker registers: the image is partial until it has them all."""
        partition = self.image.partition
        self._missing = {each for each in partitions if partition(*each) is None}
        self._update_whole()

    def missing(self, most: int) -> list[TopicPartition]:
        """Up to ``most`` of the expected partitions that the image lacks."""
        return list(islice(self._missing, most))

    def stop_expecting(self, partitions: Iterable[TopicPartition]) -> None:
        """Treat the image as whole without these partitions: they have been deleted since ``expect``."""
        self._missing.difference_update(partitions)
        self._update_whole()
        self._end_fulfilled_waits()

    def set_partition_count(self, topic: str, count: int) -> None:
        """Set the number of partitions of an internal topic. Further ones count after a restart, as in Kafka."""
        if topic in self.partition_counts:
            return
        self.partition_counts[topic] = count
        if topic in self._on_count:
            self._on_count[topic](count)
        self._end_fulfilled_waits()

    def when_counted(self, topic: str, on_count: OnCount) -> None:
        """Call ``on_count`` with the number of partitions of an internal topic: now, or as soon as it is known."""
        self._on_count[topic] = on_count
        if topic in self.partition_counts:
            on_count(self.partition_counts[topic])

    def has_id(self, topic: str, topic_id: UUID) -> bool:
        """Tell whether a topic has this id: not one that was created in place of another."""
        found = self.image.topics.get(topic)
        return found is not None and found.topic_id == topic_id

    def is_alive(self, broker_id: int) -> bool:
        """Tell whether the broker is registered, by the last UpdateMetadata."""
        return broker_id in self.image.brokers

    def racks(self, topic_partition: TopicPartition, listener: str) -> dict[int, str | None]:
        """Return the racks of a partition's replicas whose brokers are alive and have ``listener``."""
        found = self.image.partition(*topic_partition)
        brokers = [self.image.brokers.get(each) for each in (() if found is None else found.replicas)]
        return {each.id: each.rack for each in brokers if each is not None and listener in each.endpoints}

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener(image, deleted partitions)`` after each change; it must not raise."""
        self._listeners.append(listener)

    def apply(self, request: UpdateMetadataRequest) -> Steps[list[TopicPartition]]:
        """Apply a request of the controller; the result is the partitions that it deleted.

        A step is a partition; the image changes at the end, as a whole.
        """
        while True:
            before = self.image
            changes = _Changes(before, self._missing)
            yield from changes.take(request)
            if self.image is before:  # else another request was applied between two steps
                break
        deleted = changes.deleted
        self.image = MetadataImage(
            before.cluster_id,
            request.controller_id,
            {broker.id: _broker(broker) for broker in request.live_brokers},
            changes.topics,
            changes.replica_count,
            changes.topic_names,
        )
        self.derived.clear()
        self._missing.difference_update(changes.arrived)
        self._update_whole()
        for listener in self._listeners:
            listener(self.image, deleted)
        self._end_fulfilled_waits()
        return deleted

    def _update_whole(self) -> None:
        self.is_whole = not self._missing and bool(self.image.brokers)
        self.has_been_whole = self.has_been_whole or self.is_whole

    def _end_fulfilled_waits(self) -> None:
        for future, predicate in list(self._waiting.items()):
            if not future.done() and predicate(self.image):
                future.set_result(True)

    async def wait_until_whole(self, timeout_ms: float, clock: Clock) -> bool:
        """Wait until the image has been whole; False if the time is over first."""
        return await self.wait_until(lambda _: self.has_been_whole, timeout_ms, clock)

    async def wait_until(self, predicate: Predicate, timeout_ms: float, clock: Clock) -> bool:
        """Wait until the image satisfies ``predicate``; False if the time is over first."""
        if predicate(self.image):
            return True
        if timeout_ms <= 0 or self._is_stopping:
            return False
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[future] = predicate
        timer = clock.call_later(timeout_ms, _give_up, future)
        try:
            return await future
        finally:
            timer.cancel()
            del self._waiting[future]

    def end_waits(self) -> None:
        """End every ``wait_until`` as if its time were over."""
        for future in list(self._waiting):
            _give_up(future)

    def stop_waits(self) -> None:
        """End every ``wait_until`` now and from now on: the broker stops, and no change of the image follows."""
        self._is_stopping = True
        self.end_waits()


def _give_up(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(False)


class _Changes:
    """The topics of an image while an UpdateMetadata request is applied to them."""

    def __init__(self, before: MetadataImage, missing: Set[TopicPartition]) -> None:
        self._missing = missing
        self.arrived: list[TopicPartition] = []
        """Those of the missing partitions that the request has."""
        self.topics = dict(before.topics)
        self.topic_names = dict(before.topic_names)
        self.replica_count = before.replica_count
        self.deleted: list[TopicPartition] = []

    def take(self, request: UpdateMetadataRequest) -> Steps[None]:
        """Apply the partitions of ``request``; old versions name the topic in each partition."""
        for topic in request.topic_states:
            yield from self._update_topic(topic.topic_name, topic.partition_states, topic.topic_id)
        ungrouped: dict[str, list[UpdateMetadataPartitionState]] = {}
        for state in request.ungrouped_partition_states:
            ungrouped.setdefault(state.topic_name, []).append(state)
        for name, states in ungrouped.items():
            yield from self._update_topic(name, states)

    def _update_topic(
        self, name: str, states: Iterable[UpdateMetadataPartitionState], topic_id: UUID = ZERO_UUID
    ) -> Steps[None]:
        """Apply the states of a topic's partitions; a controller of an older version gives no id, which stays then."""
        known = self.topics.get(name)
        partitions = {} if known is None else dict(known.partitions)
        for state in states:
            yield
            index = state.partition_index
            if (name, index) in self._missing:
                self.arrived.append(TopicPartition(name, index))
            replaced = partitions.pop(index, None) if state.leader == LEADER_DURING_DELETE else partitions.get(index)
            if replaced is not None:
                self.replica_count -= len(replaced.replicas)
            if state.leader == LEADER_DURING_DELETE:
                self.deleted.append(TopicPartition(name, index))
            else:
                partitions[index] = _partition(state)
                self.replica_count += len(state.replicas)
        before = ZERO_UUID if known is None else known.topic_id
        topic_id = before if topic_id == ZERO_UUID else topic_id
        self.topic_names.pop(before, None)
        if partitions:
            self.topics[name] = TopicImage(name, partitions, topic_id)
            if topic_id != ZERO_UUID:
                self.topic_names[topic_id] = name
        else:
            self.topics.pop(name, None)


def _partition(state: UpdateMetadataPartitionState) -> PartitionInfo:
    return PartitionInfo(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        tuple(state.offline_replicas),
        state.controller_epoch,
        state.zk_version,
    )


def _broker(broker: UpdateMetadataBroker) -> BrokerInfo:
    endpoints = {
        endpoint.listener or _PROTOCOL_NAMES.get(endpoint.security_protocol, ""): Endpoint(
            endpoint.host, endpoint.port, _PROTOCOL_NAMES.get(endpoint.security_protocol, "PLAINTEXT")
        )
        for endpoint in broker.endpoints
    }
    if not endpoints:
        endpoints = {"PLAINTEXT": Endpoint(broker.v0_host, broker.v0_port, "PLAINTEXT")}
    return BrokerInfo(broker.id, endpoints, broker.rack)
