"""The APIs that this broker serves: ``REGISTRY`` has one row for each.

An ``ApiTable`` has the APIs of a listener: ApiVersions derives from it, ``docs/compatibility.md`` from ``REGISTRY``. An
API's module is imported at its first request; it has ``handle(context, request)``, which returns the response now,
later or in steps (``server/dispatch/result.py``). The permissions are those that Apache Kafka 2.7's ``KafkaApis``
passes to its authorizer.
"""

from typing import Final

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.messages import APIS
from kafkapy.server.dispatch.api_table import Api, ApiTable, Permission

_READ_TOPIC: Final = Permission(AclOperation.READ, AclResourceType.TOPIC)
_WRITE_TOPIC: Final = Permission(AclOperation.WRITE, AclResourceType.TOPIC)
_CREATE_TOPIC: Final = Permission(AclOperation.CREATE, AclResourceType.TOPIC)
_DELETE_TOPIC: Final = Permission(AclOperation.DELETE, AclResourceType.TOPIC)
_ALTER_TOPIC: Final = Permission(AclOperation.ALTER, AclResourceType.TOPIC)
_DESCRIBE_TOPIC: Final = Permission(AclOperation.DESCRIBE, AclResourceType.TOPIC)
_DESCRIBE_CONFIGS_TOPIC: Final = Permission(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC)
_ALTER_CONFIGS_TOPIC: Final = Permission(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC)
_READ_GROUP: Final = Permission(AclOperation.READ, AclResourceType.GROUP)
_DELETE_GROUP: Final = Permission(AclOperation.DELETE, AclResourceType.GROUP)
_DESCRIBE_GROUP: Final = Permission(AclOperation.DESCRIBE, AclResourceType.GROUP)
_CLUSTER_ACTION: Final = Permission(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
_IDEMPOTENT_WRITE: Final = Permission(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER)
_CREATE_CLUSTER: Final = Permission(AclOperation.CREATE, AclResourceType.CLUSTER)
_ALTER_CLUSTER: Final = Permission(AclOperation.ALTER, AclResourceType.CLUSTER)
_DESCRIBE_CLUSTER: Final = Permission(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
_DESCRIBE_CONFIGS_CLUSTER: Final = Permission(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
_ALTER_CONFIGS_CLUSTER: Final = Permission(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER)
_WRITE_TRANSACTIONAL_ID: Final = Permission(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
_DESCRIBE_TRANSACTIONAL_ID: Final = Permission(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
_DESCRIBE_TOKEN: Final = Permission(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN)

REGISTRY: Final = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 0, 13, "produce", (_WRITE_TRANSACTIONAL_ID, _IDEMPOTENT_WRITE, _WRITE_TOPIC)),
        Api(ApiKey.FETCH, 0, 18, "fetch", (_CLUSTER_ACTION, _READ_TOPIC)),
        Api(ApiKey.LIST_OFFSETS, 0, 11, "list_offsets", (_DESCRIBE_TOPIC,)),
        Api(
            ApiKey.METADATA,
            0,
            13,
            "metadata",
            (_DESCRIBE_TOPIC, _CREATE_CLUSTER, _CREATE_TOPIC, _DESCRIBE_CLUSTER),
            needs_whole_image=True,
        ),
        Api(ApiKey.LEADER_AND_ISR, 0, 7, "leader_and_isr", (_CLUSTER_ACTION,), between_brokers=True),
        Api(ApiKey.STOP_REPLICA, 0, 4, "stop_replica", (_CLUSTER_ACTION,), between_brokers=True),
        Api(ApiKey.UPDATE_METADATA, 0, 8, "update_metadata", (_CLUSTER_ACTION,), between_brokers=True),
        Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, "controlled_shutdown", (_CLUSTER_ACTION,), between_brokers=True),
        Api(ApiKey.OFFSET_COMMIT, 0, 10, "offset_commit", (_READ_GROUP, _READ_TOPIC), needs_whole_image=True),
        Api(ApiKey.OFFSET_FETCH, 0, 10, "offset_fetch", (_DESCRIBE_GROUP, _DESCRIBE_TOPIC), needs_whole_image=True),
        Api(
            ApiKey.FIND_COORDINATOR,
            0,
            6,
            "find_coordinator",
            (_DESCRIBE_GROUP, _DESCRIBE_TRANSACTIONAL_ID),
            needs_whole_image=True,
        ),
        Api(ApiKey.JOIN_GROUP, 0, 9, "join_group", (_READ_GROUP,)),
        Api(ApiKey.HEARTBEAT, 0, 4, "heartbeat", (_READ_GROUP,)),
        Api(ApiKey.LEAVE_GROUP, 0, 5, "leave_group", (_READ_GROUP,)),
        Api(ApiKey.SYNC_GROUP, 0, 5, "sync_group", (_READ_GROUP,)),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups", (_DESCRIBE_GROUP,)),
        Api(ApiKey.LIST_GROUPS, 0, 5, "list_groups", (_DESCRIBE_CLUSTER, _DESCRIBE_GROUP)),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, "sasl_handshake", ()),
        Api(ApiKey.API_VERSIONS, 0, 5, "api_versions", ()),
        Api(
            ApiKey.CREATE_TOPICS,
            0,
            7,
            "create_topics",
            (_CREATE_CLUSTER, _CREATE_TOPIC, _DESCRIBE_CONFIGS_TOPIC),
            needs_whole_image=True,
        ),
        Api(ApiKey.DELETE_TOPICS, 0, 6, "delete_topics", (_DELETE_TOPIC,), needs_whole_image=True),
        Api(ApiKey.DELETE_RECORDS, 0, 2, "delete_records", (_DELETE_TOPIC,)),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id", (_WRITE_TRANSACTIONAL_ID, _IDEMPOTENT_WRITE)),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, "offset_for_leader_epoch", (_CLUSTER_ACTION, _DESCRIBE_TOPIC)),
        Api(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            0,
            5,
            "add_partitions_to_txn",
            (_WRITE_TRANSACTIONAL_ID, _WRITE_TOPIC, _CLUSTER_ACTION),
            needs_whole_image=True,
        ),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "add_offsets_to_txn", (_WRITE_TRANSACTIONAL_ID, _READ_GROUP)),
        Api(ApiKey.END_TXN, 0, 5, "end_txn", (_WRITE_TRANSACTIONAL_ID,)),
        Api(ApiKey.WRITE_TXN_MARKERS, 0, 2, "write_txn_markers", (_CLUSTER_ACTION,)),
        Api(
            ApiKey.TXN_OFFSET_COMMIT,
            0,
            6,
            "txn_offset_commit",
            (_WRITE_TRANSACTIONAL_ID, _READ_GROUP, _READ_TOPIC),
            needs_whole_image=True,
        ),
        Api(ApiKey.DESCRIBE_ACLS, 0, 3, "describe_acls", (_DESCRIBE_CLUSTER,)),
        Api(ApiKey.CREATE_ACLS, 0, 3, "create_acls", (_ALTER_CLUSTER,)),
        Api(ApiKey.DELETE_ACLS, 0, 3, "delete_acls", (_ALTER_CLUSTER,)),
        Api(
            ApiKey.DESCRIBE_CONFIGS,
            0,
            4,
            "describe_configs",
            (_DESCRIBE_CONFIGS_CLUSTER, _DESCRIBE_CONFIGS_TOPIC),
            needs_whole_image=True,
        ),
        Api(
            ApiKey.ALTER_CONFIGS,
            0,
            2,
            "alter_configs",
            (_ALTER_CONFIGS_CLUSTER, _ALTER_CONFIGS_TOPIC),
            needs_whole_image=True,
        ),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, "alter_replica_log_dirs", (_ALTER_CLUSTER,)),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, "describe_log_dirs", (_DESCRIBE_CLUSTER,)),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, "sasl_authenticate", ()),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions", (_ALTER_TOPIC,), needs_whole_image=True),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, "create_delegation_token", ()),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, "renew_delegation_token", ()),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, "expire_delegation_token", ()),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, "describe_delegation_token", (_DESCRIBE_TOKEN,)),
        Api(ApiKey.DELETE_GROUPS, 0, 3, "delete_groups", (_DELETE_GROUP,)),
        Api(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders", (_ALTER_CLUSTER,), needs_whole_image=True),
        Api(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            0,
            1,
            "incremental_alter_configs",
            (_ALTER_CONFIGS_CLUSTER, _ALTER_CONFIGS_TOPIC),
            needs_whole_image=True,
        ),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "alter_partition_reassignments", (_ALTER_CLUSTER,)),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments", (_DESCRIBE_CLUSTER,)),
        Api(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", (_DELETE_GROUP, _READ_TOPIC), needs_whole_image=True),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "describe_client_quotas", (_DESCRIBE_CONFIGS_CLUSTER,)),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "alter_client_quotas", (_ALTER_CONFIGS_CLUSTER,)),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "describe_user_scram_credentials", (_DESCRIBE_CLUSTER,)),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "alter_user_scram_credentials", (_ALTER_CLUSTER,)),
        Api(ApiKey.ALTER_PARTITION, 0, 0, "alter_partition", (_CLUSTER_ACTION,), between_brokers=True),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, "update_features", (_ALTER_CLUSTER,)),
        Api(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            0,
            1,
            "consumer_group_heartbeat",
            (_READ_GROUP, _DESCRIBE_TOPIC),
            needs_whole_image=True,
        ),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "consumer_group_describe", (_DESCRIBE_GROUP, _DESCRIBE_TOPIC)),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster", (_DESCRIBE_CLUSTER,), needs_whole_image=True),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe_producers", (_READ_TOPIC,)),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "describe_transactions", (_DESCRIBE_TRANSACTIONAL_ID, _DESCRIBE_TOPIC)),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2, "list_transactions", (_DESCRIBE_TRANSACTIONAL_ID,)),
        Api(
            ApiKey.LIST_CLIENT_METRICS_RESOURCES,
            0,
            1,
            "list_config_resources",
            (_DESCRIBE_CONFIGS_CLUSTER,),
            needs_whole_image=True,
        ),
        Api(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            0,
            "describe_topic_partitions",
            (_DESCRIBE_TOPIC,),
            needs_whole_image=True,
        ),
    )
}

ALL_APIS: Final = ApiTable(REGISTRY.values())
"""The APIs of a listener that other brokers connect to."""

CLIENT_APIS: Final = ApiTable(api for api in REGISTRY.values() if not api.between_brokers)
"""The APIs of every other listener. Apache Kafka 2.7 serves all APIs on all listeners, and relies on its authorizer.
Where no other broker can be the sender, StopReplica could only be misused to delete logs."""


def served_apis() -> dict[str, int]:
    """The keys of the APIs that clients may send, by Kafka's names."""
    return {APIS[api.key][1]: int(api.key) for api in REGISTRY.values() if not api.between_brokers}


def served_api(name: str) -> int | None:
    """The key of the API called ``name``, as a person writes it (see ``plain_name``); None if it is not served."""
    return {known.lower(): key for known, key in served_apis().items()}.get(plain_name(name))


def plain_name(name: str) -> str:
    """An API's name in lower case and without underscores."""
    return name.replace("_", "").lower()
