"""One partition of ``__consumer_offsets`` as state: the groups whose ids hash to it."""

from collections.abc import Callable
from typing import Final

from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import MetadataBudget
from kafkapy.coordinator.group.records import GroupKey, OffsetKey
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

GROUPS_IN_A_STEP: Final = 64


class KnownCommit:
    """Whose offset a batch of one commit holds, and the record's offset delta."""

    __slots__ = ("key", "offset_delta")

    def __init__(self, key: OffsetKey, offset_delta: int) -> None:
        self.key = key
        self.offset_delta = offset_delta


class Shard:
    """The groups of one partition. While ``is_loading`` no request is served; when ``is_read`` all of the log is here.

    ``known_keys`` holds, until then, what the keys that were read mean: a log has each many times; ``known_commits``
    the same for batches of one commit, by their bytes up to the value (``replay``).
    ``open_transactions`` holds, by producer id, the groups for which it has committed offsets in a transaction.
    """

    __slots__ = (
        "partition", "topic_partition", "leader_epoch", "groups", "open_transactions", "known_keys", "known_commits",
        "is_loading", "is_read", "_now_ms", "_budget",
    )  # fmt: skip

    def __init__(
        self, partition: int, leader_epoch: int, now_ms: Callable[[], int], budget: MetadataBudget | None = None
    ) -> None:
        self.partition = partition
        self.topic_partition = TopicPartition(GROUP_METADATA_TOPIC, partition)
        self.leader_epoch = leader_epoch
        self.groups: dict[str, Group] = {}
        self.open_transactions: dict[int, set[str]] = {}
        self.known_keys: dict[bytes, OffsetKey | GroupKey | None] = {}
        self.known_commits: dict[bytes, KnownCommit] = {}
        self.is_loading = True
        self.is_read = False
        self._now_ms = now_ms
        self._budget = budget or MetadataBudget()

    def get_or_create(self, group_id: str) -> Group:
        """The group, made as an empty one if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._now_ms, self._budget)
        return group

    def forget_unused(self, group: Group) -> None:
        """Forget a group of generation 0 that a refused request has made: it has no members, no offsets, no record."""
        is_unused = not group.members and not group.pending and group.offsets.is_empty()
        if is_unused and self.groups.get(group.group_id) is group and group.state is states.EMPTY:
            del self.groups[group.group_id]

    def finish_loading(self, loaded: Callable[[Group], None]) -> Steps[None]:
        """All of the log was read: forget the groups that are gone, give the others to ``loaded``, then serve."""
        self.is_read = True
        self.known_keys.clear()
        self.known_commits.clear()
        for count, group in enumerate(list(self.groups.values()), 1):
            if group.generation_id == 0 and group.offsets.is_empty():
                del self.groups[group.group_id]
            else:
                yield from group.update_subscribed()
                loaded(group)
            if count % GROUPS_IN_A_STEP == 0:
                yield
        self.is_loading = False
