"""A group coordinator on a manual clock and a log in memory that keeps real batches."""

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.calls import CommitCall
from kafkapy.coordinator.group.classic.calls import JoinCall, JoinResult, SyncCall, SyncResult
from kafkapy.coordinator.group.classic.group import ClassicGroup, as_classic
from kafkapy.coordinator.group.coordinator import GroupCoordinator
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.runtime import Background
from kafkapy.errors import BrokerError
from kafkapy.metadata.image import MetadataCache
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.records.batch import assign, iterate_headers
from kafkapy.records.errors import RecordBatchTooLargeError, RecordTooLargeError
from kafkapy.records.record import Record, read_records
from kafkapy.records.validate import ValidatedBatch
from kafkapy.storage.log.log import AppendResult
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition

CONFIG: dict[str, Any] = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 2**31 - 1,
    "offset.metadata.max.bytes": 4_096,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "offsets.commit.timeout.ms": 5_000,
    "offsets.load.buffer.size": 5_242_880,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.compression.codec": 0,
    "offsets.commit.required.acks": -1,
    "inter.broker.protocol.version": "2.7-IV2",
    "kafkapy.group.metadata.max.bytes": 104_857_600,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.max.assignment.interval.ms": 15_000,
    "group.consumer.min.session.timeout.ms": 45_000,
    "group.consumer.max.session.timeout.ms": 60_000,
    "group.consumer.min.heartbeat.interval.ms": 5_000,
    "group.consumer.max.heartbeat.interval.ms": 15_000,
    "group.consumer.max.size": 2**31 - 1,
    "group.consumer.regex.refresh.interval.ms": 600_000,
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "group.consumer.assignors": ("uniform", "range"),
    "group.consumer.migration.policy": "bidirectional",
}
TP = TopicPartition("t", 0)
TIMEOUTS_MS = (5_000, 30_000)
CONSUMER = "consumer"


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription version 0, by hand."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff"


RANGE = (("range", subscription("t")),)


class Later(Future[Any]):
    """A future with asyncio's methods that calls its callbacks at once and needs no loop."""


def append_result(first_offset: int) -> AppendResult:
    return AppendResult(first_offset, first_offset, -1, -1, 0, False, 0)


