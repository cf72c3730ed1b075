"""The keys and versions that releases of Apache Kafka serve, and the part of an ``ApiTable`` that a release serves too.

The table has what a running broker of each release lists to clients: 2.7.2 and 3.9.1 beside ZooKeeper, 4.4.0 as a KRaft
node, which has dropped old versions (KIP-896). 4.4.0 lists keys 71 and 72 only with a receiver of telemetry.
"""

from typing import Final, NamedTuple

from kafkapy.config.own_keys import API_RELEASES
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.server.dispatch.api_table import ApiTable

Range = tuple[int, int]
"""The lowest and the highest version."""


class Versions(NamedTuple):
    """The versions of one API in each release, in the order of ``API_RELEASES``; None: the release does not list it."""

    kafka_2_7: Range | None
    kafka_3_9: Range | None
    kafka_4_4: Range | None


SERVED: Final[dict[int, Versions]] = {
    ApiKey.PRODUCE: Versions((0, 8), (0, 11), (0, 13)),
    ApiKey.FETCH: Versions((0, 12), (0, 17), (4, 18)),
    ApiKey.LIST_OFFSETS: Versions((0, 5), (0, 9), (1, 11)),
    ApiKey.METADATA: Versions((0, 9), (0, 12), (0, 13)),
    ApiKey.LEADER_AND_ISR: Versions((0, 4), (0, 7), None),
    ApiKey.STOP_REPLICA: Versions((0, 3), (0, 4), None),
    ApiKey.UPDATE_METADATA: Versions((0, 6), (0, 8), None),
    ApiKey.CONTROLLED_SHUTDOWN: Versions((0, 3), (0, 3), None),
    ApiKey.OFFSET_COMMIT: Versions((0, 8), (0, 9), (2, 10)),
    ApiKey.OFFSET_FETCH: Versions((0, 7), (0, 9), (1, 10)),
    ApiKey.FIND_COORDINATOR: Versions((0, 3), (0, 6), (0, 6)),
    ApiKey.JOIN_GROUP: Versions((0, 7), (0, 9), (0, 9)),
    ApiKey.HEARTBEAT: Versions((0, 4), (0, 4), (0, 4)),
    ApiKey.LEAVE_GROUP: Versions((0, 4), (0, 5), (0, 5)),
    ApiKey.SYNC_GROUP: Versions((0, 5), (0, 5), (0, 5)),
    ApiKey.DESCRIBE_GROUPS: Versions((0, 5), (0, 5), (0, 6)),
    ApiKey.LIST_GROUPS: Versions((0, 4), (0, 5), (0, 5)),
    ApiKey.SASL_HANDSHAKE: Versions((0, 1), (0, 1), (0, 1)),
    ApiKey.API_VERSIONS: Versions((0, 3), (0, 4), (0, 5)),
    ApiKey.CREATE_TOPICS: Versions((0, 6), (0, 7), (2, 7)),
    ApiKey.DELETE_TOPICS: Versions((0, 5), (0, 6), (1, 6)),
    ApiKey.DELETE_RECORDS: Versions((0, 2), (0, 2), (0, 2)),
    ApiKey.INIT_PRODUCER_ID: Versions((0, 4), (0, 5), (0, 5)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions((0, 3), (0, 4), (2, 4)),
    ApiKey.ADD_PARTITIONS_TO_TXN: Versions((0, 2), (0, 5), (0, 5)),
    ApiKey.ADD_OFFSETS_TO_TXN: Versions((0, 2), (0, 4), (0, 4)),
    ApiKey.END_TXN: Versions((0, 2), (0, 4), (0, 5)),
    ApiKey.WRITE_TXN_MARKERS: Versions((0, 0), (0, 1), (1, 2)),
    ApiKey.TXN_OFFSET_COMMIT: Versions((0, 3), (0, 4), (0, 6)),
    ApiKey.DESCRIBE_ACLS: Versions((0, 2), (0, 3), (1, 3)),
    ApiKey.CREATE_ACLS: Versions((0, 2), (0, 3), (1, 3)),
    ApiKey.DELETE_ACLS: Versions((0, 2), (0, 3), (1, 3)),
    ApiKey.DESCRIBE_CONFIGS: Versions((0, 3), (0, 4), (1, 4)),
    ApiKey.ALTER_CONFIGS: Versions((0, 1), (0, 2), (0, 2)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Versions((0, 1), (0, 2), (1, 2)),
    ApiKey.DESCRIBE_LOG_DIRS: Versions((0, 2), (0, 4), (1, 5)),
    ApiKey.SASL_AUTHENTICATE: Versions((0, 2), (0, 2), (0, 2)),
    ApiKey.CREATE_PARTITIONS: Versions((0, 3), (0, 3), (0, 3)),
    ApiKey.CREATE_DELEGATION_TOKEN: Versions((0, 2), (0, 3), (1, 3)),
    ApiKey.RENEW_DELEGATION_TOKEN: Versions((0, 2), (0, 2), (1, 2)),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Versions((0, 2), (0, 2), (1, 2)),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Versions((0, 2), (0, 3), (1, 3)),
    ApiKey.DELETE_GROUPS: Versions((0, 2), (0, 2), (0, 3)),
    ApiKey.ELECT_LEADERS: Versions((0, 2), (0, 2), (0, 2)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Versions((0, 1), (0, 1), (0, 1)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions((0, 0), (0, 0), (0, 1)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Versions((0, 0), (0, 0), (0, 0)),
    ApiKey.OFFSET_DELETE: Versions((0, 0), (0, 0), (0, 0)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Versions((0, 0), (0, 1), (0, 1)),
    ApiKey.ALTER_CLIENT_QUOTAS: Versions((0, 0), (0, 1), (0, 1)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Versions((0, 0), (0, 0), (0, 0)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Versions((0, 0), (0, 0), (0, 0)),
    ApiKey.DESCRIBE_QUORUM: Versions(None, None, (0, 2)),
    ApiKey.ALTER_PARTITION: Versions((0, 0), (0, 3), None),
    ApiKey.UPDATE_FEATURES: Versions((0, 0), (0, 1), (0, 2)),
    ApiKey.ENVELOPE: Versions(None, (0, 0), None),
    ApiKey.DESCRIBE_CLUSTER: Versions(None, (0, 1), (0, 2)),
    ApiKey.DESCRIBE_PRODUCERS: Versions(None, (0, 0), (0, 0)),
    ApiKey.UNREGISTER_BROKER: Versions(None, None, (0, 0)),
    ApiKey.DESCRIBE_TRANSACTIONS: Versions(None, (0, 0), (0, 0)),
    ApiKey.LIST_TRANSACTIONS: Versions(None, (0, 1), (0, 2)),
    ApiKey.ALLOCATE_PRODUCER_IDS: Versions(None, (0, 0), None),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(None, (0, 0), (0, 1)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(None, (0, 0), (0, 1)),
    ApiKey.LIST_CLIENT_METRICS_RESOURCES: Versions(None, None, (0, 1)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(None, None, (0, 0)),
    ApiKey.SHARE_GROUP_HEARTBEAT: Versions(None, None, (1, 1)),
    ApiKey.SHARE_GROUP_DESCRIBE: Versions(None, None, (1, 1)),
    ApiKey.SHARE_FETCH: Versions(None, None, (1, 2)),
    ApiKey.SHARE_ACKNOWLEDGE: Versions(None, None, (1, 2)),
    ApiKey.ADD_RAFT_VOTER: Versions(None, None, (0, 1)),
    ApiKey.REMOVE_RAFT_VOTER: Versions(None, None, (0, 0)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Versions(None, None, (0, 0)),
    ApiKey.READ_SHARE_GROUP_STATE: Versions(None, None, (0, 0)),
    ApiKey.WRITE_SHARE_GROUP_STATE: Versions(None, None, (0, 1)),
    ApiKey.DELETE_SHARE_GROUP_STATE: Versions(None, None, (0, 0)),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Versions(None, None, (0, 1)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Versions(None, None, (0, 1)),
    ApiKey.STREAMS_GROUP_DESCRIBE: Versions(None, None, (0, 1)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Versions(None, None, (0, 1)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Versions(None, None, (0, 0)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Versions(None, None, (0, 0)),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Versions(None, None, (0, 0)),
    ApiKey.UNREGISTER_CONTROLLER: Versions(None, None, (0, 0)),
}
"""By API key."""


def cut(apis: ApiTable, release: str, *, for_brokers: bool) -> ApiTable:
    """Return the APIs that a release serves too, in the versions of both.

    A listener ``for_brokers`` keeps what only brokers send, and the oldest versions of all: another broker sends the
    versions of the inter-broker protocol, which is at most 2.8. That of 2.7 is below the newest of every release.
    """
    index = API_RELEASES.index(release)
    found = []
    for api in apis:
        versions = SERVED[api.key][index] if api.key in SERVED else None
        if for_brokers and api.between_brokers:
            found.append(api)
        elif versions is not None:
            low = api.min_version if for_brokers else max(api.min_version, versions[0])
            found.append(api._replace(min_version=low, max_version=min(api.max_version, versions[1])))
    return ApiTable(api for api in found if api.min_version <= api.max_version)
