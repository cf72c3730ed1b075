"""All fetchers of one broker: ``num.replica.fetchers`` for each leader broker, with the partitions shared among them.

A partition stays with one fetcher as long as its leader is the same, so that its fetches come in order. A fetcher
without partitions has no task; its connection stays open until one of the brokers closes it.
"""

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from kafkapy.network.peer import BrokerChannel
from kafkapy.replication.fetcher import FetcherContext, ReplicaFetcher
from kafkapy.replication.partition import Partition
from kafkapy.types import TopicPartition

ChannelOf = Callable[[str], BrokerChannel]
"""Makes connections to the other brokers under a client id."""


class _Place(NamedTuple):
    """Where a partition is copied."""

    fetcher: ReplicaFetcher
    partition: Partition
    leader: int


class ReplicaFetchers:
    """Follows partitions; see ``fetcher`` for what happens to each."""

    def __init__(self, broker_id: int, context: FetcherContext, channel_of: ChannelOf, *, per_leader: int = 1) -> None:
        self._broker_id = broker_id
        self._context = context
        self._channel_of = channel_of
        self._channels: list[BrokerChannel] = []
        self._per_leader = per_leader
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._place_of: dict[TopicPartition, _Place] = {}
        self._is_closed = False

    def follow(self, partition: Partition, leader: int) -> None:
        """Copy the partition from ``leader`` in its leader epoch, and no longer from another broker."""
        self.stop(partition.topic_partition)
        if self._is_closed:
            return
        number = _lane(partition.topic_partition, self._per_leader)
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = ReplicaFetcher(leader, self._channel(number), self._context)
            self._fetchers[leader, number] = fetcher
        self._place_of[partition.topic_partition] = _Place(fetcher, partition, leader)
        fetcher.follow(partition)

    def _channel(self, number: int) -> BrokerChannel:
        while len(self._channels) <= number:
            self._channels.append(self._channel_of(f"broker-{self._broker_id}-fetcher-{len(self._channels)}"))
        return self._channels[number]

    def resize(self, per_leader: int) -> None:
        """Use another number of fetchers for each leader, at least 1; partitions whose fetcher changes begin again.

        They ask where their logs leave the leader's, as in a new leader epoch. The fetched records stay.
        """
        before, self._per_leader = self._per_leader, per_leader
        for topic_partition, place in list(self._place_of.items()):
            if _lane(topic_partition, per_leader) != _lane(topic_partition, before):
                self.follow(place.partition, place.leader)

    def stop(self, topic_partition: TopicPartition) -> None:
        """Stop copying the partition."""
        place = self._place_of.pop(topic_partition, None)
        if place is not None:
            place.fetcher.stop(topic_partition)

    def made_durable(self, topic_partition: TopicPartition) -> None:
        """The owed records of the partition are on the disk, or the flush has failed."""
        place = self._place_of.get(topic_partition)
        if place is not None:
            place.fetcher.wake()

    def close(self) -> None:
        """Stop copying all partitions, permanently."""
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._place_of.clear()


def _lane(topic_partition: TopicPartition, count: int) -> int:
    """Spread the partitions of a topic one after the other, topics by their names."""
    return (crc32(topic_partition.topic.encode()) + topic_partition.partition) % count
