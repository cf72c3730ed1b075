"""What OffsetCommit and TxnOffsetCommit ask for, partition by partition."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kafkapy.cluster.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import TopicPartition, topic_partition_of

C = TypeVar("C")


def split_by_existence(
    image: MetadataImage, topics: Iterable[Any], commit_of: Callable[[Any], C]
) -> tuple[dict[TopicPartition, C], dict[TopicPartition, int]]:
    """The commits of partitions that exist, made by ``commit_of`` of the request's, and an error for each other one."""
    commits: dict[TopicPartition, C] = {}
    errors: dict[TopicPartition, int] = {}
    known = image.topics
    for topic in topics:
        found = known.get(topic.name)
        partitions = found.partitions if found is not None else ()
        for each in topic.partitions:
            partition = topic_partition_of((topic.name, each.partition_index))
            if each.partition_index in partitions:
                commits[partition] = commit_of(each)
            else:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return commits, errors
