"""The errors that coordinators answer, each with its code on Kafka's wire.

The checks of the state machines raise them; ``group/coordinator.py`` turns them into results.
"""

from kafkapy.errors import BrokerError


class CoordinatorError(BrokerError):
    """The root of this module's errors; raised itself (-1) for requests that Kafka's own coordinator trips over."""


class OffsetMetadataTooLargeError(CoordinatorError):
    """The string committed beside an offset is longer than ``offset.metadata.max.bytes``."""

    error_code = 12


class CoordinatorLoadInProgressError(CoordinatorError):
    """The partition that holds the group is still being read: ask again."""

    error_code = 14


class CoordinatorNotAvailableError(CoordinatorError):
    """The coordinator is not running, its topic does not exist yet, or the group is just going away."""

    error_code = 15


class NotCoordinatorError(CoordinatorError):
    """Another broker leads the partition that holds the group."""

    error_code = 16


class IllegalGenerationError(CoordinatorError):
    """The member speaks for another generation of the group than the present one."""

    error_code = 22


class InconsistentGroupProtocolError(CoordinatorError):
    """The member shares no assignment protocol with all others, or its protocol type differs."""

    error_code = 23


class InvalidGroupIdError(CoordinatorError):
    """An empty group id, where a group is needed."""

    error_code = 24


class UnknownMemberIdError(CoordinatorError):
    """The group does not know the member id."""

    error_code = 25


class InvalidSessionTimeoutError(CoordinatorError):
    """The session timeout is outside ``group.min.session.timeout.ms`` to ``group.max.session.timeout.ms``."""

    error_code = 26


class RebalanceInProgressError(CoordinatorError):
    """The group is rebalancing: the member must join again."""

    error_code = 27


class InvalidCommitOffsetSizeError(CoordinatorError):
    """The commit does not fit into one batch of the offsets topic."""

    error_code = 28


class InvalidProducerIdMappingError(CoordinatorError):
    """The transactional id belongs to another producer id, or to none."""

    error_code = 49


class InvalidTransactionTimeoutError(CoordinatorError):
    """The transaction's time-out is not between 1 and ``transaction.max.timeout.ms``."""

    error_code = 50


class ConcurrentTransactionsError(CoordinatorError):
    """The transactional id's last transaction is still being ended, or a change of it being written: ask again."""

    error_code = 51


class NonEmptyGroupError(CoordinatorError):
    """The group has members, so it can't be deleted."""

    error_code = 68


class GroupIdNotFoundError(CoordinatorError):
    """There is no group of that id."""

    error_code = 69


class MemberIdRequiredError(CoordinatorError):
    """The member must join again with the id that the answer carries (KIP-394)."""

    error_code = 79


class GroupMaxSizeReachedError(CoordinatorError):
    """The group has ``group.max.size`` members already (KIP-389)."""

    error_code = 81


class FencedInstanceIdError(CoordinatorError):
    """Another member took the group instance id over (KIP-345)."""

    error_code = 82


class GroupSubscribedToTopicError(CoordinatorError):
    """A member of the group consumes the topic, so its offset can't be deleted (KIP-496)."""

    error_code = 86


class UnstableOffsetCommitError(CoordinatorError):
    """A transaction that commits an offset of the partition is still open (KIP-447)."""

    error_code = 88


class ProducerFencedError(CoordinatorError):
    """Another producer has taken the transactional id over (KIP-360)."""

    error_code = 90
