"""Requests of each API, and the error codes of the responses to a client that has only some rights.

The state before them: topics ``t`` and ``hidden``, coordinators of the group ``g`` and the transactional id ``x``, and
an offset of ``g`` in each topic. No request changes it in a way that others see.
"""

from typing import Any, NamedTuple

from harness.client import batch, fetch_request, produce_request
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.constants import AclResourceType
from kafkapy.protocol.messages import describe_producers, describe_topic_partitions
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkapy.protocol.messages.alter_partition import AlterPartitionRequest
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.describe_producers import DescribeProducersRequest
from kafkapy.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkapy.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kafkapy.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest
from kafkapy.protocol.messages.sync_group import SyncGroupRequest
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

Right = tuple[Op, AclResourceType, str]
"""An operation on a resource."""

CLUSTER_NAME = "kafka-cluster"


def on_cluster(operation: Op) -> Right:
    return operation, AclResourceType.CLUSTER, CLUSTER_NAME


def on_topic(operation: Op, name: str = "t") -> Right:
    return operation, AclResourceType.TOPIC, name


def on_group(operation: Op, name: str = "g") -> Right:
    return operation, AclResourceType.GROUP, name


def on_id(operation: Op, name: str = "x") -> Right:
    return operation, AclResourceType.TRANSACTIONAL_ID, name


NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_ID = 29, 30, 31, 53
UNKNOWN_TOPIC = 3
TRANSACTIONAL_ID_NOT_FOUND = 105
GROUP_ID_NOT_FOUND = 69
CLUSTER_ACTION = on_cluster(Op.CLUSTER_ACTION)
IDEMPOTENT = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


class Row(NamedTuple):
    """A request, and the error codes of its responses to a client with each of some sets of rights."""

    request: Any
    version: int
    answers: tuple[tuple[tuple[Right, ...], set[int]], ...]


def _row(request: Any, version: int, *answers: tuple[tuple[Right, ...], set[int]]) -> Row:
    return Row(request, version, answers)


def committed(*topics: str) -> list[OffsetCommitRequestTopic]:
    return [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 1)]) for topic in topics]


def _of_two(make: Any) -> list[Any]:
    """An item for the allowed topic, and one for another."""
    return [make("t"), make("hidden")]