class MemoryLog:
    """A partition's batches, read in one piece or cut into reads of one batch."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.one_batch_per_read = False
        self.largest_read = 0
        self.config = SimpleNamespace(max_message_bytes=1_048_588, segment_bytes=104_857_600)
        self.policy = SimpleNamespace(magic=2)

    def append(self, batch: bytes, leader_epoch: int = 0) -> int:
        data = bytearray(batch)
        if len(data) > self.config.max_message_bytes:
            raise RecordTooLargeError(f"{len(data)} bytes")
        if len(data) > self.config.segment_bytes:
            raise RecordBatchTooLargeError(f"{len(data)} bytes")
        first = self.log_end_offset
        assign(data, 0, first, leader_epoch)
        self.batches.append(bytes(data))
        self.log_end_offset = next(header.next_offset for _, header in iterate_headers(data))
        return first

    def read(self, offset: int, max_bytes: int, *, up_to_offset: int | None = None) -> Any:
        assert max_bytes > 0
        self.largest_read = max(self.largest_read, max_bytes)
        assert up_to_offset is None
        wanted = [data for data in self.batches if next(iterate_headers(data))[1].next_offset > offset]
        return SimpleNamespace(records=b"".join(wanted[: 1 if self.one_batch_per_read else None]))

    def salvage(self, offset: int, take: Any, damaged: Any) -> Any:
        for data in self.batches:
            if next(iterate_headers(data))[1].next_offset > offset:
                yield from take(data)
        return self.log_end_offset

    def records(self) -> Iterator[Record]:
        for data in self.batches:
            yield from read_records(data)


class Broker:
    """The broker's logs, leadership and metadata, as the coordinator uses them, with failures and slow replicas."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.error: BrokerError | None = None
        self.error_comes_late = False
        self.is_slow = False
        self.errors: dict[TopicPartition, BrokerError] = {}
        self.slow: set[TopicPartition] = set()
        self.absent: dict[TopicPartition, BrokerError] = {}
        self.unacknowledged: list[tuple[Later, Any]] = []
        self.leadership_listeners: list[Any] = []
        self.metadata_listeners: list[Any] = []
        self.image = SimpleNamespace(topics={}, brokers={})
        self.is_whole = True
        cache = MetadataCache()
        self.partition_counts, self.when_counted = cache.partition_counts, cache.when_counted
        self.set_partition_count = cache.set_partition_count

    def lacks(self, topic: str, partition: int) -> bool:
        return self.is_whole and self.image.partition(topic, partition) is None

    def log(self, tp: TopicPartition) -> MemoryLog:
        return self.logs.setdefault(tp, MemoryLog())

    def partition(self, tp: TopicPartition) -> Any:
        if tp in self.absent:
            raise self.absent[tp]
        return SimpleNamespace(log=self.log(tp), is_leader=True)

    def append(self, tp: TopicPartition, records: Any, *, required_acks: int, from_client: bool = True) -> Any:
        assert isinstance(records, bytearray)
        assert (required_acks, from_client) == (0, False)
        if self.error is not None:
            raise self.error
        return append_result(self.log(tp).append(records))

    def append_internal(
        self, tp: TopicPartition, batch: bytearray | ValidatedBatch, timeout_ms: int, required_acks: int
    ) -> Any:
        assert required_acks == CONFIG["offsets.commit.required.acks"]
        assert timeout_ms in TIMEOUTS_MS
        future = Later()
        error = self.errors.get(tp, self.error)
        if error is not None:
            if not self.error_comes_late:
                raise error
            future.set_exception(error)
            return future
        data = batch.buffer if isinstance(batch, ValidatedBatch) else batch
        result = append_result(self.log(tp).append(data))
        if self.is_slow or tp in self.slow:
            self.unacknowledged.append((future, result))
            return future
        return result

    def acknowledge(self, error: BaseException | None = None) -> None:
        """The other replicas acknowledge the appends (or fail)."""
        waiting, self.unacknowledged = self.unacknowledged, []
        for future, result in waiting:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def add_leadership_listener(self, listener: Any) -> None:
        self.leadership_listeners.append(listener)

    def add_listener(self, listener: Any) -> None:
        self.metadata_listeners.append(listener)


def bare_group(now_ms: int = 0) -> ClassicGroup:
    """A group without a coordinator."""
    sessions: Any = SimpleNamespace(run=finish)
    return ClassicGroup("g", lambda: now_ms, sessions)


def bare_shard(partition: int = 0) -> GroupShard:
    """A shard that no coordinator loads."""
    runtime = World(leads=False).coordinator._runtime
    return runtime.new_shard(TopicPartition(GROUP_METADATA_TOPIC, partition), 0)


