"""Rules of replication and of coordinators, each broken on purpose: the simulation must notice that.

Every rule is one line of the product or a few, replaced while a history runs.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from kafkapy.controller import elections
from kafkapy.controller.active_controller import ActiveController
from kafkapy.coordinator.runtime import Runtime
from kafkapy.coordinator.transaction.marker_sender import DELETED, MarkerSender
from kafkapy.java_hashing import partition_for
from kafkapy.metadata.image import MetadataCache
from kafkapy.metadata.store import ANY_VERSION, SetData
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.metadata.tree import Tree
from kafkapy.replication import fetcher, partition
from kafkapy.replication.partition import InSyncReplicas, Partition, RemoteReplica
from kafkapy.replication.truncation import TruncatedLog, Truncation
from kafkapy.types import NO_LEADER, TopicPartition


class BrokenRule(NamedTuple):
    """The broken rule, and the patch that breaks it as long as it is entered.

    ``is_rare``: it takes a rare course of events to notice it, so a search of a thousand seeds may end without.
    ``needs_coordinators``: only histories with many coordinators can notice it.
    """

    sentence: str
    break_it: Callable[[], AbstractContextManager[object]]
    is_rare: bool = False
    needs_coordinators: bool = False


def _to_high_watermark(log: TruncatedLog, leader_epoch: int, end_offset: int) -> Truncation:
    return Truncation(min(log.high_watermark, log.log_end_offset))


def _without_truncation(log: TruncatedLog, leader_epoch: int, end_offset: int) -> Truncation:
    return Truncation(log.log_end_offset)


def _joins_at_once(isr: InSyncReplicas, replica: RemoteReplica, **_: int) -> bool:
    return not isr.in_flight and replica.broker_id not in isr.committed and replica.log_end_offset >= 0


def _joins_at_high_watermark(
    isr: InSyncReplicas, replica: RemoteReplica, *, leader_high_watermark: int, epoch_start_offset: int
) -> bool:
    return _joins_at_once(isr, replica) and replica.log_end_offset >= leader_high_watermark


def _of_fastest_follower(
    local_end_offset: int, remotes: Iterable[RemoteReplica], maximal: Collection[int], *, now_ms: int, lag_max_ms: int
) -> int:
    ends = [replica.log_end_offset for replica in remotes if replica.broker_id in maximal]
    return min(local_end_offset, max(ends, default=local_end_offset))


def _acknowledged_at_append(self: Partition, next_offset: int, required_acks: int = -1) -> bool:
    return True


def _elect_any(
    replicas: Collection[int], isr: Collection[int], live: Collection[int], *, unclean: bool
) -> elections.Elected | None:
    leader = next((broker for broker in replicas if broker in live), None)
    if leader is None:
        return None
    return elections.Elected(leader, tuple({leader: 0, **{broker: 0 for broker in isr if broker in live}}))


def _elect_any_alone(
    replicas: Collection[int], isr: Collection[int], live: Collection[int], *, unclean: bool
) -> elections.Elected | None:
    leader = next((broker for broker in replicas if broker in live), None)
    return None if leader is None else elections.Elected(leader, tuple(broker for broker in isr if broker in live))


def _no_check(*_: Any) -> None:
    return None


def _any_version(tree: Tree, operation: SetData, *rest: Any) -> Any:
    if operation.path.endswith("/state"):
        operation = operation._replace(version=ANY_VERSION)
    return _SET(tree, operation, *rest)


_SET: Final = Tree._set


class _WithoutVersions:
    """The controller compares nothing, and the store writes whatever version was read."""

    def __enter__(self) -> None:
        self._patches = [
            patch.object(ActiveController, "_isr_refusal", _no_check),
            patch.object(Tree, "_set", _any_version),
        ]
        for each in self._patches:
            each.start()

    def __exit__(self, *_: object) -> None:
        for each in self._patches:
            each.stop()


def _expects_nothing(self: MetadataCache, partitions: Iterable[TopicPartition]) -> None:
    return None


def _deleted_if_not_in_part(self: MarkerSender, topic_partition: TopicPartition) -> int:
    image = self._metadata.image
    partition = image.partition(*topic_partition)
    if partition is not None:
        return int(partition.leader)
    return DELETED if TRANSACTION_STATE_TOPIC in image.topics else NO_LEADER


def _partition_of_first_image(self: Runtime[Any], name: str) -> int:
    if self._partition_count is None:
        topic = self._metadata.image.topics.get(self._topic)
        if topic is None:
            return partition_for(name, self._settings.partition_count)
        self._partition_count = len(topic.partitions)
    return partition_for(name, self._partition_count)


class _CountsFirstImage:
    """A coordinator keeps the number of partitions that the first part of the metadata has."""

    def __enter__(self) -> None:
        self._patches = [
            patch.object(Runtime, "_set_partition_count", _no_check),
            patch.object(Runtime, "partition_for", _partition_of_first_image),
        ]
        for each in self._patches:
            each.start()

    def __exit__(self, *_: object) -> None:
        for each in self._patches:
            each.stop()


RULES: Final = {
    "truncates-to-high-watermark": BrokenRule(
        "a follower truncates its log to its high watermark and not by leader epochs (before KIP-101)",
        lambda: patch.object(fetcher, "truncation_of", _to_high_watermark),
    ),
    "does-not-truncate": BrokenRule(
        "a follower keeps what its new leader does not have",
        lambda: patch.object(fetcher, "truncation_of", _without_truncation),
    ),
    "joins-at-once": BrokenRule(
        "a replica joins the ISR with its first fetch, before it has reached the high watermark",
        lambda: patch.object(partition, "may_join", _joins_at_once),
    ),
    "joins-at-high-watermark": BrokenRule(
        "a replica joins the ISR at the high watermark, before it has reached the start of the leader's epoch",
        lambda: patch.object(partition, "may_join", _joins_at_high_watermark),
        is_rare=True,
    ),
    "counts-fastest-follower": BrokenRule(
        "a leader moves its high watermark when one in-sync follower has the records",
        lambda: patch.object(partition, "high_watermark", _of_fastest_follower),
    ),
    "counts-committed-isr": BrokenRule(
        "a leader counts only the ISR that is confirmed, without the one that it has proposed (KIP-497)",
        lambda: patch.object(InSyncReplicas, "maximal", property(lambda self: self.committed)),
    ),
    "acknowledges-at-append": BrokenRule(
        "a leader answers acks=all when it has appended",
        lambda: patch.object(Partition, "is_acknowledged", _acknowledged_at_append),
    ),
    "elects-out-of-isr": BrokenRule(
        "the controller elects a live replica that is not in the ISR, and puts it there",
        lambda: patch("kafkapy.controller.partition_machine.elect_offline", _elect_any),
    ),
    "elects-without-isr": BrokenRule(
        "the controller elects a live replica that is not in the ISR, and leaves the ISR",
        lambda: patch("kafkapy.controller.partition_machine.elect_offline", _elect_any_alone),
    ),
    "serves-any-epoch": BrokenRule(
        "leader and follower compare no leader epochs in requests (before KIP-320)",
        lambda: patch.object(Partition, "check_epoch", _no_check),
        is_rare=True,
    ),
    "changes-isr-unseen": BrokenRule(
        "the ISR is changed without a look at leader epoch and version",
        _WithoutVersions,
    ),
    "counts-first-part": BrokenRule(
        "a coordinator takes the number of partitions from the first metadata that it gets",
        _CountsFirstImage,
        needs_coordinators=True,
    ),
    "takes-part-for-whole": BrokenRule(
        "a broker takes the first metadata for the whole: what they do not name does not exist",
        lambda: patch.object(MetadataCache, "expect", _expects_nothing),
        needs_coordinators=True,
    ),
    "deletes-by-part": BrokenRule(
        "a transaction coordinator takes a partition for deleted when a part of the metadata does not name it",
        lambda: patch.object(MarkerSender, "leader_of", _deleted_if_not_in_part),
        is_rare=True,
        needs_coordinators=True,
    ),
}
