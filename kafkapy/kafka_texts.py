"""The sentences of Apache Kafka 2.7.2 that clients and tools compare with what they expect, in one place.

Only sentences that programs look at, and those beside them, are Kafka's; all others are kafkapy's own. Callers shorten
a name that may be long.
"""

from collections.abc import Iterable
from typing import Final

# topics


def topic_exists(name: str) -> str:
    """A topic of this name exists."""
    return f"Topic '{name}' already exists."


def topic_missing(name: str) -> str:
    """No topic has this name."""
    return f"The topic '{name}' does not exist."


PARTITION_NOT_HOSTED: Final = "This server does not host this topic-partition."
BROKER_ENDPOINT: Final = (
    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
)


def unsupported_endpoint_type(endpoint_type: int) -> str:
    """DescribeCluster of endpoints that are neither of brokers nor of controllers."""
    return f"Unsupported endpoint type {endpoint_type}"


def group_not_found(group_id: str) -> str:
    """DescribeGroups of a group that does not exist."""
    return f"Group {group_id} not found."


EMPTY_TOPIC_NAME: Final = "Topic name is illegal, it can't be empty"
DIRECTORY_TOPIC_NAME: Final = 'Topic name cannot be "." or ".."'


def topic_name_too_long(name: str) -> str:
    """A name of more than 249 characters."""
    return f"Topic name is illegal, it can't be longer than 249 characters, topic name: {name}"


def topic_name_characters(name: str) -> str:
    """A name with a character that is not allowed."""
    return f"Topic name \"{name}\" is illegal, it contains a character other than ASCII alphanumerics, '.', '_' and '-'"


def topic_collides(name: str, others: Iterable[str]) -> str:
    """A name that differs from those of existing topics only in ``.`` and ``_``."""
    return f"Topic '{name}' collides with existing topics: {', '.join(others)}"


NO_PARTITIONS: Final = "Number of partitions must be larger than 0."
NO_REPLICAS: Final = "Replication factor must be larger than 0."


def too_few_brokers(replication_factor: int, brokers: int) -> str:
    """More replicas than live brokers."""
    return f"Replication factor: {replication_factor} larger than available brokers: {brokers}."


def fewer_partitions(present: int, requested: int) -> str:
    """CreatePartitions with a number below the present one."""
    return f"Topic currently has {present} partitions, which is higher than the requested {requested}."


def as_many_partitions(present: int) -> str:
    """CreatePartitions with the present number."""
    return f"Topic already has {present} partitions."


def being_reassigned(topic: str) -> str:
    """CreatePartitions during a reassignment."""
    return f"A partition reassignment is in progress for the topic '{topic}'."


# configuration

_LARGEST_PLAIN_SET: Final = 4
"""Elements of an immutable set of Scala that is no ``HashSet``."""


def invalid_value(name: str, value: object, reason: str) -> str:
    """A value that the key does not allow; ``reason`` is a sentence."""
    return f"Invalid value {value} for configuration {name}: {reason}"


def unknown_topic_key(name: str) -> str:
    """No topic can have this key."""
    return f"Unknown topic config name: {name}"


def invalid_alteration(resource_type: str, name: str, reason: str) -> str:
    """The resource can't have the requested values."""
    return f"Invalid config value for resource ConfigResource(type={resource_type}, name='{name}'): {reason}"


def not_dynamic(names: Iterable[str]) -> str:
    """Keys of a broker that only a restart changes."""
    return f"Cannot update these configs dynamically: {_scala_set(names)}"


def only_per_broker(names: Iterable[str]) -> str:
    """Keys that can be set for one broker, but not for all at once."""
    return f"Cannot update these configs at default cluster level, broker id must be specified: {_scala_set(names)}"


def only_per_listener(names: Iterable[str]) -> str:
    """Keys that can be set for one listener, but not without its prefix."""
    return (
        "These security configs can be dynamically updated only per-listener using the listener prefix: "
        f"HashSet({', '.join(names)})"
    )


def listener_keys_fixed(listener: str) -> str:
    """Settings of an open listener that are read when it is opened."""
    return _of_configuration(
        f"Configs cannot be updated dynamically for existing listener ListenerName({listener}), "
        "restart broker or create a new listener for update"
    )


def listener_protocol_fixed(listener: str) -> str:
    """The security protocol of an open listener."""
    return _of_configuration(f"Security protocol cannot be updated for existing listener ListenerName({listener})")


def _of_configuration(reason: str) -> str:
    """A reason why all values together are not valid."""
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} "
        "for configuration Invalid dynamic configuration"
    )