class World:
    """A coordinator that leads partition 0 of ``__consumer_offsets`` unless told otherwise."""

    def __init__(self, *, leads: bool = True, broker: Broker | None = None, **config: Any) -> None:
        self.clock = ManualClock()
        self.config = {**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}}
        self.broker = broker or Broker()
        self.background = Background()
        self.later: list[Steps[None]] = []
        self.group_overrides: dict[str, dict[str, str]] = {}
        self.start(leads=leads)

    def start(self, *, leads: bool = True) -> None:
        self.coordinator = GroupCoordinator(
            self.config,
            self.clock,
            self.broker,
            self.broker,
            self.background,
            overrides_of=lambda group_id: self.group_overrides.get(group_id, {}),
        )
        self.coordinator.startup()
        self._listener = self.broker.leadership_listeners[-1]
        if leads:
            self.lead(TopicPartition(GROUP_METADATA_TOPIC, 0), 0)

    def lead(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker becomes the leader of a partition."""
        self.broker.set_partition_count(topic_partition.topic, self.config["offsets.topic.num.partitions"])
        self._listener.on_leader(topic_partition, leader_epoch)

    def resign(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        """This broker is no longer the leader."""
        self._listener.on_follower_or_stopped(topic_partition, leader_epoch)

    def run_later(self) -> None:
        """From the next start on, background work is kept in ``later`` instead of run."""
        self.background = Background(run=self.later.append)

    def restart(self) -> None:
        self.coordinator.shutdown()
        self.start()

    @property
    def log(self) -> MemoryLog:
        return self.broker.log(TopicPartition(GROUP_METADATA_TOPIC, 0))

    def group(self, group_id: str = "g") -> ClassicGroup:
        return as_classic(self.coordinator._runtime.shards[0].groups[group_id])

    def has_group(self, group_id: str = "g") -> bool:
        return group_id in self.coordinator._runtime.shards[0].groups

    def call(self, member_id: str = "", **fields: Any) -> JoinCall:
        defaults: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "rebalance_timeout_ms": 60_000,
            "session_timeout_ms": 10_000,
            "protocol_type": CONSUMER,
            "protocols": RANGE,
        }
        return JoinCall(**(defaults | fields))

    def join(self, member_id: str = "", **fields: Any) -> Answer[JoinResult]:
        return self.coordinator.classic.join(self.call(member_id, **fields))

    def joined(self, member_id: str = "", **fields: Any) -> JoinResult:
        """Send a JoinGroup that must succeed at once."""
        result = self.join(member_id, **fields).value
        assert result.error_code == 0
        return result

    def sync(self, member_id: str, generation_id: int, **fields: Any) -> Answer[SyncResult]:
        assignments = fields.pop("assignments", {})
        return self.coordinator.classic.sync(
            SyncCall(fields.pop("group_id", "g"), generation_id, member_id, assignments=assignments, **fields)
        )

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """Bring a group with ``count`` members to Stable; returns their ids, the leader's first."""
        leader = self.joined(**fields)
        ids = [leader.member_id]
        others = [self.join(**fields) for _ in range(count - 1)]
        if others:
            leader = self.joined(leader.member_id, **fields)
            ids += [other.value.member_id for other in others]
        group_id = fields.get("group_id", "g")
        waiting = [self.sync(each, leader.generation_id, group_id=group_id) for each in ids[1:]]
        parts = {each: f"part-{place}".encode() for place, each in enumerate(ids)}
        answer = self.sync(ids[0], leader.generation_id, group_id=group_id, assignments=parts)
        assert [each.value.error_code for each in (answer, *waiting)] == [0] * count
        return ids

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> int:
        return self.coordinator.classic.heartbeat("g", generation_id, member_id, instance_id)

    def commit(
        self, offset: int | CommittedOffset = 1, member_id: str = "", generation_id: int = -1, **fields: Any
    ) -> Answer[dict[TopicPartition, int]]:
        committed = offset if isinstance(offset, CommittedOffset) else self.committed(offset)
        tp = fields.pop("tp", TP)
        return self.coordinator.commit_offsets(
            CommitCall(fields.pop("group_id", "g"), member_id, generation_id, {tp: committed}, **fields)
        )

    def committed(self, offset: int, **fields: Any) -> CommittedOffset:
        return CommittedOffset(offset, **({"commit_timestamp_ms": self.clock.now_ms()} | fields))

    def delete_groups(self, group_ids: list[str]) -> dict[str, int]:
        return {group_id: finish(self.coordinator.delete_group(group_id)) for group_id in dict.fromkeys(group_ids)}

    def fetch(self, group_id: str = "g", tp: TopicPartition = TP) -> int:
        error_code, offsets = finish(self.coordinator.fetch_offsets(group_id, [tp]))
        assert error_code == 0
        return offsets[tp].offset


def states_world(state: str) -> tuple[World, str]:
    """A group brought to ``state`` by requests, and the id of one of its members (none in Empty)."""
    world = World()
    member_id = "nobody"
    if state == "Empty":
        world.commit()
    elif state == "PreparingRebalance":
        member_id = world.stable()[0]
        world.join()
    elif state == "CompletingRebalance":
        member_id = world.joined().member_id
    else:
        member_id = world.stable()[0]
    assert world.group().state.value == state
    return world, member_id
