"""Replicas that move to other brokers (KIP-455), and elections of leaders (KIP-460)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kafkapy.clients import configs
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

Place = tuple[str, int]
"""A topic and a partition of it."""
Assignment = dict[Place, list[int]]
"""The replicas of partitions, the preferred leader first."""

TIMEOUT_MS: Final = 60_000
CLIENT_TIMEOUT_S: Final = 65.0
"""For a ``ClusterClient`` of these requests: longer than the controller may take to answer."""

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
TOPIC_SOURCE: Final = 1
"""``config_source`` of a topic's own setting."""


class Moving(NamedTuple):
    """A partition whose replicas move: all its brokers, and which of them are being added and removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def moving(client: ClusterClient) -> dict[Place, Moving]:
    """All partitions whose replicas move, in order; raises RequestFailedError."""

    def attempt() -> dict[Place, Moving]:
        request = ListPartitionReassignmentsRequest(TIMEOUT_MS, None)
        answer = client.controller().call(request, ListPartitionReassignmentsResponse)
        check(answer.error_code, answer.error_message)
        found = {
            (topic.name, each.partition_index): Moving(each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in answer.topics
            for each in topic.partitions
        }
        return dict(sorted(found.items()))

    return client.retrying(attempt)


def move(client: ClusterClient, targets: Mapping[Place, Sequence[int] | None]) -> dict[Place, RequestFailedError]:
    """Begin to move replicas to these brokers (None: cancel the move); return the errors of those that are refused.

    Raises RequestFailedError if the whole request is.
    """
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), brokers in targets.items():
        replicas = None if brokers is None else list(brokers)
        topics.setdefault(topic, []).append(ReassignablePartition(partition, replicas))
    request = AlterPartitionReassignmentsRequest(
        TIMEOUT_MS, topics=[ReassignableTopic(topic, partitions) for topic, partitions in topics.items()]
    )

    def attempt() -> AlterPartitionReassignmentsResponse:
        answer = client.controller().call(request, AlterPartitionReassignmentsResponse)
        check(answer.error_code, answer.error_message)
        return answer

    return {
        (topic.name, each.partition_index): _refusal(topic.name, each.partition_index, each)
        for topic in client.retrying(attempt).responses
        for each in topic.partitions
        if each.error_code
    }


def elect(
    client: ClusterClient, places: Iterable[Place] | None, *, unclean: bool
) -> dict[Place, RequestFailedError | None]:
    """Elect the preferred leaders of partitions (None: of all), or with ``unclean`` any live replica where none leads.

    Return the errors, None for a partition with a new leader; for all partitions only those where there was an
    election. Raises RequestFailedError if the whole request is refused.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in places or ():
        topics.setdefault(topic, []).append(partition)
    asked = None if places is None else [TopicPartitions(*pair) for pair in topics.items()]
    request = ElectLeadersRequest(int(unclean), asked, TIMEOUT_MS)

    def attempt() -> ElectLeadersResponse:
        answer = client.controller().call(request, ElectLeadersResponse)
        check(answer.error_code)
        results = [each for topic in answer.replica_election_results for each in topic.partition_result]
        if results and all(each.error_code == ErrorCode.NOT_CONTROLLER for each in results):
            check(ErrorCode.NOT_CONTROLLER)
        return answer

    return {
        (topic.topic, each.partition_id): _refusal(topic.topic, each.partition_id, each) if each.error_code else None
        for topic in client.retrying(attempt).replica_election_results
        for each in topic.partition_result
    }


class _Refused(Protocol):
    error_code: int
    error_message: str | None


def _refusal(topic: str, partition: int, answer: _Refused) -> RequestFailedError:
    return RequestFailedError(answer.error_code, answer.error_message, what=f"partition {topic}-{partition}")


# throttles


def throttle(
    client: ClusterClient, current: Mapping[Place, Sequence[int]], targets: Mapping[Place, Sequence[int]], rate: int
) -> None:
    """Limit the moves of replicas to so many bytes per second, on each broker that sends or gets them.

    As Kafka's own tool does: the present replicas are throttled as leaders, the new ones as followers. Raises
    RequestFailedError.
    """
    sending: dict[str, list[str]] = {}
    getting: dict[str, list[str]] = {}
    for (topic, partition), brokers in targets.items():
        before = current[topic, partition]
        sending.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in before)
        getting.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in brokers if broker not in before)
    for topic, replicas in sending.items():
        throttled = {LEADER_REPLICAS: ",".join(replicas), FOLLOWER_REPLICAS: ",".join(getting[topic])}
        configs.alter(client, "topic", topic, throttled)
    for broker in _brokers(current, targets):
        configs.alter(client, "broker", str(broker), {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)})


def is_throttled(client: ClusterClient, topic: str) -> bool:
    """Whether replicas of a topic are limited as ``throttle`` does it. Raises RequestFailedError."""
    return any(
        each.name in (LEADER_REPLICAS, FOLLOWER_REPLICAS) and each.config_source == TOPIC_SOURCE and each.value
        for each in configs.describe(client, "topic", topic)
    )


def remove_throttle(client: ClusterClient, brokers: Iterable[int], topics: Iterable[str]) -> None:
    """Remove the limits of ``throttle`` from brokers and topics. Raises RequestFailedError."""
    for broker in brokers:
        configs.alter(client, "broker", str(broker), {}, [LEADER_RATE, FOLLOWER_RATE])
    for topic in topics:
        configs.alter(client, "topic", topic, {}, [LEADER_REPLICAS, FOLLOWER_REPLICAS])


def _brokers(*assignments: Mapping[Place, Sequence[int]]) -> list[int]:
    return sorted({broker for each in assignments for brokers in each.values() for broker in brokers})