def _scala_set(names: Iterable[str]) -> str:
    """An immutable set as Scala writes it."""
    listed = list(names)
    return f"{'Set' if len(listed) <= _LARGEST_PLAIN_SET else 'HashSet'}({', '.join(listed)})"


# security, which is off

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker."
NO_AUTHORIZER_TO_DESCRIBE: Final = "No Authorizer is configured on the broker"
TOPIC_NOT_AUTHORIZED: Final = "Topic authorization failed."
GROUP_NOT_AUTHORIZED: Final = "Group authorization failed."
CLUSTER_NOT_AUTHORIZED: Final = "Cluster authorization failed."
TRANSACTIONAL_ID_NOT_AUTHORIZED: Final = "Transactional Id authorization failed."
REQUEST_NOT_AUTHORIZED: Final = "Request is not authorized."
CREATION_NOT_AUTHORIZED: Final = "Authorization failed."
PARTITIONS_NOT_AUTHORIZED: Final = "The topic authorization is failed."
EMPTY_RESOURCE_NAME: Final = "Invalid empty resource name"
ACL_NOT_CREATED: Final = "Failed to create ACL"
UNEXPECTED_SASL_AUTHENTICATE: Final = "SaslAuthenticate request received after successful authentication"
EMPTY_USER_NAME: Final = "Username must not be empty"
UNKNOWN_SCRAM_MECHANISM: Final = "Unknown SCRAM mechanism"
TOO_FEW_ITERATIONS: Final = "Too few iterations"
TOO_MANY_ITERATIONS: Final = "Too many iterations"
SCRAM_CHANGE_REPEATED: Final = "A user credential cannot be altered twice in the same request"
NO_SCRAM_CREDENTIAL_TO_DELETE: Final = "Attempt to delete a user credential that does not exist"


def only_cluster_name(name: str) -> str:
    """An ACL of the cluster has another name than the cluster's."""
    return f"The only valid name for the CLUSTER resource is {name}"


def no_scram_credential(user: str) -> str:
    """The user has no SCRAM credentials."""
    return f"Attempt to describe a user credential that does not exist: {user}"


def scram_user_repeated(user: str) -> str:
    """A request describes a user twice."""
    return f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"


EMPTY_QUOTA_FILTER: Final = "Unexpected empty filter component entity type"
THROTTLING_QUOTA_EXCEEDED: Final = "The throttling quota has been exceeded."
NO_QUOTA_ENTITY: Final = "Invalid empty client quota entity"


def quota_filter_repeated(kind: str) -> str:
    """Two conditions for one kind of entity."""
    return f"Duplicate {kind} filter component entity type"


def custom_quota_entity(entity_type: str) -> str:
    """A condition for an unknown kind of entity."""
    return f"Custom entity type '{entity_type}' not supported"


def unknown_quota_entity(entity_type: str) -> str:
    """A change of an unknown kind of entity."""
    return f"Unhandled client quota entity type: {entity_type}"


def empty_quota_entity(entity_type: str) -> str:
    """A change of an entity without a name."""
    return f"Empty {entity_type} not supported"


def unknown_quota_key(key: str) -> str:
    """A change of an unknown quota."""
    return f"Invalid configuration key {key}"


def quota_is_no_integer(key: str) -> str:
    """A quota in bytes that has a fraction, or is too large."""
    return f"Configuration {key} must be a Long value"


# features

UNSUPPORTED_FEATURE: Final = "Could not apply finalized feature update because the provided feature is not supported."
EMPTY_FEATURE_NAME: Final = "Feature name can not be empty."
NO_FEATURE_TO_DELETE: Final = "Can not delete non-existing finalized feature."


def feature_not_updated(feature: str, level: int, reason: str) -> str:
    """The message of a request with a feature that can't get the level (Apache Kafka 4.4)."""
    return (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {level} for feature {feature}. {reason}"
    )


UNKNOWN_UPGRADE_TYPE: Final = "The controller does not support the given upgrade type."
NEGATIVE_FEATURE_LEVEL: Final = "A feature version cannot be less than 0."
NOT_A_FEATURE_UPGRADE: Final = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
NOT_A_FEATURE_DOWNGRADE: Final = "Can't downgrade to a newer version."


def feature_not_supported(node: str) -> str:
    """A feature that a node does not know."""
    return f"{node} does not support this feature."


def feature_level_not_supported(node: str, lowest: int, highest: int) -> str:
    """A level of a feature that a node does not know."""
    return f"{node} only supports versions {lowest}-{highest}"


def feature_level_too_low(level: int) -> str:
    """A version level that would delete the feature, which the request does not allow."""
    return (
        f"Can not provide maxVersionLevel: {level} less than 1 without setting the allowDowngrade flag to true in the"
        " request."
    )
