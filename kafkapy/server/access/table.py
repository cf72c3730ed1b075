"""The rule of each API; an API without one is denied to all but super users."""

from collections.abc import Mapping
from typing import Final

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import AclOperation
from kafkapy.server.access import cluster, configs, groups, topics, transactions
from kafkapy.server.access.rules import Rule, allowed, on_cluster

_ACTION: Final = AclOperation.CLUSTER_ACTION
_ALTER: Final = AclOperation.ALTER
_DESCRIBE: Final = AclOperation.DESCRIBE

RULES: Final[Mapping[int, Rule]] = {
    ApiKey.PRODUCE: topics.produce,
    ApiKey.FETCH: allowed,  # its handler has the partitions of a session, which the request does not name
    ApiKey.LIST_OFFSETS: topics.list_offsets,
    ApiKey.METADATA: allowed,  # its handler: topics are hidden, and created
    ApiKey.LEADER_AND_ISR: on_cluster(_ACTION, cluster.leader_and_isr),
    ApiKey.STOP_REPLICA: on_cluster(_ACTION, cluster.stop_replica),
    ApiKey.UPDATE_METADATA: on_cluster(_ACTION, cluster.update_metadata),
    ApiKey.CONTROLLED_SHUTDOWN: on_cluster(_ACTION, cluster.controlled_shutdown),
    ApiKey.OFFSET_COMMIT: groups.offset_commit,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    ApiKey.SASL_HANDSHAKE: allowed,
    ApiKey.API_VERSIONS: allowed,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: topics.delete_records,
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.WRITE_TXN_MARKERS: transactions.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: on_cluster(_DESCRIBE, cluster.describe_acls),
    ApiKey.CREATE_ACLS: on_cluster(_ALTER, cluster.create_acls),
    ApiKey.DELETE_ACLS: on_cluster(_ALTER, cluster.delete_acls),
    ApiKey.DESCRIBE_CONFIGS: allowed,  # its handler, whose responses are encoded
    ApiKey.ALTER_CONFIGS: configs.alter,
    ApiKey.ALTER_REPLICA_LOG_DIRS: on_cluster(_ALTER, cluster.alter_replica_log_dirs),
    ApiKey.DESCRIBE_LOG_DIRS: on_cluster(_DESCRIBE, cluster.describe_log_dirs),
    ApiKey.SASL_AUTHENTICATE: allowed,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: allowed,
    ApiKey.RENEW_DELEGATION_TOKEN: allowed,
    ApiKey.EXPIRE_DELEGATION_TOKEN: allowed,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: allowed,  # its handler hides others' tokens
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: on_cluster(_ALTER, cluster.elect),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: on_cluster(_ALTER, cluster.alter_partition_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: on_cluster(_DESCRIBE, cluster.list_partition_reassignments),
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: on_cluster(AclOperation.DESCRIBE_CONFIGS, cluster.describe_client_quotas),
    ApiKey.ALTER_CLIENT_QUOTAS: on_cluster(AclOperation.ALTER_CONFIGS, cluster.alter_client_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster(_DESCRIBE, cluster.describe_user_scram_credentials),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: on_cluster(_ALTER, cluster.alter_user_scram_credentials),
    ApiKey.ALTER_PARTITION: on_cluster(_ACTION, cluster.alter_partition),
    ApiKey.UPDATE_FEATURES: on_cluster(_ALTER, cluster.update_features),
    ApiKey.DESCRIBE_CLUSTER: allowed,  # its handler hides the operations
    ApiKey.DESCRIBE_PRODUCERS: allowed,  # its handler refuses topics
    ApiKey.DESCRIBE_TRANSACTIONS: allowed,  # its handler refuses transactional ids and hides topics
    ApiKey.LIST_TRANSACTIONS: allowed,  # its handler hides transactional ids
    ApiKey.LIST_CLIENT_METRICS_RESOURCES: on_cluster(AclOperation.DESCRIBE_CONFIGS, cluster.list_config_resources),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: allowed,  # its handler refuses or hides topics
}
