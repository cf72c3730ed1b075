"""DescribeLogDirs v0-2: the partitions in each data directory, and their sizes in bytes.

Done: all partitions, or the requested ones (the other topics are named without partitions, as Kafka does).
Not done: future replicas (moving a partition between directories), so ``offset_lag`` is how far the high watermark
is behind the log's end.
Errors: KAFKA_STORAGE_ERROR 56 for a data directory that is offline.
"""

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkapy.server.context import RequestContext
from kafkapy.storage.log_directory import LogManager
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition


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
            results.append(DescribeLogDirsResult(log_dir=directory.path, topics=topics))
        else:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            results.append(DescribeLogDirsResult(log_dir=directory.path, error_code=code))
    return DescribeLogDirsResponse(results=results)


def _topics(logs: LogManager, path: str, wanted: set[TopicPartition] | None) -> Steps[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic_partition in logs.partitions_in(path):
        yield
        log = logs.get(topic_partition)
        topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(topic_partition.topic, []))
        if log is None or (wanted is not None and topic_partition not in wanted):
            continue
        lag = max(log.log_end_offset - log.high_watermark, 0)
        topic.partitions.append(DescribeLogDirsPartition(topic_partition.partition, log.size_bytes, lag))
    return list(topics.values())
