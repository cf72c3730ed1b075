"""The brokers behind ``Cluster``; all methods run on their event loop."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from itertools import combinations
from typing import Final

from kafkapy.clock import SystemClock
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import MetadataImage, PartitionInfo
from kafkapy.records.record import Record
from kafkapy.server.lifecycle.broker import START_FAILURES
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.contents import records
from kafkapy.testing.contents.records import RecordSelection, TopicRecord, place
from kafkapy.testing.contents.topics import TopicShape, create_topic, delete_topic, elect_preferred_leaders
from kafkapy.testing.errors import BrokerNotRunningError, BrokerStartError, NotInTimeError, unknown
from kafkapy.testing.hosting.cluster_directory import ClusterDirectory
from kafkapy.testing.hosting.helpers import Helpers
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.links import Links
from kafkapy.testing.hosting.settings import cluster_defaults
from kafkapy.testing.loop.waiting import LOOK_EVERY_MS, Deadline, until
from kafkapy.types import TopicPartition

SETTLED_S: Final = 30.0
"""How long a cluster may take to notice a start or a stop, or to elect a controller."""
CATCH_UP_S: Final = 10.0
"""How long the start of a cluster with kept data waits for the followers, before leaders are elected."""


class HostedCluster:
    """The brokers of one cluster, their metadata, their clock, and the connections between them.

    With ``data`` the records and the metadata are kept in that directory; without it both end with the cluster.
    ``defaults`` are the settings of all brokers unless those of a broker say otherwise.
    """

    def __init__(
        self,
        hosts: Iterable[HostedBroker],
        topics: Iterable[str] | Mapping[str, int] = (),
        *,
        data: str | os.PathLike[str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self.hosts: Final = tuple(hosts)
        self.clock: Final = MovingClock()
        self.links: Final = Links()
        self.directory: Final = None if data is None else ClusterDirectory(data)
        self.defaults: Final = cluster_defaults(len(self.hosts)) if defaults is None else defaults
        self.store = EmbeddedStore(None, self.clock)
        self._topics: dict[str, int] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._is_closing = False
        self._last_image = MetadataImage()
        for broker_id, host in enumerate(self.hosts):
            host.join(self, broker_id)

    # lifecycle

    async def start(self) -> None:
        """Start every broker, the first one as the controller, and create the topics.

        Raises ``BrokerStartError`` after releasing everything.
        """
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.close)
            has_data = await self._open_directory()
            first, *others = self.hosts
            await first.start()
            started = await asyncio.gather(*(host.start() for host in others), return_exceptions=True)
            for error in filter(None, started):
                raise error
            if has_data:
                await self._elect_preferred_leaders()
            for topic, partitions in self._topics.items():
                await self.create_topic(topic, TopicShape(partitions), exist_ok=has_data)
            on_failure.pop_all()

    async def _open_directory(self) -> bool:
        """Open the kept metadata, if data are kept; return whether the cluster has been started before."""
        if self.directory is None:
            return False
        try:
            cluster_id = self.directory.open(len(self.hosts))
            self.store = EmbeddedStore(self.directory.store_path, self.clock)
            await self.store.open(cluster_id)
        except START_FAILURES as error:
            raise BrokerStartError(str(error)) from error
        return cluster_id is not None

    async def _elect_preferred_leaders(self) -> None:
        """Give leadership back to the preferred replicas: the first broker led everything when it was alone."""
        with suppress(NotInTimeError):  # replicas that need longer are elected by the controller's own check
            await self.in_sync(None, CATCH_UP_S)
        await elect_preferred_leaders((await self.controller()).requests)

    async def close(self, *, cleanly: bool | None = None) -> None:
        """End every broker, the controller last, and release ports and directories; may be called repeatedly.

        ``cleanly`` closes the logs, so that the next start need not recover them; by default it is done where data are
        kept. No leadership is moved for it: a test's paused brokers would be waited for, and the next start would find
        all leaders on one broker.
        """
        is_clean = self.directory is not None if cleanly is None else cleanly
        self._is_closing = True
        controller = self.active
        self.links.end()
        if is_clean:
            for host in self.running:
                await host.services.controller.stop()
        async with AsyncExitStack() as ends:
            ends.push_async_callback(self._renew)
            for host in sorted(self.hosts, key=lambda host: host is not controller):
                ends.push_async_callback(host.close)
                ends.push_async_callback(self._stop if is_clean else HostedBroker.kill, host)

    @staticmethod
    async def _stop(host: HostedBroker) -> None:
        await host.stop(moves_leaderships=False)

    def data_of(self, broker_id: int) -> str | None:
        """The directory that a broker's records are kept in, None for a temporary one."""
        return None if self.directory is None else self.directory.broker_path(broker_id)

    async def _renew(self) -> None:
        """Be ready for another start, without the metadata of this one."""
        await self.store.close()
        self.store = EmbeddedStore(None, self.clock)
        if self.directory is not None:
            self.directory.close()
        self.links.heal()
        self._last_image = MetadataImage()
        self._is_closing = False

    @property
    def running(self) -> list[HostedBroker]:
        """The brokers that are started."""
        return [host for host in self.hosts if host.is_running]

    # state

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(host.bootstrap for host in self.hosts)

    async def settled(self) -> None:
        """Wait until every running broker knows which brokers run; not while some are paused or separated."""

        await self._agree(
            lambda image: image.brokers.keys() == {host.broker_id for host in self.running},
            "the brokers do not all know which brokers run",
        )

    async def _agree(self, condition: Callable[[MetadataImage], bool], failure: str) -> None:
        """Wait until the metadata of every running broker fulfil ``condition``, unless the test keeps some from it."""

        def look() -> bool | None:
            is_disturbed = self.links.are_broken or any(host.faults.is_paused for host in self.running)
            if self._is_closing or is_disturbed:
                return True
            return True if all(condition(host.services.metadata.image) for host in self.running) else None

        await until(look, Deadline(SETTLED_S), lambda: failure)

    async def controller(self) -> HostedBroker:
        """The controller, once one is elected."""
        if not self.running:
            raise BrokerNotRunningError("all brokers of the cluster are stopped: start() one of them first")
        return await until(lambda: self.active, Deadline(SETTLED_S), lambda: "no broker has become the controller")

    @property
    def active(self) -> HostedBroker | None:
        """The controller if one is elected."""
        return next((host for host in self.running if host.services.controller.is_active), None)

    async def leader(self, topic: str, partition: int, timeout_s: float) -> HostedBroker:
        """The running broker that leads a partition, once there is one. Raises ``UnknownNameError``."""

        def look() -> HostedBroker | None:
            image = self._image()
            found = None if image is None else image.partition(topic, partition)
            if found is None or found.leader < 0:
                return None
            host = self.hosts[found.leader]
            return host if host.is_running and _leads(host, TopicPartition(topic, partition)) else None

        topics = (await self.controller()).services.metadata.image.topics
        if topic not in topics:
            raise unknown("topic", topic, topics)
        if partition not in topics[topic].partitions:
            raise unknown(f"partition of {topic!r}:", str(partition), map(str, topics[topic].partitions))
        return await until(look, Deadline(timeout_s), lambda: f"{topic}-{partition} has no leader that runs")

    def _image(self) -> MetadataImage | None:
        active = self.active
        return None if active is None else active.services.metadata.image

    async def coordinator(self, group: str, timeout_s: float) -> HostedBroker:
        """The broker that coordinates a consumer group. Raises ``UnknownNameError`` before the first group."""
        partition = (await self.controller()).services.group_coordinator.partition_for(group)
        return await self.leader("__consumer_offsets", partition, timeout_s)

    def under_replicated(self, topic: str | None = None) -> dict[TopicPartition, PartitionInfo]:
        """The partitions of a topic, or of all topics, with replicas that are not in sync.

        A replica on a broker that does not run is not in sync, even if no controller is left to say so. Without a
        running broker the partitions are those that the last one knew.
        """
        self.remember_metadata()
        running = {host.broker_id for host in self.running}
        return {
            TopicPartition(found.name, index): each
            for found in self._last_image.topics.values()
            if topic in (None, found.name)
            for index, each in found.partitions.items()
            if set(each.isr) & running != set(each.replicas)
        }

    def remember_metadata(self) -> None:
        """Keep what the controller, or else a broker, knows of the partitions: the last broker may stop."""
        host = self.active or next(iter(self.running), None)
        if host is not None:
            self._last_image = host.services.metadata.image

    async def in_sync(self, topic: str | None, timeout_s: float) -> None:
        """Wait until every replica of a topic, or of all topics, is in sync."""

        def look() -> bool | None:
            return None if self._image() is None or self.under_replicated(topic) else True

        def failure() -> str:
            if self._image() is None:
                return "there is no controller"
            found = list(self.under_replicated(topic).items())[:5]
            return "; ".join(f"{name} is in sync on {sorted(it.isr)} of {sorted(it.replicas)}" for name, it in found)

        await self.controller()
        image = self._image()
        if topic is not None and image is not None and topic not in image.topics:
            raise unknown("topic", topic, image.topics)
        await until(look, Deadline(timeout_s), failure)

    # topics and records

    async def create_topic(self, name: str, shape: TopicShape, *, exist_ok: bool = False) -> None:
        """Create a topic; all brokers know it on return, as after ``settled``. Raises ``RequestRefusedError``."""
        await create_topic((await self.controller()).requests, name, shape, exist_ok=exist_ok)
        await self._agree(lambda image: name in image.topics, f"not every broker knows topic {name!r}")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; no broker knows it on return, as after ``settled``. Raises ``RequestRefusedError``."""
        await delete_topic((await self.controller()).requests, name)
        await self._agree(lambda image: name not in image.topics, f"some broker still knows topic {name!r}")

    async def produce(self, topic: str, partition: int | None, record: Record) -> TopicRecord:
        """Append a record on the partition's leader. Raises ``UnknownNameError`` and ``RequestRefusedError``."""
        image = (await self.controller()).services.metadata.image
        index = partition
        if index is None:
            found = image.topics.get(topic)
            index = 0 if found is None else place(record.key, len(found.partitions))
        leader = await self.leader(topic, index, SETTLED_S)
        return await Helpers(leader).produce(topic, index, record)

    async def records(self, selection: RecordSelection, timeout_s: float) -> list[TopicRecord]:
        """The records of a topic as its leaders have them. Raises ``UnknownNameError`` and ``NotInTimeError``."""
        image = (await self.controller()).services.metadata.image
        found = image.topics.get(selection.topic)
        if found is None:
            raise unknown("topic", selection.topic, image.topics)
        wanted = sorted(found.partitions) if selection.partition is None else [selection.partition]
        result: list[TopicRecord] = []
        for index in wanted:
            leader = await self._committed_leader(TopicPartition(selection.topic, index), timeout_s)
            result += await records.read(leader.services, selection._replace(partition=index))
        return result

    async def _committed_leader(self, topic_partition: TopicPartition, timeout_s: float) -> HostedBroker:
        """The leader, once its high watermark has reached the start of its epoch.

        The high watermark of a new leader may be below that of the one before (KIP-207): records that were acknowledged
        would be missing.
        """
        leader = await self.leader(*topic_partition, timeout_s)

        def look() -> bool | None:
            partition = leader.services.replica_manager.partitions.get(topic_partition)
            if partition is None or not partition.is_leader:
                return True  # another leader is elected, or the partition is deleted
            return True if partition.log.high_watermark >= partition.epoch_start_offset else None

        await until(
            look, Deadline(timeout_s), lambda: f"followers of {topic_partition} do not fetch from its new leader"
        )
        return leader

    async def wait_for_records(self, selection: RecordSelection, count: int, timeout_s: float) -> list[TopicRecord]:
        """As ``records``, once there are at least ``count``."""
        deadline = Deadline(timeout_s)
        while len(found := await self.records(selection, timeout_s)) < count:
            if deadline.is_over:
                raise NotInTimeError(
                    f"not within {timeout_s:g} s: {selection.topic!r} has {len(found)} records, {count} are waited for"
                )
            await SystemClock().sleep(LOOK_EVERY_MS)
        return found

    # the network

    async def separate(self, groups: Iterable[Iterable[int]]) -> None:
        """Break the connections between brokers that share no group; brokers in no group form one more.

        Raises ``UnknownNameError``.
        """
        sets = [frozenset(group) for group in groups]
        ids = frozenset(range(len(self.hosts)))
        for stranger in frozenset().union(*sets) - ids:
            raise unknown("broker", str(stranger), map(str, ids))
        sets.append(ids.difference(*sets))
        for link in map(frozenset, combinations(ids, 2)):
            if not any(link <= group for group in sets):
                self.links.sever(link)

    async def heal(self) -> None:
        """Let all brokers reach each other again."""
        self.links.heal()


def _leads(host: HostedBroker, topic_partition: TopicPartition) -> bool:
    """Whether the broker has taken over the leadership that the controller gave it."""
    partition = host.services.replica_manager.partitions.get(topic_partition)
    return partition is not None and partition.is_leader
