"""The partitions of ``__consumer_offsets`` that this broker leads: the shared runtime with the writes of groups."""

from collections.abc import Iterator, Sequence
from typing import Final

from kafkapy.clock import Clock
from kafkapy.coordinator.group.calls import NO_PRODUCER, Producer
from kafkapy.coordinator.group.group import Group, GroupType
from kafkapy.coordinator.group.metadata_budget import MetadataBudget
from kafkapy.coordinator.group.records import OFFSET_VALUE_VERSION, RecordKey
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.runtime import Background, LeadershipSource, Metadata, Runtime
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record, encode_batch
from kafkapy.turns import Steps, pieces
from kafkapy.types import NO_PRODUCER_ID, TopicPartition


class GroupRuntime(Runtime[GroupShard]):
    """Finds groups, and writes their records and commits."""

    entries = "groups"

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        background: Background,
    ) -> None:
        super().__init__(settings.topic_settings(), clock, replica_manager, metadata, background)
        self.settings = settings
        self.now_ms: Final = clock.now_ms
        """Returns the time by the broker's clock."""
        self.writes_plain_commits = (
            settings.offset_value_version == OFFSET_VALUE_VERSION and not settings.topic_compression_codec
        )
        """Whether the broker's settings let commits have values of version 3, without compression."""
        self.budget = MetadataBudget(settings.metadata_max_bytes)
        self.types: dict[type[RecordKey], GroupType] = {}
        """See ``GroupTypes``; filled before the first partition is loaded."""

    # Find. Order of checks, as in Kafka: group id (24), running (15), leading (16) or loading (14), then the group (25)

    def find_named(self, group_id: str) -> GroupShard | int:
        """``find`` for requests that need a group with a name."""
        return self.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def find_group(self, group_id: str) -> Group | int:
        """The group of a member's request.

        An error code if the group id is empty, the group is unknown, or this broker does not coordinate it.
        """
        shard = self.find_named(group_id)
        if isinstance(shard, int):
            return shard
        return shard.groups.get(group_id) or ErrorCode.UNKNOWN_MEMBER_ID

    def groups(self) -> Iterator[list[tuple[GroupShard, Group]]]:
        """All groups that are served, in pieces; groups that are deleted between two pieces are left out."""
        for shard in self.loaded_shards():
            for piece in pieces(list(shard.groups.values())):
                if shard.is_current:
                    yield [(shard, group) for group in piece if not group.is_dead]

    # The log

    def largest_batch(self, shard: GroupShard) -> int:
        """The size of the largest batch that the shard's log takes; 0 if this broker does not have the log now."""
        log = self._log_of(shard.topic_partition)
        return 0 if log is None else min(log.config.max_message_bytes, log.config.segment_bytes)

    def encode(self, records: Sequence[Record], producer: Producer = NO_PRODUCER) -> bytearray:
        """The records as a batch, compressed as configured; with a producer's id they belong to its transaction."""
        batch = encode_batch(
            records,
            compression=self.settings.topic_compression_codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.base_sequence,
            is_transactional=producer.producer_id != NO_PRODUCER_ID,
        )
        return bytearray(batch)

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """End a producer's transaction after its marker was written: its offsets become visible, or are dropped.

        As in Kafka this is work in the background: a transaction may have offsets of very many partitions.
        """
        shard = self.shards.get(partition)
        if shard is not None and shard.is_read:  # otherwise loading reads the marker with the rest of the log
            self._background.run(shard.end_transaction(producer_id, is_commit=is_commit))

    # Load and unload

    def new_shard(self, topic_partition: TopicPartition, leader_epoch: int) -> GroupShard:
        """A shard without groups."""
        return GroupShard(topic_partition, leader_epoch, self.types)

    def finish_loading(self, shard: GroupShard) -> Steps[None]:
        """Start the sessions of the members, then serve the shard's groups."""
        yield from shard.finish_loading()

    def shard_unloaded(self, shard: GroupShard) -> None:
        """Kill the shard's groups: waiting requests get NOT_COORDINATOR, and clients look up the new coordinator."""
        self._background.run(self._kill_groups(shard))

    def _kill_groups(self, shard: GroupShard) -> Steps[None]:
        for piece in pieces(list(shard.groups.values())):
            for group in piece:
                if not group.is_dead:
                    group.kill(ErrorCode.NOT_COORDINATOR)
            yield
