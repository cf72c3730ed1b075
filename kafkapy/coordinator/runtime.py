"""Ties a partition of ``__consumer_offsets`` to its state: records → append → replay → answer, load and unload.

The state machines are pure; here is where they meet the log (``partition_log``) and the event loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.commit_batch import commits_in_steps, plain_commits
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import MetadataBudget
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.records import OFFSET_VALUE_VERSION, offset_record
from kafkapy.coordinator.group.replay import end_transaction, replay_all, replay_commits, replay_record
from kafkapy.coordinator.group.results import NO_PRODUCER, Producer
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.group.shard import Shard
from kafkapy.coordinator.partition_log import BrokerLog, Finish, Loading, append_safely, when_appended
from kafkapy.coordinator.steps import Background, pieces
from kafkapy.errors import BrokerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record, encode_batch
from kafkapy.records.validate import ValidatedBatch
from kafkapy.storage.log.log import AppendResult
from kafkapy.turns import Steps, in_turns
from kafkapy.types import NO_PRODUCER_ID, TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


def respond(answer: Answer[T], build: Callable[[T], R]) -> R | Awaitable[R]:
    """A handler's way out: ``build(value)`` now if the answer is there, else a future of it."""
    if answer.is_set:
        return build(answer.value)
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def deliver(value: T) -> None:
        if not future.done():  # its connection may be gone
            future.set_result(build(value))

    answer.on_set(deliver)
    return future


async def respond_in_turns(answer: Answer[T], build: Callable[[T], Steps[R]]) -> R:
    """Wait for ``answer``, then ``build`` the response in steps."""
    return await in_turns(build(await _value_of(answer)))


def _value_of(answer: Answer[T]) -> "asyncio.Future[T]":
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def deliver(value: T) -> None:
        if not future.done():  # its connection may be gone
            future.set_result(value)

    answer.on_set(deliver)
    return future


