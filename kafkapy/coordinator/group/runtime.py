"""The partitions of ``__consumer_offsets`` that this broker leads: the shared runtime with the writes of groups."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.calls import NO_PRODUCER, Producer
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import MetadataBudget
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.records import OFFSET_VALUE_VERSION, commits_in_steps, offset_record, plain_commits
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.runtime import Background, LeadershipSource, Metadata, Runtime, when_appended
from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record, encode_batch
from kafkapy.records.validate import ValidatedBatch
from kafkapy.storage.log.log import AppendResult
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
        rebalancer: Rebalancer,
        background: Background,
    ) -> None:
        super().__init__(settings.topic_settings(), clock, replica_manager, metadata, background)
        self.settings = settings
        self.budget = MetadataBudget(settings.metadata_max_bytes)
        self._rebalancer = rebalancer

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
        """All groups that are served, in pieces; groups that were deleted meanwhile are left out."""
        for shard in self.loaded_shards():
            for piece in pieces(list(shard.groups.values())):
                if self.is_current(shard):
                    yield [(shard, group) for group in piece if not group.is_dead]

    # Append and replay

    def append(
        self,
        shard: GroupShard,
        group: Group,
        records: list[Record],
        on_done: Callable[[int], None],
        *,
        producer: Producer = NO_PRODUCER,
    ) -> None:
        """Append, replay when enough replicas have the records, then call ``on_done`` with 0 or the log's error.

        With a ``producer`` that has an id the records belong to its transaction. If the group is deleted before they
        are acknowledged, its tombstones follow them in the log: a new group of the same id does not get them.
        """

        def replay(appended: AppendResult) -> None:
            if not group.is_dead:
                self._replay(shard, records, appended, producer.producer_id)

        self.write(shard, self._encode(records, producer), replay, on_done)

    def largest_batch(self, shard: GroupShard) -> int:
        """The size of the largest batch that the shard's log takes; 0 if this broker does not have the log now."""
        log = self._log_of(shard)
        return 0 if log is None else min(log.config.max_message_bytes, log.config.segment_bytes)

    def end_offset(self, shard: GroupShard) -> int:
        """The end of the shard's log, acknowledged or not; 0 if this broker does not have the log now."""
        log = self._log_of(shard)
        return 0 if log is None else log.log_end_offset

    def _log_of(self, shard: GroupShard) -> Any:
        try:
            return self._log.partition(shard.topic_partition).log
        except BrokerError:
            return None

    def append_locally(self, shard: GroupShard, records: list[Record]) -> int:
        """Append and replay without waiting for other replicas; returns 0 or the log's error.

        For tombstones only: if this broker fails and a tombstone is lost, the next retention check writes it again.
        """
        try:
            result = self._log.append(
                shard.topic_partition,
                bytearray(self._encode(records, NO_PRODUCER)),
                required_acks=0,
                from_client=False,
            )
        except BrokerError as error:
            return error.error_code
        self._replay(shard, records, result, NO_PRODUCER_ID)
        return 0

    def _encode(self, records: list[Record], producer: Producer) -> bytes:
        return encode_batch(
            records,
            compression=self.settings.topic_compression_codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.base_sequence,
            is_transactional=producer.producer_id != NO_PRODUCER_ID,
        )

    @staticmethod
    def _replay(shard: GroupShard, records: list[Record], appended: AppendResult, producer_id: int) -> None:
        for offset, (key, value, timestamp, headers, _) in enumerate(records, appended.first_offset):
            shard.replay_record(Record(key, value, timestamp, headers, offset), producer_id)

    def now_ms(self) -> int:
        """The time by the broker's clock."""
        return self._clock.now_ms()

    # Commits: a fast path beside ``append``. Nearly all have neither metadata nor compression, and are acknowledged at
    # once; they are written in a fifth of the time, and replayed without being decoded

    @property
    def writes_plain_commits(self) -> bool:
        """Whether the broker's settings let commits have values of version 3, without compression."""
        settings = self.settings
        return settings.offset_value_version == OFFSET_VALUE_VERSION and not settings.topic_compression_codec

    def commit(
        self,
        shard: GroupShard,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer: Producer,
        prepared: ValidatedBatch | None = None,
    ) -> int | Answer[int]:
        """Append and replay the commits of a group: 0 or the log's error, or an answer if it waits for other replicas.

        ``prepared`` is the batch that ``prepare_commit``, or a ``CommitTemplate``, has made of the same offsets.
        """
        settings = self.settings
        batch = prepared
        answer: Answer[int]
        if batch is None:
            now_ms = self._clock.now_ms()
            if self.writes_plain_commits:
                batch = plain_commits(group.group_id, offsets, now_ms, producer)
            if batch is None:
                version = settings.offset_value_version
                answer = Answer()
                records = [offset_record(group.group_id, *each, now_ms, version) for each in offsets.items()]
                self.append(shard, group, records, answer.set, producer=producer)
                return answer.value if answer.is_set else answer
        try:  # as ``append_safely``, without its callback
            appended = self._log.append_internal(
                shard.topic_partition, batch, settings.offsets_commit_timeout_ms, settings.required_acks
            )
        except BrokerError as error:
            return error.error_code
        if isinstance(appended, AppendResult):
            shard.replay_commits(group, offsets, appended.first_offset, producer.producer_id)
            return 0
        answer = Answer()

        def on_appended(error_code: int, appended: AppendResult | None) -> None:
            if appended is not None and self.is_current(shard) and not group.is_dead:  # as in ``append``
                shard.replay_commits(group, offsets, appended.first_offset, producer.producer_id)
            answer.set(error_code)

        when_appended(appended, on_appended)
        return answer.value if answer.is_set else answer

    def prepare_commit(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], producer: Producer
    ) -> Steps[ValidatedBatch | None]:
        """Build the batch of a large commit in steps; None if the broker's settings require another layout."""
        if not self.writes_plain_commits:
            return None
        return (yield from commits_in_steps(group_id, offsets, self._clock.now_ms(), producer))

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """End a producer's transaction after its marker was written: its offsets become visible, or are dropped.

        As in Kafka this is work in the background: a transaction may have offsets of very many partitions.
        """
        shard = self.shards.get(partition)
        if shard is not None and shard.is_read:  # else the marker is read with the rest of the log
            self._background.run(shard.end_transaction(producer_id, is_commit=is_commit))

    # Load and unload

    def new_shard(self, topic_partition: TopicPartition, leader_epoch: int) -> GroupShard:
        """A shard without groups."""
        return GroupShard(topic_partition, leader_epoch, self._clock.now_ms, self.budget)

    def finish_loading(self, shard: GroupShard) -> Steps[None]:
        """Start the sessions of the members, then serve the shard's groups."""
        yield from shard.finish_loading(self._rebalancer.loaded)

    def shard_unloaded(self, shard: GroupShard) -> None:
        """Kill the shard's groups: waiting requests get NOT_COORDINATOR, and clients look up the new coordinator."""
        self._background.run(self._kill_groups(shard))

    def _kill_groups(self, shard: GroupShard) -> Steps[None]:
        for piece in pieces(list(shard.groups.values())):
            for group in piece:
                if not group.is_dead:
                    self._rebalancer.kill(group, ErrorCode.NOT_COORDINATOR)
            yield
