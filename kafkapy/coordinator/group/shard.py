"""One partition of ``__consumer_offsets`` as state: the groups whose ids hash to it."""

from collections.abc import Callable

from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.records import GroupKey, OffsetKey
from kafkapy.types import TopicPartition

GROUP_TOPIC = "__consumer_offsets"


class KnownCommit:
    """Whose offset a batch of one commit holds, and the record's offset delta."""

    __slots__ = ("key", "offset_delta")

    def __init__(self, key: OffsetKey, offset_delta: int) -> None:
        self.key = key
        self.offset_delta = offset_delta


class Shard:
    """The groups of one partition. While ``is_loading`` the log is being read and nobody may ask.

    ``known_keys`` holds, until then, what the keys that were read mean: a log has each many times; ``known_commits``
    the same for batches of one commit, by their bytes up to the value (``replay``).
    ``open_transactions`` holds, by producer id, the groups for which it has committed offsets in a transaction.
    """

    __slots__ = (
        "partition", "topic_partition", "leader_epoch", "groups", "open_transactions", "known_keys", "known_commits",
        "is_loading", "_now_ms",
    )  # fmt: skip

    def __init__(self, partition: int, leader_epoch: int, now_ms: Callable[[], int]) -> None:
        self.partition = partition
        self.topic_partition = TopicPartition(GROUP_TOPIC, partition)
        self.leader_epoch = leader_epoch
        self.groups: dict[str, Group] = {}
        self.open_transactions: dict[int, set[str]] = {}
        self.known_keys: dict[bytes, OffsetKey | GroupKey | None] = {}
        self.known_commits: dict[bytes, KnownCommit] = {}
        self.is_loading = True
        self._now_ms = now_ms

    def get_or_create(self, group_id: str) -> Group:
        """The group, made as an empty one if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._now_ms)
        return group

    def finish_loading(self) -> list[Group]:
        """All of the log was read: forget the groups of which it only tells that they are gone."""
        self.is_loading = False
        self.known_keys.clear()
        self.known_commits.clear()
        for group in list(self.groups.values()):
            if group.generation_id == 0 and group.offsets.is_empty():
                del self.groups[group.group_id]
        return list(self.groups.values())
