"""Topics: list, create, delete, add partitions, look up offsets."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.metadata import MetadataResponseTopic
from kafkapy.types import READ_COMMITTED

TIMEOUT_MS: Final = 10_000
LAST_VERSION_BY_NAMES: Final = 5
"""Later versions of DeleteTopics have another list, for ids."""
_ANOTHER_CONTROLLER: Final = frozenset({ErrorCode.NOT_CONTROLLER})


def list_topics(client: ClusterClient) -> list[MetadataResponseTopic]:
    """All topics by name."""
    return sorted(client.metadata().topics, key=lambda topic: topic.name or "")


class TopicToCreate(NamedTuple):
    """A topic to create; -1 is the broker's default number."""

    name: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = MappingProxyType({})


def create_topic(
    client: ClusterClient, name: str, *, partitions: int = -1, replicas: int = -1, configs: Mapping[str, str]
) -> None:
    """Create a topic (-1: the broker's default number); raises RequestFailedError."""
    error = create_topics(client, [TopicToCreate(name, partitions, replicas, configs)])[name]
    if error is not None:
        raise error


def create_topics(client: ClusterClient, wanted: Iterable[TopicToCreate]) -> dict[str, RequestFailedError | None]:
    """Create topics with one request; for each topic None, or why it is not created."""
    left = {
        topic.name: CreatableTopic(
            topic.name,
            topic.partitions,
            topic.replicas,
            [],
            [CreatableTopicConfig(*pair) for pair in topic.configs.items()],
        )
        for topic in wanted
    }
    found: dict[str, RequestFailedError | None] = {}

    def attempt() -> None:
        request = CreateTopicsRequest(list(left.values()), TIMEOUT_MS)
        for each in client.controller().call(request, CreateTopicsResponse).topics:
            code, what = each.error_code, f"topic {each.name}"
            found[each.name] = RequestFailedError(code, each.error_message, what=what) if code else None
            if code not in _ANOTHER_CONTROLLER:
                del left[each.name]
        if left:
            raise RequestFailedError(ErrorCode.NOT_CONTROLLER, what=f"topic {next(iter(left))}")

    client.retrying(attempt)
    return found


def delete_topic(client: ClusterClient, name: str) -> None:
    """Delete a topic and its records; raises RequestFailedError."""

    def attempt() -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
        answer = client.controller().call(request, DeleteTopicsResponse, LAST_VERSION_BY_NAMES)
        check(answer.responses[0].error_code, answer.responses[0].error_message, what=f"topic {name}")

    client.retrying(attempt)


def grow_topic(client: ClusterClient, name: str, partitions: int) -> None:
    """Increase a topic's number of partitions; raises RequestFailedError."""

    def attempt() -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], TIMEOUT_MS)
        answer = client.controller().call(request, CreatePartitionsResponse)
        check(answer.results[0].error_code, answer.results[0].error_message, what=f"topic {name}")

    client.retrying(attempt)


def offsets(
    client: ClusterClient,
    topic: MetadataResponseTopic,
    partitions: Iterable[int],
    at: int,
    *,
    is_committed: bool = False,
) -> dict[int, int]:
    """Partition → its offset at a time (ms since the epoch, or LATEST, EARLIEST); -1 if all records are older.

    LATEST is the high watermark, or with ``is_committed`` the last stable offset. A partition without a leader is left
    out.
    """
    wanted = set(partitions)
    by_leader: dict[int, list[ListOffsetsPartition]] = {}
    for partition in topic.partitions:
        if partition.partition_index in wanted and partition.leader_id >= 0:
            asked = ListOffsetsPartition(partition.partition_index, timestamp=at)
            by_leader.setdefault(partition.leader_id, []).append(asked)
    found = {}
    for leader, asked_of_it in by_leader.items():
        request = ListOffsetsRequest(
            -1, READ_COMMITTED if is_committed else 0, [ListOffsetsTopic(topic.name or "", asked_of_it)]
        )
        answer = client.node(leader).call(request, ListOffsetsResponse)
        for partition_answer in answer.topics[0].partitions:
            index = partition_answer.partition_index
            check(partition_answer.error_code, what=f"partition {topic.name}-{index}")
            found[index] = partition_answer.offset
    return found