ROWS: dict[str, Row] = {
    "produce": _row(
        produce_request("t", batch(b"v")),
        8,
        ((), {NO_TOPIC}),
        ((on_topic(Op.READ),), {NO_TOPIC}),
        ((on_topic(Op.WRITE),), set()),
        ((on_topic(Op.ALL),), set()),
    ),
    "produce to a missing topic": _row(
        produce_request("missing", batch(b"v")),
        8,
        ((), {NO_TOPIC}),
        ((on_topic(Op.WRITE, "missing"),), {UNKNOWN_TOPIC}),
    ),
    "idempotent produce": _row(
        produce_request("t", batch(b"v", **IDEMPOTENT)),
        8,
        ((on_topic(Op.WRITE),), {NO_CLUSTER}),
        ((on_cluster(Op.IDEMPOTENT_WRITE),), {NO_TOPIC}),
        ((on_cluster(Op.IDEMPOTENT_WRITE), on_topic(Op.WRITE)), set()),
    ),
    "transactional produce": _row(
        produce_request("t", batch(b"v", is_transactional=True, **IDEMPOTENT), transactional_id="x"),
        8,
        ((on_topic(Op.WRITE), on_cluster(Op.IDEMPOTENT_WRITE)), {NO_ID}),
        ((on_id(Op.WRITE),), {NO_TOPIC}),
    ),
    "transactional produce without an id": _row(
        produce_request("t", batch(b"v", is_transactional=True, **IDEMPOTENT)), 8, ((on_topic(Op.WRITE),), {NO_ID})
    ),
    "fetch": _row(
        fetch_request("t"),
        11,
        ((), {NO_TOPIC}),
        ((on_topic(Op.WRITE),), {NO_TOPIC}),
        ((on_topic(Op.READ),), set()),
    ),
    "fetch a missing topic": _row(
        fetch_request("missing"), 11, ((), {NO_TOPIC}), ((on_topic(Op.READ, "missing"),), {UNKNOWN_TOPIC})
    ),
    "fetch as a follower": _row(
        fetch_request("t", replica_id=1), 11, ((on_topic(Op.READ),), {NO_TOPIC}), ((CLUSTER_ACTION,), set())
    ),
    "list offsets": _row(
        ListOffsetsRequest(
            -1, topics=_of_two(lambda topic: ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)]))
        ),
        5,
        ((), {NO_TOPIC}),
        ((on_topic(Op.DESCRIBE),), {NO_TOPIC}),
        ((on_topic(Op.DESCRIBE), on_topic(Op.DESCRIBE, "hidden")), set()),
    ),
    "one list offsets": _row(
        ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]),
        5,
        ((), {NO_TOPIC}),
        ((on_topic(Op.WRITE),), set()),
    ),
    "metadata": _row(
        MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False),
        9,
        ((), {NO_TOPIC}),
        ((on_topic(Op.DESCRIBE),), set()),
    ),
    "offset commit": _row(
        OffsetCommitRequest("g", topics=committed("t", "hidden")),
        7,
        ((), {NO_GROUP}),
        ((on_group(Op.DESCRIBE),), {NO_GROUP}),
        ((on_group(Op.READ),), {NO_TOPIC}),
        ((on_group(Op.READ), on_topic(Op.READ)), {NO_TOPIC}),
        ((on_group(Op.READ), on_topic(Op.READ), on_topic(Op.READ, "hidden")), set()),
    ),
    "one offset commit": _row(
        OffsetCommitRequest("g", topics=committed("t")),
        7,
        ((on_group(Op.READ),), {NO_TOPIC}),
        ((on_group(Op.READ), on_topic(Op.READ)), set()),
    ),
    "offset fetch": _row(
        OffsetFetchRequest("g", [OffsetFetchRequestTopic(topic, [0]) for topic in ("t", "hidden")]),
        7,
        ((), {NO_GROUP}),
        ((on_group(Op.DESCRIBE),), {NO_TOPIC}),
        ((on_group(Op.READ), on_topic(Op.READ)), {NO_TOPIC}),
        ((on_group(Op.READ), on_topic(Op.READ), on_topic(Op.DESCRIBE, "hidden")), set()),
    ),
    "old offset fetch": _row(
        OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]),
        1,
        ((), {NO_GROUP}),
        ((on_group(Op.DESCRIBE),), {NO_TOPIC}),
        ((on_group(Op.DESCRIBE), on_topic(Op.DESCRIBE)), set()),
    ),
    "all offsets": _row(OffsetFetchRequest("g", None), 7, ((), {NO_GROUP}), ((on_group(Op.DESCRIBE),), set())),
    "find a group's coordinator": _row(
        FindCoordinatorRequest("g", 0), 3, ((), {NO_GROUP}), ((on_group(Op.READ),), set())
    ),
    "find a transaction's coordinator": _row(
        FindCoordinatorRequest("x", 1), 3, ((), {NO_ID}), ((on_id(Op.DESCRIBE),), set())
    ),
    "find another coordinator": _row(FindCoordinatorRequest("x", 2), 3, ((), {-1})),
    "join group": _row(
        JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]),
        7,
        ((on_group(Op.DESCRIBE),), {NO_GROUP}),
        ((on_group(Op.READ),), {79}),
    ),
    "sync group": _row(
        SyncGroupRequest("g", 1, "m", None, "consumer", "range"), 5, ((), {NO_GROUP}), ((on_group(Op.READ),), {25})
    ),
    "sync group without a protocol": _row(SyncGroupRequest("g", 1, "m"), 5, ((), {23})),
    "heartbeat": _row(HeartbeatRequest("g", 1, "m"), 4, ((), {NO_GROUP}), ((on_group(Op.READ),), {25})),
    "leave group": _row(
        LeaveGroupRequest("g", members=[MemberIdentity("m")]), 4, ((), {NO_GROUP}), ((on_group(Op.READ),), {25})
    ),
    "describe groups": _row(
        DescribeGroupsRequest(["g", "other", "g"]),
        5,
        ((), {NO_GROUP}),
        ((on_group(Op.DESCRIBE),), {NO_GROUP}),
        ((on_group(Op.DESCRIBE), on_group(Op.READ, "other")), set()),
    ),
    "delete groups": _row(
        DeleteGroupsRequest(["g2", "other", "other"]),
        2,
        ((on_group(Op.READ, "g2"),), {NO_GROUP}),
        ((on_group(Op.DELETE, "g2"),), {NO_GROUP, 69}),
        ((on_group(Op.DELETE, "g2"), on_group(Op.DELETE, "other")), {69}),
    ),
    "offset delete": _row(
        OffsetDeleteRequest(
            "g", _of_two(lambda topic: OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)]))
        ),
        0,
        ((on_group(Op.READ),), {NO_GROUP}),
        ((on_group(Op.DELETE),), {NO_TOPIC}),
        ((on_group(Op.DELETE), on_topic(Op.READ)), {NO_TOPIC}),
        ((on_group(Op.DELETE), on_topic(Op.READ), on_topic(Op.READ, "hidden")), set()),
    ),
    "create topics": _row(
        CreateTopicsRequest([CreatableTopic("new", 1, 1)], validate_only=True),
        5,
        ((), {NO_TOPIC}),
        ((on_cluster(Op.CREATE),), {NO_TOPIC}),  # of the configuration alone
        ((on_topic(Op.CREATE, "new"), on_topic(Op.DESCRIBE_CONFIGS, "new")), set()),
    ),
    "delete topics": _row(
        DeleteTopicsRequest(topic_names=["missing", "hidden"]),
        4,
        ((), {NO_TOPIC}),
        ((on_topic(Op.DELETE, "missing"),), {NO_TOPIC, UNKNOWN_TOPIC}),
    ),
    "create partitions": _row(
        CreatePartitionsRequest([CreatePartitionsTopic("t", 4, None)], validate_only=True),
        2,
        ((on_topic(Op.CREATE),), {NO_TOPIC}),
        ((on_topic(Op.ALTER),), set()),
    ),
    "delete records": _row(
        DeleteRecordsRequest(
            _of_two(lambda topic: DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 0)])), timeout_ms=1000
        ),
        2,
        ((on_topic(Op.WRITE),), {NO_TOPIC}),
        ((on_topic(Op.DELETE),), {NO_TOPIC}),
        ((on_topic(Op.DELETE), on_topic(Op.DELETE, "hidden")), set()),
    ),
    "offset for leader epoch": _row(
        OffsetForLeaderEpochRequest(
            -1, _of_two(lambda topic: OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, -1, 0)]))
        ),
        3,
        ((), {NO_TOPIC}),
        ((on_topic(Op.DESCRIBE),), {NO_TOPIC}),
        ((CLUSTER_ACTION,), set()),
    ),
    "init producer id": _row(
        InitProducerIdRequest(None), 4, ((), {NO_CLUSTER}), ((on_cluster(Op.IDEMPOTENT_WRITE),), set())
    ),
    "init a transactional id": _row(
        InitProducerIdRequest("x", -1),
        4,
        ((on_cluster(Op.IDEMPOTENT_WRITE),), {NO_ID}),
        ((on_id(Op.WRITE),), {50}),
    ),
    "add partitions": _row(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0]) for topic in ("t", "hidden", "missing")],
        ),
        2,
        ((on_topic(Op.WRITE),), {NO_ID}),
        ((on_id(Op.WRITE), on_topic(Op.WRITE), on_topic(Op.WRITE, "missing")), {NO_TOPIC, 55, UNKNOWN_TOPIC}),
        (
            (on_id(Op.WRITE), on_topic(Op.WRITE), on_topic(Op.WRITE, "hidden"), on_topic(Op.WRITE, "missing")),
            {55, UNKNOWN_TOPIC},
        ),
    ),
    "add offsets": _row(
        AddOffsetsToTxnRequest("x", 1, 0, "g"),
        2,
        ((on_group(Op.READ),), {NO_ID}),
        ((on_id(Op.WRITE),), {NO_GROUP}),
        ((on_id(Op.WRITE), on_group(Op.READ)), {49}),
    ),
    "end a transaction": _row(EndTxnRequest("x", 1, 0, True), 2, ((), {NO_ID}), ((on_id(Op.WRITE),), {49})),
    "commit in a transaction": _row(
        TxnOffsetCommitRequest(
            "x",
            "g",
            1,
            0,
            topics=_of_two(
                lambda topic: TxnOffsetCommitRequestTopic(topic, partitions=[TxnOffsetCommitRequestPartition(0, 1)])
            ),
        ),
        3,
        ((on_group(Op.READ),), {NO_ID}),
        ((on_id(Op.WRITE),), {NO_GROUP}),
        ((on_id(Op.WRITE), on_group(Op.READ)), {NO_TOPIC}),
        ((on_id(Op.WRITE), on_group(Op.READ), on_topic(Op.READ)), {NO_TOPIC}),
    ),
    "write markers": _row(
        WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic("t", [0])], 0)]),
        0,
        ((on_topic(Op.ALL), on_cluster(Op.ALTER)), {NO_CLUSTER}),
        ((CLUSTER_ACTION,), set()),
    ),
    "describe ACLs": _row(
        DescribeAclsRequest(1, None, 1, None, None, 1, 1), 2, ((), {NO_CLUSTER}), ((on_cluster(Op.DESCRIBE),), set())
    ),
    "create ACLs": _row(
        CreateAclsRequest([AclCreation(2, "t", 3, "User:b", "*", 3, 3)] * 2),
        2,
        ((on_cluster(Op.DESCRIBE),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), set()),
    ),
    "delete ACLs": _row(
        DeleteAclsRequest([DeleteAclsFilter(2, "none", 3, None, None, 1, 1)]),
        2,
        ((on_cluster(Op.DESCRIBE),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), set()),
    ),
    "describe configs": _row(
        DescribeConfigsRequest([DescribeConfigsResource(2, "t", None), DescribeConfigsResource(4, "0", None)]),
        3,
        ((), {NO_TOPIC, NO_CLUSTER}),
        ((on_topic(Op.DESCRIBE_CONFIGS),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER_CONFIGS),), {NO_TOPIC}),
        ((on_topic(Op.ALTER_CONFIGS), on_cluster(Op.DESCRIBE_CONFIGS)), set()),
    ),
    "describe an unknown type": _row(DescribeConfigsRequest([DescribeConfigsResource(3, "t", None)]), 3, ((), {42})),
    "alter configs": _row(
        AlterConfigsRequest([AlterConfigsResource(2, "t", []), AlterConfigsResource(4, "", [])], validate_only=True),
        1,
        ((on_topic(Op.DESCRIBE_CONFIGS),), {NO_TOPIC, NO_CLUSTER}),
        ((on_topic(Op.ALTER_CONFIGS),), {NO_CLUSTER}),
        ((on_topic(Op.ALTER_CONFIGS), on_cluster(Op.ALTER_CONFIGS)), set()),
    ),
    "alter an unknown type": _row(
        AlterConfigsRequest([AlterConfigsResource(3, "t", [AlterableConfig("a", "b")])]), 1, ((), {42})
    ),
    "incremental alter configs": _row(
        IncrementalAlterConfigsRequest(
            [IncrementalResource(2, "t", []), IncrementalResource(8, "0", [])], validate_only=True
        ),
        1,
        ((), {NO_TOPIC, NO_CLUSTER}),
        ((on_topic(Op.ALTER_CONFIGS), on_cluster(Op.ALTER_CONFIGS)), set()),
    ),
    "alter replica log dirs": _row(
        AlterReplicaLogDirsRequest([AlterReplicaLogDir("/none", [AlterReplicaLogDirTopic("t", [0])])]),
        1,
        ((on_topic(Op.ALL),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), {57}),
    ),
    "elect leaders": _row(
        ElectLeadersRequest(0, [TopicPartitions("t", [0])]),
        2,
        ((on_cluster(Op.DESCRIBE),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), {84}),
    ),
    "alter reassignments": _row(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic("missing", [ReassignablePartition(0, None)])], timeout_ms=1000
        ),
        0,
        ((on_cluster(Op.DESCRIBE),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), {85}),
    ),
    "list reassignments": _row(
        ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("t", [0])]),
        0,
        ((), {NO_CLUSTER}),
        ((on_cluster(Op.DESCRIBE),), set()),
    ),
    "describe quotas": _row(
        DescribeClientQuotasRequest([]), 0, ((), {NO_CLUSTER}), ((on_cluster(Op.DESCRIBE_CONFIGS),), set())
    ),
    "alter quotas": _row(
        AlterClientQuotasRequest([RequestEntryData([EntityData("user", "a")], [OpData("unknown", 1.0)])]),
        0,
        ((on_cluster(Op.DESCRIBE_CONFIGS),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER_CONFIGS),), {42}),
    ),
    "describe credentials": _row(
        DescribeUserScramCredentialsRequest([UserName("u")]), 0, ((), {NO_CLUSTER}), ((on_cluster(Op.DESCRIBE),), {91})
    ),
    "alter credentials": _row(
        AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion("u", 1)], [ScramCredentialUpsertion("u", 2), ScramCredentialUpsertion("v", 1)]
        ),
        0,
        ((on_cluster(Op.DESCRIBE),), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), {93}),
    ),
    "update features": _row(
        UpdateFeaturesRequest(60_000, [FeatureUpdateKey("f", 1)]),
        0,
        ((), {NO_CLUSTER}),
        ((on_cluster(Op.ALTER),), {42}),
    ),
    "leader and isr": _row(
        LeaderAndIsrRequest(
            controller_epoch=-1,
            topic_states=[LeaderAndIsrTopicState("t", partition_states=[LeaderAndIsrPartitionState("", 0)])],
        ),
        4,
        ((on_cluster(Op.ALTER),), {NO_CLUSTER}),
        ((CLUSTER_ACTION,), {11}),
    ),
    "stop replica": _row(StopReplicaRequest(controller_epoch=-1), 3, ((), {NO_CLUSTER}), ((CLUSTER_ACTION,), {11})),
    "update metadata": _row(
        UpdateMetadataRequest(controller_epoch=-1), 6, ((), {NO_CLUSTER}), ((CLUSTER_ACTION,), {11})
    ),
    "controlled shutdown": _row(ControlledShutdownRequest(9, -1), 3, ((), {NO_CLUSTER}), ((CLUSTER_ACTION,), {8})),
    "alter partition": _row(AlterPartitionRequest(0, -2), 0, ((), {NO_CLUSTER}), ((CLUSTER_ACTION,), {77})),
}

