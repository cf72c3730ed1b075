"""The errors of requests about topics, partitions and brokers, each with its code in the protocol."""

from typing import ClassVar

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode


class UnknownTopicOrPartitionError(BrokerError):
    """The topic or partition is not in this broker's metadata, or this broker holds no replica of it."""

    error_code: ClassVar[int] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicIdError(BrokerError):
    """No topic has this id."""

    error_code: ClassVar[int] = ErrorCode.UNKNOWN_TOPIC_ID


class LeaderNotAvailableError(BrokerError):
    """The partition has no leader at the moment, or its topic is still being created."""

    error_code: ClassVar[int] = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollowerError(BrokerError):
    """This broker does not lead the partition (or does not follow it, for requests that followers answer)."""

    error_code: ClassVar[int] = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOutError(BrokerError):
    """The change was accepted but was not complete everywhere within the request's time-out."""

    error_code: ClassVar[int] = ErrorCode.REQUEST_TIMED_OUT


class ReplicaNotAvailableError(BrokerError):
    """The replica that the request needs is offline or elsewhere."""

    error_code: ClassVar[int] = ErrorCode.REPLICA_NOT_AVAILABLE


class StaleControllerEpochError(BrokerError):
    """The request comes from a controller that has been replaced."""

    error_code: ClassVar[int] = ErrorCode.STALE_CONTROLLER_EPOCH


class InvalidTopicError(BrokerError):
    """The topic's name, or its state, does not allow the request."""

    error_code: ClassVar[int] = ErrorCode.INVALID_TOPIC_EXCEPTION


class NotEnoughReplicasError(BrokerError):
    """Fewer replicas are in sync than ``min.insync.replicas``; nothing was appended."""

    error_code: ClassVar[int] = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppendError(BrokerError):
    """The records were appended, then the in-sync set fell below ``min.insync.replicas``."""

    error_code: ClassVar[int] = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcksError(BrokerError):
    """``acks`` of a Produce request is none of -1, 0, 1."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REQUIRED_ACKS


class TopicExistsError(BrokerError):
    """A topic of that name exists already."""

    error_code: ClassVar[int] = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsError(BrokerError):
    """The number of partitions is not possible."""

    error_code: ClassVar[int] = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactorError(BrokerError):
    """The replication factor is below one or above the number of live brokers."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignmentError(BrokerError):
    """The replica lists that the request names contradict each other or the cluster."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class NotControllerError(BrokerError):
    """Only the controller serves this request, and it is another broker."""

    error_code: ClassVar[int] = ErrorCode.NOT_CONTROLLER

    def __init__(self, message: str = "Another broker is the controller now.") -> None:
        super().__init__(message)


class InvalidRequestError(BrokerError):
    """The request contradicts itself."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REQUEST


class PolicyViolationError(BrokerError):
    """A rule of this broker forbids the change.

    Topics would have more replicas than ``kafkapy.max.replicas`` allows (Apache Kafka 4.1 answers so to an excessive
    number of partitions, 2.7 has no bound), or records would be deleted from a topic whose cleanup policy forbids it.
    """

    error_code: ClassVar[int] = ErrorCode.POLICY_VIOLATION


class ThrottlingQuotaExceededError(BrokerError):
    """The client has created and deleted as many partitions as its quota allows; it may go on later."""

    error_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class ReassignmentInProgressError(BrokerError):
    """The topic's replicas are being moved, which excludes the request."""

    error_code: ClassVar[int] = ErrorCode.REASSIGNMENT_IN_PROGRESS


class NoReassignmentInProgressError(BrokerError):
    """The partition's replicas are not being moved, so there is nothing to cancel."""

    error_code: ClassVar[int] = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class TransactionalIdAuthorizationFailedError(BrokerError):
    """The client may not use the transactional id of the request."""

    error_code: ClassVar[int] = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class TopicDeletionDisabledError(BrokerError):
    """``delete.topic.enable`` is false."""

    error_code: ClassVar[int] = ErrorCode.TOPIC_DELETION_DISABLED


class FencedLeaderEpochError(BrokerError):
    """The sender knows an older leader epoch than this broker."""

    error_code: ClassVar[int] = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpochError(BrokerError):
    """The sender knows a newer leader epoch than this broker."""

    error_code: ClassVar[int] = ErrorCode.UNKNOWN_LEADER_EPOCH


class StaleBrokerEpochError(BrokerError):
    """The request was meant for (or comes from) an earlier registration of the broker."""

    error_code: ClassVar[int] = ErrorCode.STALE_BROKER_EPOCH


class OffsetNotAvailableError(BrokerError):
    """The leader is new and its high watermark has not caught up with its epoch's start (KIP-207)."""

    error_code: ClassVar[int] = ErrorCode.OFFSET_NOT_AVAILABLE


class BrokerNotAvailableError(BrokerError):
    """The request concerns a broker that is not registered."""

    error_code: ClassVar[int] = ErrorCode.BROKER_NOT_AVAILABLE


class PreferredLeaderNotAvailableError(BrokerError):
    """The first replica of the partition is not alive, or not in sync."""

    error_code: ClassVar[int] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class EligibleLeadersNotAvailableError(BrokerError):
    """No replica of the partition is alive."""

    error_code: ClassVar[int] = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeededError(BrokerError):
    """The partition has a leader of the kind that the election is for."""

    error_code: ClassVar[int] = ErrorCode.ELECTION_NOT_NEEDED


class InvalidUpdateVersionError(BrokerError):
    """The partition's state has another version than the one that the request expects."""

    error_code: ClassVar[int] = ErrorCode.INVALID_UPDATE_VERSION
