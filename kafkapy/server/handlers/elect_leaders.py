"""ElectLeaders: preferred or, at the price of records, any leaders for partitions (KIP-183, KIP-460).

Versions 0-2; only the controller serves it. A request without a list of partitions means all, and the answer then omits
the partitions that need no election. Answered when this broker's metadata have the new leaders. Errors, by partition:
UNKNOWN_TOPIC_OR_PARTITION 3, REQUEST_TIMED_OUT 7 (a new leader is not known here in time), INVALID_TOPIC_EXCEPTION 17
(the topic is being deleted), NOT_CONTROLLER 41, PREFERRED_LEADER_NOT_AVAILABLE 80 (the preferred replica is not alive
and in sync), ELIGIBLE_LEADERS_NOT_AVAILABLE 83 (no replica is alive), ELECTION_NOT_NEEDED 84. For the whole request:
UNKNOWN_SERVER_ERROR -1 (an unknown kind of election), as from 2.7.2.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import ElectionNotNeededError, NotControllerError, RequestTimedOutError
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import in_time
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafkapy.turns import OneByOne, Steps, in_turns, pieces
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

PREFERRED: Final = 0
UNCLEAN: Final = 1

Answers = dict[TopicPartition, int | BrokerError]
"""The new leader of each partition, or the error."""


async def handle(context: "RequestContext", request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Have the controller elect, wait until the leaders are known here, and list what became of each partition."""
    services = context.services
    deadline_ms = services.clock.monotonic_s() * 1000 + request.timeout_ms
    if request.election_type not in (PREFERRED, UNCLEAN):
        return await in_turns(refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    asked = await _asked(services.metadata.image, request)
    answers: Answers
    try:
        election = services.controller.ask(
            "an election", lambda active: active.elections.elect(asked, unclean=request.election_type == UNCLEAN)
        )
        answers = await in_time(services.store, services.clock, request.timeout_ms, election)
    except (NotControllerError, RequestTimedOutError) as error:
        answers = dict.fromkeys(asked, error)
    elected = {partition: found for partition, found in answers.items() if not isinstance(found, BrokerError)}
    await services.metadata.wait_until(
        lambda image: not _pending(image, elected), deadline_ms - services.clock.monotonic_s() * 1000, services.clock
    )
    late = RequestTimedOutError("the new leader is not known here yet")
    answers.update(dict.fromkeys(_pending(services.metadata.image, elected), late))
    if request.topic_partitions is None:
        answers = {
            partition: found for partition, found in answers.items() if not isinstance(found, ElectionNotNeededError)
        }
    return await _response(answers)


async def _asked(image: MetadataImage, request: ElectLeadersRequest) -> list[TopicPartition]:
    asked: dict[TopicPartition, None] = {}
    if request.topic_partitions is None:
        async for topic, found in OneByOne(image.topics.items()):
            asked.update(dict.fromkeys(TopicPartition(topic, index) for index in found.partitions))
    else:
        async for listed in OneByOne(request.topic_partitions):
            async for index in OneByOne(listed.partitions):
                asked[TopicPartition(listed.topic, index)] = None
    return list(asked)


def refused(request: ElectLeadersRequest, error_code: int) -> Steps[ElectLeadersResponse]:
    """Refuse all partitions as they are listed, also if one is listed several times."""
    response = ElectLeadersResponse(error_code=error_code)
    for listed in request.topic_partitions or ():
        result = ReplicaElectionResult(listed.topic)
        response.replica_election_results.append(result)
        for piece in pieces(listed.partitions):
            result.partition_result += [PartitionResult(index, error_code, None) for index in piece]
            yield
        yield
    return response


def _pending(image: MetadataImage, elected: dict[TopicPartition, int]) -> list[TopicPartition]:
    pending = []
    for partition, leader in elected.items():
        found = image.partition(*partition)
        if found is None or found.leader != leader:
            pending.append(partition)
    return pending


async def _response(answers: Answers) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    async for (name, index), answer in OneByOne(answers.items()):
        result = PartitionResult(index, 0, None)
        if isinstance(answer, BrokerError):
            result = PartitionResult(index, answer.error_code, str(answer) or None)
        topics.setdefault(name, ReplicaElectionResult(name)).partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
