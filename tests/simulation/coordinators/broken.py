"""Rules of coordinators, each broken on purpose: the histories must notice that.

Every rule is one line of the product or a few, replaced while a history runs.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.decision import Decision, DecisionWriter
from kafkapy.coordinator.group.calls import NO_PRODUCER, Producer
from kafkapy.coordinator.group.consumer import heartbeats, reconciliation
from kafkapy.coordinator.group.consumer.calls import Partitions
from kafkapy.coordinator.group.consumer.group import ConsumerGroup
from kafkapy.coordinator.group.consumer.members import Assigned, ConsumerMember
from kafkapy.coordinator.group.consumer.sessions import Sessions
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.transaction import decisions, marker_sender
from kafkapy.coordinator.transaction import runtime as transaction_runtime
from kafkapy.coordinator.transaction.marker_sender import MarkerSender
from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.coordinator.transaction.records import transaction_record
from kafkapy.coordinator.transaction.states import PREPARE_COMMIT
from kafkapy.coordinator.transaction.transaction import (
    EPOCH_PER_TRANSACTION,
    EndCall,
    Ended,
    Transaction,
    TransactionData,
    Transition,
)
from kafkapy.records.control import Marker
from kafkapy.records.record import Record
from kafkapy.server.handlers import txn_offset_commit
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.producer_state import ProducerState
from kafkapy.turns import Steps


class BrokenCoordinatorRule(NamedTuple):
    """The broken rule in words, and the patch that breaks it as long as it is entered."""

    kind: str
    sentence: str
    break_it: Callable[[], AbstractContextManager[object]]


def _owns_nothing(owned: Partitions | None, revoking: Assigned) -> bool:
    return False


def _always(*_: object) -> bool:
    return True


def _never(*_: object) -> bool:
    return False


def _nothing(*_: object) -> None:
    return None


def _no_hash(topics: Iterable[object]) -> int:
    return 0


def _without_epochs(self: GroupRuntime, records: Sequence[Record], producer: Producer = NO_PRODUCER) -> bytearray:
    """Encode the records without those of current assignments, unless nothing else is there."""
    kept = [each for each in records if not (each.key or b"").startswith(b"\x00\x08")]
    return _ENCODE(self, kept or records, producer)


_ENCODE: Final = GroupRuntime.encode


def _at_append(self: DecisionWriter, decision: Decision[Any]) -> Answer[Any]:
    first_offset = self.end_offset(decision.topic_partition)
    answer = _WRITE(self, decision)
    if answer.is_set:
        return answer
    decision.replay(first_offset)
    return Answer.of(decision.response)


_WRITE: Final = DecisionWriter.write


def _end_in_the_same_epoch(
    found: Transaction, call: EndCall, now_ms: int, new_id: int | None
) -> tuple[Transition | None, Ended] | None:
    decided = _END(found, call, now_ms, new_id)
    if decided is None or decided[0] is None:
        return decided
    transition, ended = decided
    kept = found.data.producer_epoch
    return (
        Transition(transition.data._replace(producer_epoch=kept), transition.previous),
        ended._replace(producer=ended.producer._replace(epoch=kept)),
    )


_END: Final = decisions._end_with_epoch


def _record_of_the_epoch_before(transactional_id: str, data: TransactionData | None, now_ms: int) -> Record:
    if data is not None and data.client_version >= EPOCH_PER_TRANSACTION and data.producer_epoch > 0:
        data = data._replace(producer_epoch=data.producer_epoch - 1)
    return transaction_record(transactional_id, data, now_ms)


def _marker_of_the_epoch_before(completion: Any) -> Ending:
    data = completion.transaction.data
    marker = Marker(data.producer_id, max(data.producer_epoch - 1, 0), completion.shard.leader_epoch)
    return Ending(marker, data.state is PREPARE_COMMIT)


def _verified_if_open(self: ProducerState, producer_id: int, _epoch: int, guard: object | None = None) -> bool:
    entry = self.producers.get(producer_id)
    return _IS_VERIFIED(self, producer_id, _epoch if entry is None else entry.producer_epoch, guard)


_IS_VERIFIED: Final = ProducerState.is_verified


def _no_steps(*_: object) -> Steps[None]:
    yield from ()


RULES: Final = {
    "hands-over-at-once": BrokenCoordinatorRule(
        "group",
        "a partition is free for the next member before the former one has given it up",
        lambda: patch.object(reconciliation, "_owns", _owns_nothing),
    ),
    "ignores-owners": BrokenCoordinatorRule(
        "group",
        "a member gets the partitions of its target although other members own them",
        lambda: patch.object(ConsumerGroup, "is_free", _always),
    ),
    "forgets-epochs": BrokenCoordinatorRule(
        "group",
        "the epochs and partitions of members are not written to the log if other records are",
        lambda: patch.object(GroupRuntime, "encode", _without_epochs),
    ),
    "answers-at-append": BrokenCoordinatorRule(
        "group",
        "a request is answered when this broker alone has its records",
        lambda: patch.object(DecisionWriter, "write", _at_append),
    ),
    "takes-stale-commits": BrokenCoordinatorRule(
        "group",
        "a commit of an earlier member epoch is accepted",
        lambda: patch.object(ConsumerGroup, "_may_commit", _always),
    ),
    "replaces-running-instance": BrokenCoordinatorRule(
        "group",
        "a static member is replaced although it has not left",
        lambda: patch.object(ConsumerMember, "is_away", property(_always)),
    ),
    "overlooks-topics": BrokenCoordinatorRule(
        "group",
        "the group epoch does not grow when the partitions of the topics change",
        lambda: patch.object(heartbeats, "metadata_hash", _no_hash),
    ),
    "keeps-silent-members": BrokenCoordinatorRule(
        "group",
        "a session never ends",
        lambda: patch.object(Sessions, "touch", _nothing),
    ),
    "loses-late-records": BrokenCoordinatorRule(
        "group",
        "records in the log are not replayed if their acknowledgement takes too long",
        lambda: patch("kafkapy.coordinator.group.writes.FollowedWrite.refuse", lambda self, code: code and 15),
    ),
    "keeps-epoch-at-end": BrokenCoordinatorRule(
        "transaction",
        "the end of a transaction of version 2 does not give the producer another epoch",
        lambda: patch.object(decisions, "_end_with_epoch", _end_in_the_same_epoch),
    ),
    "verifies-nothing": BrokenCoordinatorRule(
        "transaction",
        "a partition's leader asks no coordinator about a transaction that begins",
        lambda: patch.object(Log, "_check_verified", _nothing),
    ),
    "writes-old-epoch": BrokenCoordinatorRule(
        "transaction",
        "the log has the epoch before the one that the producer was given",
        lambda: patch.object(transaction_runtime, "transaction_record", _record_of_the_epoch_before),
    ),
    "marks-old-epoch": BrokenCoordinatorRule(
        "transaction",
        "the markers have the epoch of the transaction, and not the next one",
        lambda: patch.object(marker_sender._Completion, "ending", property(_marker_of_the_epoch_before)),
    ),
    "continues-former-transaction": BrokenCoordinatorRule(
        "transaction",
        "a batch belongs to the open transaction of the partition although it has another epoch",
        lambda: patch.object(ProducerState, "is_verified", _verified_if_open),
    ),
    "begins-at-append": BrokenCoordinatorRule(
        "transaction",
        "a request is answered when this broker alone has the record of the transaction",
        lambda: patch.object(DecisionWriter, "write", _at_append),
    ),
    "forgets-prepared": BrokenCoordinatorRule(
        "transaction",
        "a coordinator that loads the log does not complete the transactions that were prepared",
        lambda: patch.object(MarkerSender, "start_prepared", _no_steps),
    ),
    "commits-offsets-unasked": BrokenCoordinatorRule(
        "transaction",
        "the coordinator of the group asks no coordinator about a transaction that begins",
        lambda: patch.object(txn_offset_commit, "_has_to_ask", _never),
    ),
}
