"""A decision of a coordinator, and the one way in which its records reach the log and the state.

``DecisionWriter.write`` appends the records of a decision, waits until enough replicas have them, replays them, and
sets the answer, in this order. No request is answered before its records are acknowledged, and only replay changes the
state.
"""

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.loading import PartitionSource
from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.validate import ValidatedBatch
from kafkapy.replication.partition import ALL_IN_SYNC
from kafkapy.storage.log.log import AppendResult
from kafkapy.types import TopicPartition

R = TypeVar("R")


class Decision(ABC, Generic[R]):
    """The records that follow from a request or a time-out, and the response once the log has them.

    ``waits_for_replicas`` is false if losing the records does no harm, since they would be written again.
    """

    __slots__ = ("topic_partition", "batch", "response")

    waits_for_replicas: ClassVar[bool] = True

    topic_partition: TopicPartition
    batch: bytearray | ValidatedBatch
    response: R

    @property
    def is_current(self) -> bool:
        """False if the state of the records was unloaded, or deleted, while they waited: they are not replayed."""
        return True

    def wait_started(self, end_offset: int, /) -> None:
        """Other replicas must acknowledge the records first; other requests are decided in the meantime.

        ``end_offset`` is the log's end behind the records.
        """

    @abstractmethod
    def replay(self, first_offset: int, /) -> None:
        """Apply the records, which the log has from ``first_offset`` on."""

    @abstractmethod
    def refuse(self, error_code: int, /) -> R:
        """The log has refused the records: return the response."""


class BrokerLog(PartitionSource, Protocol):
    """The partitions of the broker (``ReplicaManager``)."""

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytearray | ValidatedBatch,
        /,
        *,
        required_acks: int,
        from_client: bool,
    ) -> AppendResult:
        """Append to the local log without waiting for other replicas, or for the disk."""
        ...

    def append_internal(
        self, topic_partition: TopicPartition, batch: bytearray | ValidatedBatch, timeout_ms: int, required_acks: int, /
    ) -> "AppendResult | asyncio.Future[AppendResult]":
        """Append; the result if ``required_acks`` (-1: all in-sync replicas) are there, else a future of it."""
        ...


class DecisionWriter:
    """Writes decisions to partitions of this broker."""

    unloaded_error: ClassVar[int] = ErrorCode.NONE
    """The error of a decision that was not current any more when its records were acknowledged."""

    def __init__(self, log: BrokerLog, timeout_ms: int, required_acks: int = ALL_IN_SYNC) -> None:
        """``timeout_ms`` bounds the wait for ``required_acks`` replicas (-1: all in sync)."""
        self._log = log
        self._timeout_ms = timeout_ms
        self._required_acks = required_acks

    def write(self, decision: Decision[R]) -> Answer[R]:
        """Append, replay when enough replicas have the records, answer; an error of the log is answered alone.

        With one replica the answer is set when this returns.
        """
        place, batch = decision.topic_partition, decision.batch
        appended: AppendResult | asyncio.Future[AppendResult]
        try:
            if decision.waits_for_replicas:
                appended = self._log.append_internal(place, batch, self._timeout_ms, self._required_acks)
            else:
                appended = self._log.append(place, batch, required_acks=0, from_client=False)
        except BrokerError as error:
            return Answer.of(decision.refuse(error.error_code))
        if isinstance(appended, AppendResult):
            decision.replay(appended.first_offset)
            return Answer.of(decision.response)
        answer: Answer[R] = Answer()
        decision.wait_started(self.end_offset(place))
        if appended.done():
            self._wait_ended(decision, answer, appended)
        else:
            appended.add_done_callback(partial(self._wait_ended, decision, answer))
        return answer

    def end_offset(self, topic_partition: TopicPartition) -> int:
        """The end of the partition's log, acknowledged or not; 0 if this broker does not have the log now."""
        log = self._log_of(topic_partition)
        return 0 if log is None else log.log_end_offset

    def _log_of(self, topic_partition: TopicPartition) -> Any:
        try:
            return self._log.partition(topic_partition).log
        except BrokerError:
            return None

    def _wait_ended(self, decision: Decision[R], answer: Answer[R], appended: "asyncio.Future[AppendResult]") -> None:
        error_code = _error_code(appended)
        if not error_code and decision.is_current:
            decision.replay(appended.result().first_offset)
        else:
            error_code = error_code or self.unloaded_error
        answer.set(decision.refuse(error_code) if error_code else decision.response)


def _error_code(appended: "asyncio.Future[Any]") -> int:
    if appended.cancelled():
        return ErrorCode.NOT_COORDINATOR
    error = appended.exception()
    if error is None:
        return 0
    if isinstance(error, BrokerError):
        return error.error_code
    raise error