LATER_ROWS: dict[str, Row] = {
    "describe cluster": _row(DescribeClusterRequest(), 0, ((), set())),
    "describe producers": _row(
        DescribeProducersRequest(_of_two(lambda name: describe_producers.TopicRequest(name, [0]))),
        0,
        ((on_topic(Op.DESCRIBE),), {NO_TOPIC}),
        ((on_topic(Op.READ), on_topic(Op.READ, "hidden")), set()),
    ),
    "describe transactions": _row(
        DescribeTransactionsRequest(["x"]), 0, ((), {NO_ID}), ((on_id(Op.DESCRIBE),), {TRANSACTIONAL_ID_NOT_FOUND})
    ),
    "list config resources": _row(
        ListClientMetricsResourcesRequest([]), 1, ((), {NO_CLUSTER}), ((on_cluster(Op.DESCRIBE_CONFIGS),), set())
    ),
    "describe topic partitions": _row(
        DescribeTopicPartitionsRequest(_of_two(describe_topic_partitions.TopicRequest)),
        0,
        ((on_topic(Op.DESCRIBE),), {NO_TOPIC}),
        ((on_topic(Op.DESCRIBE), on_topic(Op.DESCRIBE, "hidden")), set()),
    ),
    "consumer group heartbeat": _row(
        ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 60_000, ["t", "hidden"], topic_partitions=[]),
        1,
        ((), {NO_GROUP}),
        ((on_group(Op.READ), on_topic(Op.DESCRIBE)), {NO_TOPIC}),
        ((on_group(Op.READ), on_topic(Op.DESCRIBE), on_topic(Op.DESCRIBE, "hidden")), set()),
    ),
    "consumer group describe": _row(
        ConsumerGroupDescribeRequest(["g"]), 1, ((), {NO_GROUP}), ((on_group(Op.DESCRIBE),), {GROUP_ID_NOT_FOUND})
    ),
}
"""Rows of APIs that Apache Kafka 2.7.2 does not have."""
