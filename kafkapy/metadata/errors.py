"""What the cluster layer refuses, each with its code on the wire."""

from typing import ClassVar

from kafkapy.errors import BrokerError


class UnknownTopicOrPartitionError(BrokerError):
    """The topic or partition is not in this broker's metadata, or this broker holds no replica of it."""

    error_code: ClassVar[int] = 3


class LeaderNotAvailableError(BrokerError):
    """The partition has no leader right now, or its topic is still being created."""

    error_code: ClassVar[int] = 5


class NotLeaderOrFollowerError(BrokerError):
    """This broker does not lead the partition (or does not follow it, for requests that followers answer)."""

    error_code: ClassVar[int] = 6


class RequestTimedOutError(BrokerError):
    """The change was accepted but was not complete everywhere within the request's time-out."""

    error_code: ClassVar[int] = 7


class ReplicaNotAvailableError(BrokerError):
    """The replica that the request needs is offline or elsewhere."""

    error_code: ClassVar[int] = 9


class StaleControllerEpochError(BrokerError):
    """A controller that has been replaced is still sending."""

    error_code: ClassVar[int] = 11


class InvalidTopicError(BrokerError):
    """The topic's name, or its state, does not allow the request."""

    error_code: ClassVar[int] = 17


class NotEnoughReplicasError(BrokerError):
    """Fewer replicas are in sync than ``min.insync.replicas`` asks; nothing was appended."""

    error_code: ClassVar[int] = 19


class NotEnoughReplicasAfterAppendError(BrokerError):
    """The records were appended, then the in-sync set fell below ``min.insync.replicas``."""

    error_code: ClassVar[int] = 20


class InvalidRequiredAcksError(BrokerError):
    """``acks`` of a Produce request is none of -1, 0, 1."""

    error_code: ClassVar[int] = 21


class TopicExistsError(BrokerError):
    """A topic of that name is already there."""

    error_code: ClassVar[int] = 36


class InvalidPartitionsError(BrokerError):
    """The number of partitions is not possible."""

    error_code: ClassVar[int] = 37


class InvalidReplicationFactorError(BrokerError):
    """The replication factor is below one or above the number of live brokers."""

    error_code: ClassVar[int] = 38


class InvalidReplicaAssignmentError(BrokerError):
    """The replica lists that the request names contradict each other or the cluster."""

    error_code: ClassVar[int] = 39


class NotControllerError(BrokerError):
    """Only the controller serves this request, and it is another broker."""

    error_code: ClassVar[int] = 41


class InvalidRequestError(BrokerError):
    """The request contradicts itself."""

    error_code: ClassVar[int] = 42


class PolicyViolationError(BrokerError):
    """The topics would have more replicas than ``kafkapy.max.replicas`` allows.

    POLICY_VIOLATION, as Apache Kafka 4.1 answers an excessive number of partitions (2.7 has no bound).
    """

    error_code: ClassVar[int] = 44


class ReassignmentInProgressError(BrokerError):
    """The topic's replicas are being moved, which excludes the request."""

    error_code: ClassVar[int] = 60


class TransactionalIdAuthorizationFailedError(BrokerError):
    """The request's transactional id is not the client's to use."""

    error_code: ClassVar[int] = 53


class TopicDeletionDisabledError(BrokerError):
    """``delete.topic.enable`` is false."""

    error_code: ClassVar[int] = 73


class FencedLeaderEpochError(BrokerError):
    """The sender knows an older leader epoch than this broker."""

    error_code: ClassVar[int] = 74


class UnknownLeaderEpochError(BrokerError):
    """The sender knows a newer leader epoch than this broker."""

    error_code: ClassVar[int] = 75


class StaleBrokerEpochError(BrokerError):
    """The request was meant for (or comes from) an earlier registration of the broker."""

    error_code: ClassVar[int] = 77


class OffsetNotAvailableError(BrokerError):
    """The leader is new and its high watermark has not caught up with its epoch's start (KIP-207)."""

    error_code: ClassVar[int] = 78