class Runtime:
    """The partitions of ``__consumer_offsets`` that this broker leads."""

    def __init__(self, settings: GroupSettings, clock: Clock, log: BrokerLog, background: Background) -> None:
        self.shards: dict[int, Shard] = {}
        self.settings = settings
        self.loading = Loading(GROUP_METADATA_TOPIC, log, clock, settings.offsets_load_buffer_size, background)
        self.budget = MetadataBudget(settings.metadata_max_bytes)
        self._clock = clock
        self._log = log
        self._background = background

    # Append and replay

    def append(
        self, shard: Shard, records: list[Record], on_done: Callable[[int], None], *, producer: Producer = NO_PRODUCER
    ) -> None:
        """Append, and once it is safe replay, then call ``on_done`` with 0 or the log's error.

        With a ``producer`` that has an id the records belong to its transaction.
        """

        def finish(error_code: int, appended: AppendResult | None) -> None:
            if appended is not None:
                self._replay(shard, records, appended, producer.producer_id)
            on_done(error_code)

        self._append(shard, self._encode(records, producer), finish)

    def commit(
        self,
        shard: Shard,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer: Producer,
        prepared: ValidatedBatch | None = None,
    ) -> int | Answer[int]:
        """Append and replay commits of a group: 0 or the log's error, now (as nearly always) or once it is safe.

        ``prepared`` is what ``prepare_commit`` has made of the same offsets.
        """
        now_ms = self._clock.now_ms()
        settings = self.settings
        version = settings.offset_value_version
        batch = prepared
        if batch is None and version == OFFSET_VALUE_VERSION and not settings.topic_compression_codec:
            batch = plain_commits(group_id, offsets, now_ms, producer)
        answer: Answer[int]
        if batch is None:
            answer = Answer()
            records = [offset_record(group_id, each, offsets[each], now_ms, version) for each in offsets]
            self.append(shard, records, answer.set, producer=producer)
            return answer.value if answer.is_set else answer
        try:  # as ``append_safely``, without a function for what nearly always is there at once
            appended = self._log.append_internal(
                shard.topic_partition, batch, settings.offsets_commit_timeout_ms, settings.required_acks
            )
        except BrokerError as error:
            return error.error_code
        if isinstance(appended, AppendResult):
            replay_commits(shard, group_id, offsets, appended.first_offset, producer.producer_id)
            return 0
        answer = Answer()

        def finish(error_code: int, appended: AppendResult | None) -> None:
            if appended is not None and self.shards.get(shard.partition) is shard:
                replay_commits(shard, group_id, offsets, appended.first_offset, producer.producer_id)
            answer.set(error_code)

        when_appended(appended, finish)
        return answer.value if answer.is_set else answer

    def prepare_commit(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], producer: Producer
    ) -> Steps[ValidatedBatch | None]:
        """Build the batch of a large commit in steps; None where the broker's settings want another form of it."""
        settings = self.settings
        if settings.offset_value_version != OFFSET_VALUE_VERSION or settings.topic_compression_codec:
            return None
        return (yield from commits_in_steps(group_id, offsets, self._clock.now_ms(), producer))

    def _append(self, shard: Shard, batch: bytes | ValidatedBatch, finish: Finish) -> None:
        timeout_ms, acks = self.settings.offsets_commit_timeout_ms, self.settings.required_acks
        append_safely(self._log, shard.topic_partition, batch, timeout_ms, finish, required_acks=acks)

    def append_locally(self, shard: Shard, records: list[Record]) -> int:
        """Append and replay without waiting for others: for tombstones, which may be written again if they get lost.

        Returns 0 or the log's error.
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

    def _replay(self, shard: Shard, records: list[Record], appended: AppendResult, producer_id: int) -> None:
        if self.shards.get(shard.partition) is not shard:
            return  # unloaded meanwhile; whoever loads next reads these records from the log
        for offset, (key, value, timestamp, headers, _) in enumerate(records, appended.first_offset):
            replay_record(shard, Record(key, value, timestamp, headers, offset), producer_id)

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker was written to the partition: the offsets of the producer's transaction count, or are dropped."""
        shard = self.shards.get(partition)
        if shard is not None and shard.is_read:  # else the marker is read with the rest of the log
            end_transaction(shard, producer_id, is_commit=is_commit)

    # Load and unload

    def load(self, partition: int, leader_epoch: int, rebalancer: Rebalancer) -> None:
        """This broker leads the partition: read it. What takes a moment only is there when this returns."""
        shard = self.shards.get(partition)
        if shard is not None:
            shard.leader_epoch = max(shard.leader_epoch, leader_epoch)
            return
        shard = self.shards[partition] = Shard(partition, leader_epoch, self._clock.now_ms, self.budget)
        self.loading.start(partition, partial(replay_all, shard), partial(self._loaded, shard, rebalancer))

    def _loaded(self, shard: Shard, rebalancer: Rebalancer, is_whole: bool, duration_ms: float) -> Steps[None]:
        if not is_whole:
            del self.shards[shard.partition]
            yield from self._forget(shard, rebalancer)
            return
        yield from shard.finish_loading(rebalancer.loaded)
        logger.log(
            logging.INFO if shard.groups else logging.DEBUG,
            "Loaded %d groups from %s-%d in %.0f ms",
            len(shard.groups),
            GROUP_METADATA_TOPIC,
            shard.partition,
            duration_ms,
        )

    def unload(self, partition: int, leader_epoch: int | None, rebalancer: Rebalancer) -> None:
        """Another broker leads now (or nobody): forget the groups; who waits looks for their new coordinator."""
        shard = self.shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.leader_epoch):
            return
        del self.shards[partition]
        self.loading.stop(partition)
        self._background.run(self._forget(shard, rebalancer))
        logger.debug("Unloaded %s-%d", GROUP_METADATA_TOPIC, partition)

    @staticmethod
    def _forget(shard: Shard, rebalancer: Rebalancer) -> Steps[None]:
        for piece in pieces(list(shard.groups.values())):
            for group in piece:
                if not group.is_dead:
                    rebalancer.kill(group, ErrorCode.NOT_COORDINATOR)
            yield

    def is_loading(self) -> bool:
        """Whether any partition is still being read."""
        return any(shard.is_loading for shard in self.shards.values())

    def groups(self) -> Iterator[list[tuple[Shard, Group]]]:
        """All groups that can be asked, in pieces; of each piece those that are still there when it is their turn."""
        for shard in list(self.shards.values()):
            if not shard.is_loading:
                for piece in pieces(list(shard.groups.values())):
                    if self.shards.get(shard.partition) is shard:
                        yield [(shard, group) for group in piece if not group.is_dead]
