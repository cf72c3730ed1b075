"""DescribeLogDirs v0-5: the partitions in each data directory, and their sizes in bytes.

Done: all partitions, or the requested ones (the other topics are named without partitions, as Kafka does). A partition
that is being moved is named twice, in its directory and, with ``is_future_key``, in the one to which it is copied.
``offset_lag`` is the number of offsets by which a future replica is behind the current log; -1 if that is offline. Of
current logs it is 0: the high watermark is never above the log's end. From v3 on topics without partitions are left
out; v4 has the size of the directory's file system and the bytes that are free there, -1 if it can't be read. No
directory is cordoned (v5).
Errors: KAFKA_STORAGE_ERROR 56 for a data directory that is offline; CLUSTER_AUTHORIZATION_FAILED 31 of the whole
request (from v3 on).
"""

from typing import Final

from kafkapy.platform.files import disk_space
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.storage.log_manager import LogManager
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

WITHOUT_EMPTY_FROM: Final = 3
NO_LAG: Final = -1
"""The current log is in a data directory that is offline."""


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    """See the card; a step is a partition."""
    logs = context.services.log_manager
    wanted = None
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            for index in topic.partitions:
                wanted.add(TopicPartition(topic.topic, index))
                yield
    results = []
    for directory in logs.directories:
        if directory.failure is None:
            topics = yield from _topics(logs, directory.path, wanted)
            if context.header.api_version >= WITHOUT_EMPTY_FROM:
                topics = [topic for topic in topics if topic.partitions]
            total, usable = disk_space(directory.path)
            results.append(
                DescribeLogDirsResult(
                    log_dir=directory.absolute_path, topics=topics, total_bytes=total, usable_bytes=usable
                )
            )
        else:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            results.append(DescribeLogDirsResult(log_dir=directory.absolute_path, error_code=code))
    return DescribeLogDirsResponse(results=results)


def _topics(logs: LogManager, path: str, wanted: set[TopicPartition] | None) -> Steps[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic_partition in logs.partitions_in(path):
        yield
        topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(topic_partition.topic, []))
        log = logs.get(topic_partition)
        if log is not None and (wanted is None or topic_partition in wanted):
            topic.partitions.append(DescribeLogDirsPartition(topic_partition.partition, log.size_bytes, 0))
    for topic_partition in logs.futures_in(path):
        yield
        topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(topic_partition.topic, []))
        log, future = logs.get(topic_partition), logs.future(topic_partition)
        if future is not None and (wanted is None or topic_partition in wanted):
            lag = NO_LAG if log is None else log.log_end_offset - future.log_end_offset
            row = DescribeLogDirsPartition(topic_partition.partition, future.size_bytes, lag, is_future_key=True)
            topic.partitions.append(row)
    return list(topics.values())
