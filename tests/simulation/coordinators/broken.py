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
from kafkapy.records.record import Record


class BrokenCoordinatorRule(NamedTuple):
    """The broken rule in words, and the patch that breaks it as long as it is entered."""

    kind: str
    sentence: str
    break_it: Callable[[], AbstractContextManager[object]]


def _owns_nothing(owned: Partitions | None, revoking: Assigned) -> bool:
    return False


def _always(*_: object) -> bool:
    return True


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
}
