"""Confirms with the coordinator of a transaction that a partition is part of it, before its first batch (KIP-890)."""

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.config.transaction_keys import VERIFICATION
from kafkapy.coordinator.answer import future_of
from kafkapy.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, AddCall, ProducerIdAndEpoch
from kafkapy.metadata.features import FIRST_IMPLICIT_VERSION, TRANSACTION_VERSION
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps, turns
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import Services

_RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors for which the producer should repeat its request."""


def _confirms_earlier_versions(services: "Services") -> bool:
    """Whether coordinators are asked about producers that add partitions themselves.

    The brokers of a cluster on ZooKeeper may be of 2.7, which could not be asked.
    """
    if not services.config.flag(VERIFICATION):
        return False
    return services.config.embedded_store or services.features.level(TRANSACTION_VERSION) >= FIRST_IMPLICIT_VERSION


class ConfirmationRules(NamedTuple):
    """The first versions of an API that know TRANSACTION_ABORTABLE, and whose partitions are added implicitly.

    ``retry_code`` is an error for which producers of every version repeat the request.
    """

    abortable_from: int
    adding_from: int
    retry_code: int


class Confirmation(NamedTuple):
    """The transactional id and the version of a request that may write to a transaction."""

    transactional_id: str
    version: int
    rules: ConfirmationRules

    def ask(self, services: "Services", producer: ProducerIdAndEpoch, topic_partition: TopicPartition) -> Steps[int]:
        """Return the error code for the producer, 0 if the partition is part of its open transaction."""
        verifier = services.transaction_verifier
        assert verifier is not None, "a broker that verifies has one"
        is_adding = self.version >= self.rules.adding_from
        if not is_adding and not _confirms_earlier_versions(services):
            return 0
        call = AddCall(self.transactional_id, producer, (topic_partition,), EPOCH_PER_TRANSACTION if is_adding else 0)
        answer = verifier.ask(call, is_adding=is_adding)
        if not answer.is_set:
            turns().wait_for(future_of(answer))
            yield
        return self._code(answer.value)

    def _code(self, error_code: int) -> int:
        if error_code in _RETRIED:
            return self.rules.retry_code
        if error_code == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error_code == ErrorCode.TRANSACTION_ABORTABLE and self.version < self.rules.abortable_from:
            return ErrorCode.INVALID_TXN_STATE
        return error_code
