"""The APIs that this broker serves: ``REGISTRY`` has one line for each.

An ``ApiTable`` has the APIs of a listener: ApiVersions derives from it, ``docs/compatibility.md`` from ``REGISTRY``. An
API's module is imported at its first request; it has ``handle(context, request)``, which returns the response, an
awaitable of it, steps that lead to it (``kafkapy/turns.py``), or None for no answer.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages import APIS


class Api(NamedTuple):
    """An API and the versions that this broker understands: those of Apache Kafka 2.7.2 unless a card says more."""

    key: ApiKey
    min_version: int
    max_version: int
    module: str
    """Name of the handler's module in this package."""
    between_brokers: bool = False
    """Whether only brokers send it. Apache Kafka requires the operation ClusterAction on the cluster then."""
    needs_whole_image: bool = False
    """Whether the answer depends on which topics exist: requests wait until the metadata image has been whole."""


class ApiTable:
    """The APIs that a listener serves, in the order of their keys."""

    __slots__ = ("_apis",)

    def __init__(self, apis: Iterable[Api]) -> None:
        self._apis = {int(api.key): api for api in sorted(apis)}

    def __iter__(self) -> Iterator[Api]:
        return iter(self._apis.values())

    def serves(self, key: int, version: int) -> bool:
        """Tell whether a request of this version is answered."""
        api = self._apis.get(key)
        return api is not None and api.min_version <= version <= api.max_version


REGISTRY: Final = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 0, 8, "produce"),
        Api(ApiKey.FETCH, 0, 12, "fetch"),
        Api(ApiKey.LIST_OFFSETS, 0, 5, "list_offsets"),
        Api(ApiKey.METADATA, 0, 9, "metadata", needs_whole_image=True),
        Api(ApiKey.LEADER_AND_ISR, 0, 4, "leader_and_isr", between_brokers=True),
        Api(ApiKey.STOP_REPLICA, 0, 3, "stop_replica", between_brokers=True),
        Api(ApiKey.UPDATE_METADATA, 0, 6, "update_metadata", between_brokers=True),
        Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, "controlled_shutdown", between_brokers=True),
        Api(ApiKey.OFFSET_COMMIT, 0, 8, "offset_commit", needs_whole_image=True),
        Api(ApiKey.OFFSET_FETCH, 0, 7, "offset_fetch", needs_whole_image=True),
        Api(ApiKey.FIND_COORDINATOR, 0, 3, "find_coordinator", needs_whole_image=True),
        Api(ApiKey.JOIN_GROUP, 0, 7, "join_group"),
        Api(ApiKey.HEARTBEAT, 0, 4, "heartbeat"),
        Api(ApiKey.LEAVE_GROUP, 0, 4, "leave_group"),
        Api(ApiKey.SYNC_GROUP, 0, 5, "sync_group"),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 5, "describe_groups"),
        Api(ApiKey.LIST_GROUPS, 0, 4, "list_groups"),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, "sasl_handshake"),
        Api(ApiKey.API_VERSIONS, 0, 3, "api_versions"),
        Api(ApiKey.CREATE_TOPICS, 0, 6, "create_topics", needs_whole_image=True),
        Api(ApiKey.DELETE_TOPICS, 0, 5, "delete_topics", needs_whole_image=True),
        Api(ApiKey.DELETE_RECORDS, 0, 2, "delete_records"),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 4, "init_producer_id"),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 3, "offset_for_leader_epoch"),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 2, "add_partitions_to_txn", needs_whole_image=True),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 2, "add_offsets_to_txn"),
        Api(ApiKey.END_TXN, 0, 2, "end_txn"),
        Api(ApiKey.WRITE_TXN_MARKERS, 0, 0, "write_txn_markers"),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 3, "txn_offset_commit", needs_whole_image=True),
        Api(ApiKey.DESCRIBE_ACLS, 0, 2, "describe_acls"),
        Api(ApiKey.CREATE_ACLS, 0, 2, "create_acls"),
        Api(ApiKey.DELETE_ACLS, 0, 2, "delete_acls"),
        Api(ApiKey.DESCRIBE_CONFIGS, 0, 3, "describe_configs", needs_whole_image=True),
        Api(ApiKey.ALTER_CONFIGS, 0, 1, "alter_configs", needs_whole_image=True),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 1, "alter_replica_log_dirs"),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 2, "describe_log_dirs"),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, "sasl_authenticate"),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions", needs_whole_image=True),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 2, "create_delegation_token"),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, "renew_delegation_token"),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, "expire_delegation_token"),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 2, "describe_delegation_token"),
        Api(ApiKey.DELETE_GROUPS, 0, 2, "delete_groups"),
        Api(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders", needs_whole_image=True),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs", needs_whole_image=True),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, "alter_partition_reassignments"),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments"),
        Api(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", needs_whole_image=True),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 0, "describe_client_quotas"),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 0, "alter_client_quotas"),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "describe_user_scram_credentials"),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "alter_user_scram_credentials"),
        Api(ApiKey.ALTER_PARTITION, 0, 0, "alter_partition", between_brokers=True),
        Api(ApiKey.UPDATE_FEATURES, 0, 0, "update_features"),
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
