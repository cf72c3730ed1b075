"""The responses of APIs that need an operation on the cluster, to a client without it."""

from collections.abc import Callable

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from kafkapy.protocol.messages.alter_client_quotas import EntityData as AlteredEntity
from kafkapy.protocol.messages.alter_partition import AlterPartitionResponse
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownResponse
from kafkapy.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kafkapy.protocol.messages.describe_acls import DescribeAclsResponse
from kafkapy.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
)
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from kafkapy.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesResponse
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkapy.protocol.messages.stop_replica import StopReplicaResponse
from kafkapy.protocol.messages.update_features import UpdateFeaturesResponse
from kafkapy.protocol.messages.update_metadata import UpdateMetadataResponse
from kafkapy.server.access.rules import NO_CLUSTER, name, partition_indexes, rows_as_listed, rows_of
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.handlers import elect_leaders
from kafkapy.server.handlers.leader_and_isr import Results, states_of
from kafkapy.turns import Steps


def with_code(response: Callable[..., Message]) -> Callable[[RequestContext, object], Message]:
    """Return a function that builds a response with nothing but the error code."""
    return lambda _context, _request: response(error_code=NO_CLUSTER)


alter_partition = with_code(AlterPartitionResponse)
controlled_shutdown = with_code(ControlledShutdownResponse)
stop_replica = with_code(StopReplicaResponse)
update_metadata = with_code(UpdateMetadataResponse)
list_config_resources = with_code(ListClientMetricsResourcesResponse)


def leader_and_isr(context: RequestContext, request: LeaderAndIsrRequest) -> Steps[Message]:
    """Each partition has the error too."""
    response = LeaderAndIsrResponse(error_code=NO_CLUSTER)
    results = Results(response, context.header.api_version)
    for topic, topic_id, state in states_of(request):
        results.add(topic, topic_id, state.partition_index, NO_CLUSTER)
        yield
    return response


def create_acls(_context: RequestContext, request: CreateAclsRequest) -> Message:
    """Each entry has the error."""
    refused = AclCreationResult(NO_CLUSTER, kafka_texts.REQUEST_NOT_AUTHORIZED)
    return CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(_context: RequestContext, request: DeleteAclsRequest) -> Message:
    """Each filter has the error."""
    refused = DeleteAclsFilterResult(NO_CLUSTER, kafka_texts.REQUEST_NOT_AUTHORIZED)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def describe_acls(_context: RequestContext, _request: object) -> Message:
    """There is no entry."""
    return DescribeAclsResponse(error_code=NO_CLUSTER, error_message=kafka_texts.REQUEST_NOT_AUTHORIZED)


def alter_replica_log_dirs(_context: RequestContext, request: AlterReplicaLogDirsRequest) -> Steps[Message]:
    """Each partition has the error."""
    results = yield from rows_of(
        [topic for directory in request.dirs for topic in directory.topics],
        (name, _partitions),
        lambda index: AlterReplicaLogDirPartitionResult(index, NO_CLUSTER),
        AlterReplicaLogDirTopicResult,
    )
    return AlterReplicaLogDirsResponse(results=results)


def _partitions(topic: AlterReplicaLogDirTopic) -> list[int]:
    return topic.partitions


def describe_log_dirs(_context: RequestContext, _request: object) -> Message:
    """There is no directory, and no error below version 3, whose response has a place for it."""
    return DescribeLogDirsResponse(error_code=NO_CLUSTER, results=[])


def elect(_context: RequestContext, request: ElectLeadersRequest) -> Steps[Message]:
    """Each named partition has the error; a request for all partitions does not learn which there are."""
    return (yield from elect_leaders.refused(request, NO_CLUSTER))


def alter_partition_reassignments(
    _context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Steps[Message]:
    """Each partition has the error too."""
    text = kafka_texts.REQUEST_NOT_AUTHORIZED
    rows = yield from rows_as_listed(
        request.topics,
        (name, partition_indexes),
        lambda index: ReassignablePartitionResponse(index, NO_CLUSTER, text),
        ReassignableTopicResponse,
    )
    return AlterPartitionReassignmentsResponse(error_code=NO_CLUSTER, error_message=text, responses=rows)


def list_partition_reassignments(
    _context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Steps[Message]:
    """The named partitions are listed, without replicas."""
    text = kafka_texts.REQUEST_NOT_AUTHORIZED
    rows = yield from rows_as_listed(
        request.topics or [],
        (name, lambda topic: topic.partition_indexes),
        OngoingPartitionReassignment,
        OngoingTopicReassignment,
    )
    return ListPartitionReassignmentsResponse(error_code=NO_CLUSTER, error_message=text, topics=rows)


def describe_client_quotas(_context: RequestContext, _request: object) -> Message:
    """There are no entries."""
    return DescribeClientQuotasResponse(error_code=NO_CLUSTER, error_message=None, entries=None)


def alter_client_quotas(_context: RequestContext, request: AlterClientQuotasRequest) -> Steps[Message]:
    """Each entry has the error."""
    response = AlterClientQuotasResponse(entries=[])
    for entry in request.entries:
        entity = [AlteredEntity(each.entity_type, each.entity_name) for each in entry.entity]
        response.entries.append(ResponseEntryData(NO_CLUSTER, None, entity))
        yield
    return response


def describe_user_scram_credentials(_context: RequestContext, _request: object) -> Message:
    """There are no results."""
    return DescribeUserScramCredentialsResponse(error_code=NO_CLUSTER, error_message=None, results=[])


def alter_user_scram_credentials(context: RequestContext, request: AlterUserScramCredentialsRequest) -> Steps[Message]:
    """Each user has the error; a broker that is not the controller says only that."""
    error = NO_CLUSTER if context.services.controller.is_active else ErrorCode.NOT_CONTROLLER
    users: dict[str, None] = {}
    for deletion in request.deletions:
        users[deletion.name] = None
        yield
    for upsertion in request.upsertions:
        users[upsertion.name] = None
        yield
    response = AlterUserScramCredentialsResponse(results=[])
    for user in users:
        response.results.append(AlterUserScramCredentialsResult(user, error, None))
        yield
    return response


def update_features(_context: RequestContext, _request: object) -> Message:
    """There are no results."""
    return UpdateFeaturesResponse(error_code=NO_CLUSTER, error_message=kafka_texts.CLUSTER_NOT_AUTHORIZED, results=[])
