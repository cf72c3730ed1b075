"""Which operations a client may do on a resource, for the answers of Metadata and DescribeGroups (KIP-430).

A set of operations is a number with one bit for each, at the operation's code in Kafka's ``AclOperation``. Without
``Rights``, as without an authorizer, a client may do everything that the kind of resource allows.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.protocol.constants import AclOperation, AclResourceType

if TYPE_CHECKING:
    from kafkapy.security.authorizer import Rights

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(
    3, 13
)

NOT_ASKED: Final = -(2**31)
"""The client did not request the operations."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_OF_TOPIC: Final = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
_OF_CLUSTER: Final = _bits(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
OF_GROUP: Final = _bits(READ, DELETE, DESCRIBE)
"""Of a group in DescribeGroups: those that Apache Kafka 2.7 knows."""
OF_CONSUMER_GROUP: Final = OF_GROUP | _bits(DESCRIBE_CONFIGS, ALTER_CONFIGS)
"""Of a group in ConsumerGroupDescribe, whose configuration can be described and altered."""


def topic_operations(rights: "Rights | None", topic: str, *, asked: bool) -> int:
    """The operations on a topic, or ``NOT_ASKED``."""
    if not asked:
        return NOT_ASKED
    return _OF_TOPIC if rights is None else rights.operations(AclResourceType.TOPIC, topic)


def cluster_operations(rights: "Rights | None", *, asked: bool) -> int:
    """The operations on the cluster, none for a client that may not describe it; or ``NOT_ASKED``."""
    if not asked:
        return NOT_ASKED
    if rights is None:
        return _OF_CLUSTER
    return rights.operations_on_cluster() if rights.may_on_cluster(AclOperation.DESCRIBE) else 0


def group_operations(all_of: int, *, asked: bool) -> int:
    """The operations on a group, ``OF_GROUP`` or ``OF_CONSUMER_GROUP``, or ``NOT_ASKED``."""
    return all_of if asked else NOT_ASKED
