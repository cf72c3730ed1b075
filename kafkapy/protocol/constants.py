"""Values of request fields that Kafka's definitions do not name; brokers and clients share them."""

from enum import IntEnum
from typing import Final

LATEST: Final = -1
"""A timestamp of ListOffsets: the end of the log."""
EARLIEST: Final = -2
"""A timestamp of ListOffsets: the log start offset."""
MAX_TIMESTAMP: Final = -3
"""A timestamp of ListOffsets 7: the first record with the largest timestamp (KIP-734)."""
EARLIEST_LOCAL: Final = -4
"""A timestamp of ListOffsets 8: the first offset that the broker itself has, not only tiered storage (KIP-405)."""
LATEST_TIERED: Final = -5
"""A timestamp of ListOffsets 9: the end of what tiered storage has (KIP-1005)."""
EARLIEST_PENDING_UPLOAD: Final = -6
"""A timestamp of ListOffsets 11: the first offset that tiered storage has not (KIP-1023)."""

GROUP_KEY: Final = 0
"""A key type of FindCoordinator: the id of a consumer group."""
TRANSACTIONAL_ID_KEY: Final = 1
"""A key type of FindCoordinator: a transactional id."""


class ResourceType(IntEnum):
    """The kinds of resources that have a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


class AclOperation(IntEnum):
    """The operations of a client on a resource, by the codes of Apache Kafka's ``AclOperation``."""

    ANY = 1
    """In a filter: every operation."""
    ALL = 2
    """In an entry: every operation that the resource has."""
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclResourceType(IntEnum):
    """The kinds of resources that clients have operations on, by the codes of Apache Kafka's ``ResourceType``."""

    ANY = 1
    """In a filter: every kind."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7
    """A principal, of which others may create and see delegation tokens (KIP-373)."""


class AclPatternType(IntEnum):
    """How the name in an entry selects resources, by the codes of Apache Kafka's ``PatternType``."""

    ANY = 1
    """In a filter: both of the last two."""
    MATCH = 2
    """In a filter: every pattern that selects the resource of the filter's name."""
    LITERAL = 3
    """The resource of this name, or each one if the name is ``*``."""
    PREFIXED = 4
    """The resources whose names begin so."""


class AclPermissionType(IntEnum):
    """Whether an entry allows or denies, by the codes of Apache Kafka's ``AclPermissionType``."""

    ANY = 1
    """In a filter: both."""
    DENY = 2
    ALLOW = 3
