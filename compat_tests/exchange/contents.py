"""The content that a broker serves to clients, for a comparison before and after a move of its data directory."""

from typing import Any, NamedTuple

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaError, TopicPartition

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

QUIET = {"log_level": 0}
READ_TIMEOUT_S = 60.0
"""Apache Kafka may need half a minute after a start while other programs use the processors."""


class Read(NamedTuple):
    """One record as a consumer gets it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Contents = dict[tuple[str, int], list[Read]]


def partitions(bootstrap: str, *, internal: bool = False) -> list[tuple[str, int]]:
    """Every partition of the cluster that has a leader."""
    listed = kafka_admin.AdminClient({"bootstrap.servers": bootstrap, **QUIET}).list_topics(timeout=READ_TIMEOUT_S)
    return sorted(
        (name, index)
        for name, topic in listed.topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
        if internal or not name.startswith("__")
    )


def read_all(bootstrap: str, *, committed: bool = False) -> Contents:
    """Every record of every topic, to the end (or to the last stable offset)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    wanted = partitions(bootstrap)
    starts = [
        TopicPartition(name, index, consumer.get_watermark_offsets(TopicPartition(name, index), READ_TIMEOUT_S)[0])
        for name, index in wanted
    ]
    consumer.assign(starts)
    contents: Contents = {each: [] for each in wanted}
    unfinished = set(wanted)
    while unfinished:
        message = consumer.poll(READ_TIMEOUT_S)
        assert message is not None, f"{bootstrap} did not serve {unfinished} to their end"
        place = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is None:
            contents[place].append(_read(message))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error  # its public name
            unfinished.discard(place)
    consumer.close()
    return contents


def _read(message: Any) -> Read:
    headers = tuple((str(key), value) for key, value in message.headers() or ())
    return Read(int(message.offset()), message.timestamp(), message.key(), message.value(), headers)


def log_starts(bootstrap: str) -> dict[tuple[str, int], tuple[int, int]]:
    """First and end offset of every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **QUIET})
    found = {
        place: consumer.get_watermark_offsets(TopicPartition(*place), READ_TIMEOUT_S)
        for place in partitions(bootstrap, internal=True)
    }
    consumer.close()
    return found


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    """A group's offsets and their metadata."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    asked = [TopicPartition(*place) for place in partitions(bootstrap)]
    found = consumer.committed(asked, READ_TIMEOUT_S)
    consumer.close()
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in found if each.offset >= 0}


def configs(bootstrap: str, topic: str) -> dict[str, str]:
    """The settings that the topic has of its own."""
    resource = kafka_admin.ConfigResource("topic", topic)
    admin = kafka_admin.AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    (answer,) = admin.describe_configs([resource]).values()
    own = kafka_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in answer.result(READ_TIMEOUT_S).items() if entry.source == own}
