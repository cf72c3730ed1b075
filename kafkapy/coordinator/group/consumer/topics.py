"""The topics that the members of a group subscribe to, as the metadata image has them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from kafkapy.coordinator.group.consumer.subscriptions import TopicMetadata
from kafkapy.turns import Steps, pieces

NO_TOPICS_HASH: Final = 0
"""The hash of a group without subscribed topics."""


class TopicImages(Protocol):
    """The topics of the cluster (``MetadataImage``)."""

    @property
    def topics(self) -> Mapping[str, Any]:
        """The topics by name, each with its ``partitions``."""
        ...

    def topic_id(self, name: str, /) -> UUID:
        """The id of a topic; all zeros if it has none."""
        ...

    def topic_name(self, topic_id: UUID, /) -> str | None:
        """The name of the topic with this id, None if there is none."""
        ...


class KnownTopics(NamedTuple):
    """The topics of a group's subscriptions that exist, in the order of their names, and their hash."""

    cluster_topics: object
    """The topics of the cluster from which they were read."""
    topics: Mapping[UUID, TopicMetadata]
    metadata_hash: int


def read_topics(image: TopicImages, names: Sequence[str]) -> Steps[KnownTopics]:
    """Read the topics of these names that exist and have an id."""
    cluster_topics = image.topics
    existing: list[str] = []
    for piece in pieces(names):
        existing += [name for name in piece if name in cluster_topics]
        yield
    found: dict[UUID, TopicMetadata] = {}
    for piece in pieces(sorted(existing)):
        for name in piece:
            topic_id = image.topic_id(name)
            if topic_id.int:
                found[topic_id] = TopicMetadata(name, len(cluster_topics[name].partitions), {})
        yield
    return KnownTopics(cluster_topics, found, metadata_hash(found))


def metadata_hash(topics: Mapping[UUID, TopicMetadata]) -> int:
    """A hash of the topics' ids, names and numbers of partitions, in the range of an int64.

    It is not the hash of Apache Kafka 4.4: a coordinator of the other kind that loads the group finds that the topics
    have changed, and computes the assignment again.
    """
    if not topics:
        return NO_TOPICS_HASH
    from hashlib import blake2b  # it takes a megabyte, which a broker without consumer groups does not need

    digest = blake2b(digest_size=8)
    for topic_id, topic in topics.items():
        digest.update(topic_id.bytes + topic.partition_count.to_bytes(4, "big") + topic.name.encode() + b"\0")
    return int.from_bytes(digest.digest(), "big", signed=True)
