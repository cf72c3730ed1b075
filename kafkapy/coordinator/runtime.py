"""Ties a partition of ``__consumer_offsets`` to its state: records → append → replay → answer, load and unload.

The state machines are pure; here is where they meet the log and the event loop. One thread owns everything, so a
decision, its append and its replay need no locks; only an acknowledgement by other brokers, and the reading of a large
partition, let others run in between.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.errors import NotCoordinatorError
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.replay import NO_PRODUCER_ID, replay_batch, replay_record
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.group.shard import GROUP_TOPIC, Shard
from kafkapy.errors import BrokerError
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

LARGEST_STEP = 65_536
"""Bytes that are replayed before others get their turn: some milliseconds, where Kafka's buffer of 5 MB takes most
of a second. One larger batch is read as a whole."""

T = TypeVar("T")
R = TypeVar("R")


class Appended(Protocol):
    """What is asked of an append's result."""

    @property
    def first_offset(self) -> int:
        """The offset that the first record got."""
        ...


class GroupLog(Protocol):
    """What is asked of the broker's partitions (``ReplicaManager``)."""

    def append(self, tp: TopicPartition, records: Any, /, *, required_acks: int, from_client: bool = True) -> Appended:
        """Write to the local log, at once."""
        ...

    def append_internal(
        self, tp: TopicPartition, batch: bytes, timeout_ms: int, required_acks: int, /
    ) -> "asyncio.Future[Any]":
        """Write, and complete when all in-sync replicas have it (``required_acks`` -1), or this broker has."""
        ...

    def partition(self, tp: TopicPartition, /) -> Any:
        """The partition, with its ``log``."""
        ...


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


class Runtime:
    """The partitions of ``__consumer_offsets`` that this broker leads."""

    def __init__(self, settings: GroupSettings, clock: Clock, log: GroupLog) -> None:
        self.shards: dict[int, Shard] = {}
        self.settings = settings
        self._clock = clock
        self._log = log
        self._loads: dict[int, asyncio.Task[None]] = {}

    # Append and replay

    def append(
        self, shard: Shard, records: list[Record], on_done: Callable[[int], None], *, base_sequence: int = -1
    ) -> None:
        """Append, and once all in-sync replicas have it replay, then call ``on_done`` with 0 or the log's error."""
        batch = self._encode(records, base_sequence)
        try:
            future = self._log.append_internal(
                TopicPartition(GROUP_TOPIC, shard.partition),
                batch,
                self.settings.offsets_commit_timeout_ms,
                self.settings.required_acks,
            )
        except BrokerError as error:
            on_done(error.error_code)
            return
        finish = partial(self._append_ended, shard, records, on_done)
        if future.done():
            finish(future)
        else:
            future.add_done_callback(finish)

    def _append_ended(
        self, shard: Shard, records: list[Record], on_done: Callable[[int], None], future: "asyncio.Future[Any]"
    ) -> None:
        if future.cancelled():
            on_done(NotCoordinatorError.error_code)
            return
        error = future.exception()
        if error is None:
            self._replay(shard, records, future.result())
            on_done(0)
        elif isinstance(error, BrokerError):
            on_done(error.error_code)
        else:
            raise error

    def append_locally(self, shard: Shard, records: list[Record]) -> int:
        """Append and replay without waiting for others: for tombstones, which may be written again if they get lost.

        Returns 0 or the log's error.
        """
        try:
            result = self._log.append(
                TopicPartition(GROUP_TOPIC, shard.partition),
                bytearray(self._encode(records, -1)),
                required_acks=0,
                from_client=False,
            )
        except BrokerError as error:
            return error.error_code
        self._replay(shard, records, result)
        return 0

    def _encode(self, records: list[Record], base_sequence: int) -> bytes:
        return encode_batch(records, compression=self.settings.topic_compression_codec, base_sequence=base_sequence)

    def _replay(self, shard: Shard, records: list[Record], appended: Appended) -> None:
        if self.shards.get(shard.partition) is not shard:
            return  # unloaded meanwhile; whoever loads next reads these records from the log
        for offset, (key, value, timestamp, headers, _) in enumerate(records, appended.first_offset):
            replay_record(shard, Record(key, value, timestamp, headers, offset), NO_PRODUCER_ID)

    # Load and unload

    def load(self, partition: int, leader_epoch: int, rebalancer: Rebalancer) -> None:
        """This broker leads the partition: read it. What fits into one read is there when this returns."""
        shard = self.shards.get(partition)
        if shard is not None:
            shard.leader_epoch = max(shard.leader_epoch, leader_epoch)
            return
        shard = self.shards[partition] = Shard(partition, leader_epoch, self._clock.now_ms)
        steps = self._load_steps(shard, rebalancer)
        if next(steps, None) is not None:
            self._loads[partition] = asyncio.get_running_loop().create_task(self._load_rest(partition, steps))

    async def _load_rest(self, partition: int, steps: Iterator[int]) -> None:
        for _ in steps:
            await self._clock.sleep(0)
        del self._loads[partition]

    def _load_steps(self, shard: Shard, rebalancer: Rebalancer) -> Iterator[int]:
        """Read the partition, one buffer at a time; yields the offset reached whenever more is to come."""
        started_s = self._clock.monotonic_s()
        tp = TopicPartition(GROUP_TOPIC, shard.partition)
        try:
            log = self._log.partition(tp).log
            offset = log.log_start_offset
            while offset < log.log_end_offset:
                offset = self._load_some(shard, log, offset)
                if offset < log.log_end_offset:
                    yield offset
        except (BrokerError, ProtocolError):
            # half the offsets would be worse than none: clients keep asking until somebody can read the partition
            logger.exception("Could not load groups and offsets from %s", tp)
            del self.shards[shard.partition]
            return
        groups = shard.finish_loading()
        for group in groups:
            rebalancer.loaded(group)
        duration_ms = (self._clock.monotonic_s() - started_s) * 1000
        logger.log(
            logging.INFO if groups else logging.DEBUG,
            "Loaded %d groups from %s in %.0f ms",
            len(groups),
            tp,
            duration_ms,
        )

    def _load_some(self, shard: Shard, log: Any, offset: int) -> int:
        """Replay what one read from ``offset`` gives; returns where to read on."""
        size = min(self.settings.offsets_load_buffer_size, LARGEST_STEP)
        records = log.read(offset, size, up_to_offset=None).records
        if not isinstance(records, bytes):
            file_slice, records = records, records.read()
            file_slice.release()
        data = memoryview(records)
        next_offset = offset
        for position, header in iterate_headers(data):
            replay_batch(shard, data, header, position)
            next_offset = header.next_offset
        # compaction may have left nothing up to the end
        return cast(int, next_offset if next_offset > offset else log.log_end_offset)

    def unload(self, partition: int, leader_epoch: int | None, rebalancer: Rebalancer) -> None:
        """Another broker leads now (or nobody): forget the groups; who waits looks for their new coordinator."""
        shard = self.shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.leader_epoch):
            return
        del self.shards[partition]
        load = self._loads.pop(partition, None)
        if load is not None:
            load.cancel()
        for group in list(shard.groups.values()):
            rebalancer.kill(group, NotCoordinatorError.error_code)
        logger.debug("Unloaded %s-%d", GROUP_TOPIC, partition)

    def is_loading(self) -> bool:
        """Whether any partition is still being read."""
        return any(shard.is_loading for shard in self.shards.values())

    def groups(self) -> Iterator[tuple[Shard, Group]]:
        """All groups that can be asked."""
        for shard in list(self.shards.values()):
            if not shard.is_loading:
                for group in list(shard.groups.values()):
                    yield shard, group
