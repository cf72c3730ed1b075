"""Topics as a stock client sees them: made, their offsets, and their records from the first to the last."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

BROKERS_DEFAULT = -1
"""As many replicas as the broker gives a topic by itself."""


class Extent(NamedTuple):
    """Offsets of a partition: the first one, and the one after the last."""

    first: int
    end: int


@contextmanager
def _reader(bootstrap: str) -> Iterator[Any]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, allow_auto_create_topics=False)
    try:
        yield consumer
    finally:
        consumer.close()


def _partitions(consumer: Any, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in sorted(consumer.partitions_for_topic(topic) or ())]


def create(bootstrap: str, counts: Mapping[str, int], **configs: str) -> None:
    """Creates topics with these partition counts and these settings, such as `cleanup_policy`; fails if they exist."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    given = {
        name: {"num_partitions": count, "replication_factor": BROKERS_DEFAULT, "configs": settings}
        for name, count in counts.items()
    }
    admin.create_topics(given, wait_for_metadata=True)
    admin.close()


def held(bootstrap: str, topic: str) -> int:
    """How many offsets the topic holds; none if there is no such topic."""
    return sum(extent.end - extent.first for extent in extents(bootstrap, topic).values())


def extents(bootstrap: str, topic: str) -> dict[int, Extent]:
    """What each partition holds now; empty if there is no such topic."""
    with _reader(bootstrap) as consumer:
        places = _partitions(consumer, topic)
        if not places:
            return {}
        firsts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        return {place.partition: Extent(firsts[place], ends[place]) for place in places}


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """The records that the topic holds now."""
    with _reader(bootstrap) as consumer:
        places = _partitions(consumer, topic)
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        found: list[Any] = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(1000).values():
                found += records
        return found
