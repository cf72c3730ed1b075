"""All fetchers of one broker: ``num.replica.fetchers`` for each leader broker, with the partitions shared among them.

A partition stays with one fetcher as long as its leader is the same, so that its fetches come in order. A fetcher
without partitions has no task; its connection stays open until one of the brokers closes it.
"""

from collections.abc import Callable
from zlib import crc32

from kafkapy.clock import Clock
from kafkapy.network.peer import BrokerChannel
from kafkapy.replication.fetcher import FetcherSettings, ReplicaFetcher
from kafkapy.replication.partition import Partition
from kafkapy.types import TopicPartition

ChannelOf = Callable[[str], BrokerChannel]
"""Makes a way to the other brokers under a client id, with connections of its own."""


class ReplicaFetchers:
    """Follows partitions; see ``fetcher`` for what happens to each."""

    def __init__(
        self, broker_id: int, clock: Clock, settings: FetcherSettings, channel_of: ChannelOf, *, per_leader: int = 1
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._channels = [channel_of(f"broker-{broker_id}-fetcher-{number}") for number in range(per_leader)]
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}
        self._is_closed = False

    def follow(self, partition: Partition, leader: int) -> None:
        """Copy the partition from ``leader`` in its leader epoch, and no longer from another broker."""
        self.stop(partition.topic_partition)
        if self._is_closed:
            return
        number = _lane(partition.topic_partition, len(self._channels))
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = ReplicaFetcher(leader, self._channels[number], self._clock, self._settings)
            self._fetchers[leader, number] = fetcher
        self._fetcher_of[partition.topic_partition] = fetcher
        fetcher.follow(partition)

    def stop(self, topic_partition: TopicPartition) -> None:
        """Stop copying the partition."""
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.stop(topic_partition)

    def made_durable(self, topic_partition: TopicPartition) -> None:
        """The disk has taken what it was owed of the partition, or refused it."""
        fetcher = self._fetcher_of.get(topic_partition)
        if fetcher is not None:
            fetcher.wake()

    def close(self) -> None:
        """Stop copying everything, for good."""
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetcher_of.clear()


def _lane(topic_partition: TopicPartition, count: int) -> int:
    """Spread the partitions of a topic one after the other, topics by their names."""
    return (crc32(topic_partition.topic.encode()) + topic_partition.partition) % count
