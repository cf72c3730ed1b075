"""Topics as a stock client sees them: made, their offsets, and their records from the first to the last."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import TopicAlreadyExistsError

COMMITTED_TIMEOUT_S = 60
BROKERS_DEFAULT = -1
"""As many replicas as the broker gives a topic by itself."""


class TopicExistsError(RuntimeError):
    """A topic that a demonstration creates is there already; the message names the option for another name."""


class OpenTransactionError(RuntimeError):
    """A transaction that nobody ends keeps records from readers of committed ones."""


class Extent(NamedTuple):
    """Offsets of a partition: the first one, and the one after the last."""

    first: int
    end: int


@contextmanager
def _reader(bootstrap: str, isolation_level: str = "read_uncommitted") -> Iterator[Any]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        isolation_level=isolation_level,
    )
    try:
        yield consumer
    finally:
        consumer.close()


def _partitions(consumer: Any, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in sorted(consumer.partitions_for_topic(topic) or ())]


def create(bootstrap: str, counts: Mapping[str, int], option: str, **configs: str) -> None:
    """Creates topics with these partition counts and these settings, such as `cleanup_policy`.

    `option` is the demonstration's option that names them. Raises TopicExistsError.
    """
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    given = {
        name: {"num_partitions": count, "replication_factor": BROKERS_DEFAULT, "configs": settings}
        for name, count in counts.items()
    }
    try:
        admin.create_topics(given, wait_for_metadata=True)
    except TopicAlreadyExistsError as error:
        names = " or ".join(counts)
        raise TopicExistsError(f"The topic {names} exists already: give another name with {option}.") from error
    finally:
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


def wait_until_committed(bootstrap: str, names: Iterable[str]) -> None:
    """Waits until readers of committed records see all that the topics hold; raises OpenTransactionError.

    A broker answers EndTxn before the markers of the transaction are in the partitions.
    """
    deadline = time.monotonic() + COMMITTED_TIMEOUT_S
    with _reader(bootstrap) as reader, _reader(bootstrap, "read_committed") as committed_reader:
        for name in names:
            places = _partitions(reader, name)
            while committed_reader.end_offsets(places) != reader.end_offsets(places):
                if time.monotonic() > deadline:
                    raise OpenTransactionError(f"A transaction on the topic {name} is open, of another producer.")
                time.sleep(0.05)


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
