"""AlterReplicaLogDirs v0-2: moves replicas of this broker to other data directories (KIP-113).

Done: the copy begins; the answer does not wait for it (DescribeLogDirs shows its progress). A request for the directory
in which a partition is ends its move. For a replica that this broker does not have, the directory is remembered until
the replica is created, and the answer has an error. A partition that is named twice is handled once, as it was named
last.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, REPLICA_NOT_AVAILABLE 9 (this broker has no replica of the partition),
INVALID_TOPIC_EXCEPTION 17 (the topic's name has no room for a suffix), KAFKA_STORAGE_ERROR 56 (the directory, the
replica's present one, or any other one is offline), LOG_DIR_NOT_FOUND 57 (the path is none of ``log.dirs``, as
DescribeLogDirs names them).
"""

from collections.abc import Iterator

from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers.shared.partition_rows import answered_by_topic
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

_Wanted = tuple[int, str]
"""A partition and the path of a data directory."""


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> Steps[AlterReplicaLogDirsResponse]:
    """See the card; a step is a partition."""

    def alter(topic: str, wanted: _Wanted) -> AlterReplicaLogDirPartitionResult:
        topic_partition = TopicPartition(topic, wanted[0])
        try:
            context.services.replica_manager.alter_log_dir(topic_partition, wanted[1])
        except BrokerError as error:
            context.log_refusal(f"the move of {topic_partition}", error)
            return AlterReplicaLogDirPartitionResult(wanted[0], error.error_code)
        return AlterReplicaLogDirPartitionResult(wanted[0])

    results = yield from answered_by_topic(
        _wanted(request), lambda wanted: wanted[0], alter, AlterReplicaLogDirTopicResult
    )
    return AlterReplicaLogDirsResponse(results=results)


def _wanted(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[str, list[_Wanted]]]:
    for directory in request.dirs:
        for topic in directory.topics:
            yield topic.name, [(index, directory.path) for index in topic.partitions]
