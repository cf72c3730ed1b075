"""A request of any API and version that names one topic and one partition where it can."""

import inspect
import re
from importlib import import_module
from typing import Any

from harness.client import batch
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kafkapy.protocol.messages.alter_client_quotas import RequestEntryData
from kafkapy.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kafkapy.protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion
from kafkapy.protocol.messages.create_acls import AclCreation
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter
from kafkapy.protocol.messages.metadata import MetadataRequestTopic
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafkapy.protocol.places import PLACES, Place, Role

TOPIC = "orders"
RESULTS = {
    ApiKey.DESCRIBE_LOG_DIRS: "results",
    ApiKey.CREATE_ACLS: "results",
    ApiKey.DELETE_ACLS: "filter_results",
    ApiKey.ALTER_CLIENT_QUOTAS: "entries",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "results",
    ApiKey.DESCRIBE_TRANSACTIONS: "transaction_states",
}
"""Where responses have error codes in a list that names no topic, partition or group."""


def request_of(key: int, version: int = 0, *, topic: str = TOPIC, partition: int = 0) -> Any:
    """The request; all other fields have their defaults. ``version`` counts where lists have another place later."""
    request: Any = request_class(key)()
    _fill(request, PLACES.get(key, ()), topic, partition)
    if key == ApiKey.METADATA:
        request.topics = [MetadataRequestTopic(name=topic)]
    if key == ApiKey.PRODUCE:
        request.acks, request.timeout_ms = 1, 1000
        request.topic_data[0].partition_data[0].records = batch(b"x")
    if key == ApiKey.ALTER_REPLICA_LOG_DIRS:
        request.dirs = [AlterReplicaLogDir("/nowhere", [AlterReplicaLogDirTopic(topic, [partition])])]
    if key == ApiKey.CREATE_ACLS:
        request.creations = [AclCreation(2, TOPIC, 3, "User:a", "*", 3, 3)]
    if key == ApiKey.DELETE_ACLS:
        request.filters = [DeleteAclsFilter()]
    if key == ApiKey.ALTER_CLIENT_QUOTAS:
        request.entries = [RequestEntryData()]
    if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        request.deletions = [ScramCredentialDeletion("user")]
    if key == ApiKey.LIST_OFFSETS:
        request.replica_id = -1
    if key == ApiKey.FIND_COORDINATOR and version >= 4:
        request.coordinator_keys = ["group"]
    if key == ApiKey.OFFSET_FETCH and version >= 8:
        topics = [OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
        request.topics, request.groups = [], [OffsetFetchRequestGroup("group", topics=topics)]
    if key == ApiKey.ADD_PARTITIONS_TO_TXN and version >= 4:
        topics = [AddPartitionsToTxnTopic(topic, [partition])]
        request.v3_and_below_topics, request.transactions = [], [AddPartitionsToTxnTransaction("id", topics=topics)]
    if key == ApiKey.DESCRIBE_TRANSACTIONS:
        request.transactional_ids = ["id"]
    if key == ApiKey.API_VERSIONS:
        request.client_software_name = request.client_software_version = "x"
    return request


def _fill(container: Any, places: tuple[Place, ...], topic: str, partition: int) -> None:
    if not places:
        return
    place = places[0]
    names = {Role.TOPIC: topic, Role.RESOURCE: topic, Role.PARTITION: partition}
    annotation = str(inspect.signature(type(container).__init__).parameters[place.request].annotation)
    match = re.match(r"list\[(?:.*\.)?(\w+)\]", annotation)
    assert match is not None, annotation
    if not place.named:
        setattr(container, place.request, [names.get(place.role, "group")])
        return
    item = getattr(import_module(type(container).__module__), match[1])()
    setattr(item, place.named, names.get(place.role, 7))
    if place.role is Role.RESOURCE:
        item.resource_type = ResourceType.TOPIC
    _fill(item, places[1:], topic, partition)
    setattr(container, place.request, [item])


def errors_in(key: int, response: Any) -> list[int]:
    """The error codes of a response, from the fields that its API has for them."""
    if key == ApiKey.METADATA:
        return [topic.error_code for topic in response.topics]
    if key == ApiKey.ALTER_REPLICA_LOG_DIRS:
        return [row.error_code for topic in response.results for row in topic.partitions]
    if key in RESULTS:
        return [result.error_code for result in getattr(response, RESULTS[ApiKey(key)])]
    for several in ("coordinators", "groups"):
        if key in (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH) and getattr(response, several, ()):
            return [row.error_code for row in getattr(response, several)]
    if getattr(response, "error_code", 0):
        return [response.error_code]
    if key not in PLACES:
        return [response.error_code]
    return _errors(response, PLACES[key])


def _errors(container: Any, places: tuple[Place, ...]) -> list[int]:
    items = getattr(container, places[0].response)
    if len(places) == 1:
        return [getattr(item, places[0].error) for item in items]
    return [code for item in items for code in _errors(item, places[1:])]
