"""A transaction coordinator, with a group coordinator beside it, on a manual clock and logs in memory."""

from collections.abc import Callable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.runtime import Background, Run, Soon, at_once
from kafkapy.coordinator.transaction.coordinator import TransactionCoordinator
from kafkapy.coordinator.transaction.marker_channel import MarkerChannel
from kafkapy.coordinator.transaction.marker_sender import MarkerPaths
from kafkapy.coordinator.transaction.marker_writer import MarkerWriter
from kafkapy.coordinator.transaction.records import decode_value
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import (
    NO_ID_AND_EPOCH,
    AddCall,
    EndCall,
    Ended,
    InitializeCall,
    Initialized,
    ProducerIdAndEpoch,
    Transaction,
    TransactionData,
)
from kafkapy.metadata.image import MetadataImage, PartitionInfo, TopicImage
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.records.batch import BatchHeader, iterate_headers
from kafkapy.records.control import read_control
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, Broker, MemoryLog, World

HERE, ELSEWHERE = 0, 1
SHARD = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
GROUPS = TopicPartition(GROUP_METADATA_TOPIC, 0)
OTHER = TopicPartition("t", 1)
CONFIG: dict[str, Any] = {
    "transaction.max.timeout.ms": 900_000,
    "transactional.id.expiration.ms": 604_800_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
    "transaction.state.log.load.buffer.size": 5_242_880,
    "transaction.state.log.num.partitions": 1,
    "request.timeout.ms": 30_000,
}


def image(leaders: Mapping[TopicPartition, int]) -> MetadataImage:
    """Metadata that shows these partitions with these leaders."""
    topics: dict[str, dict[int, PartitionInfo]] = {}
    for (topic, index), leader in leaders.items():
        topics.setdefault(topic, {})[index] = PartitionInfo(leader, 0, (leader,), (leader,))
    return MetadataImage("c", HERE, {}, {name: TopicImage(name, partitions) for name, partitions in topics.items()})


def markers(log: MemoryLog) -> list[tuple[int, int, int, int]]:
    """The type, producer id, producer epoch and coordinator epoch of every marker."""
    found = []
    for data in log.batches:
        header = next(iterate_headers(data))[1]
        if header.is_control:
            control = read_control(data, header)
            found.append((control.type, header.producer_id, header.producer_epoch, control.coordinator_epoch))
    return found


class TransactionWorld:
    """A broker that leads ``__transaction_state-0``, ``__consumer_offsets-0``, ``t-0`` and ``t-1``."""

    def __init__(self, *, broker: Broker | None = None, leads: bool = True, **config: Any) -> None:
        self.groups = World(broker=broker)
        self.broker, self.clock = self.groups.broker, self.groups.clock
        self.broker.image = image(dict.fromkeys([SHARD, GROUPS, TP, OTHER], HERE))  # type: ignore[assignment]  # a real one
        self.config = {**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}}
        self.ids = count(1000)
        self.peers: Any = SimpleNamespace()
        self.soon: Soon = at_once
        self.run: Run = finish
        self.start(leads=leads)

    def start(self, leader_epoch: int = 0, *, leads: bool = True) -> None:
        writer = MarkerWriter(self.broker, self.groups.coordinator, self.clock, 30_000)
        paths = MarkerPaths(HERE, writer, MarkerChannel(self.peers))
        self.coordinator = TransactionCoordinator(
            self.config, self.clock, self.broker, self.broker, paths, Background(self.run, self.call_soon)
        )
        self.coordinator.startup()
        self._listener = self.broker.leadership_listeners[-1]
        if leads:
            self.lead(SHARD, leader_epoch)

    def lead(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker becomes the leader of a partition."""
        if topic_partition.topic == SHARD.topic:
            self.broker.set_partition_count(SHARD.topic, self.config["transaction.state.log.num.partitions"])
        self._listener.on_leader(topic_partition, leader_epoch)

    def resign(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        """This broker is no longer the leader."""
        self._listener.on_follower_or_stopped(topic_partition, leader_epoch)

    def call_soon(self, step: Callable[[], None]) -> None:
        self.soon(step)

    def stop(self) -> None:
        self.coordinator.shutdown()
        self.broker.leadership_listeners.clear()
        self.broker.metadata_listeners.clear()

    def restart(self, leader_epoch: int = 1) -> None:
        self.stop()
        self.groups.restart()
        self.start(leader_epoch)

    @property
    def log(self) -> MemoryLog:
        return self.broker.log(SHARD)

    @property
    def shard(self) -> TransactionShard:
        shard = self.coordinator._runtime.shards[0]
        assert isinstance(shard, TransactionShard)
        return shard

    def transaction(self, transactional_id: str = "x") -> Transaction:
        return self.shard.transactions[transactional_id]

    def written(self) -> list[TransactionData | None]:
        """The transaction's state in each record of the log."""
        return [None if each.value is None else decode_value(each.value) for each in self.log.records()]

    def states(self) -> list[str]:
        return ["-" if each is None else each.state.name for each in self.written()]

    # requests

    def ask_initialize(
        self, transactional_id: str = "x", *, timeout_ms: int = 60_000, expected: ProducerIdAndEpoch = NO_ID_AND_EPOCH
    ) -> Answer[Initialized]:
        call = InitializeCall(transactional_id, timeout_ms, expected)
        answer = self.coordinator.initialize(call)
        if answer is None:
            answer = self.coordinator.initialize(call, next(self.ids))
        assert answer is not None
        return answer

    def initialize(self, transactional_id: str = "x", **fields: Any) -> Initialized:
        return self.ask_initialize(transactional_id, **fields).value

    def producer(self, transactional_id: str = "x", **fields: Any) -> ProducerIdAndEpoch:
        """A producer that was given its id and epoch."""
        result = self.initialize(transactional_id, **fields)
        assert result.error_code == 0
        return ProducerIdAndEpoch(result.producer_id, result.epoch)

    def ask_add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "x") -> Answer[int]:
        return self.coordinator.add_partitions(AddCall(name, producer, partitions or (TP,)))

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "x") -> int:
        return self.ask_add(producer, *partitions, name=name).value

    def ask_end(self, producer: ProducerIdAndEpoch, *, commit: bool = True, name: str = "x") -> Answer[Ended]:
        answer = self.coordinator.end(EndCall(name, producer, commit))
        assert answer is not None, "its epochs are not used up"
        return answer

    def end(self, producer: ProducerIdAndEpoch, *, commit: bool = True, name: str = "x") -> int:
        return self.ask_end(producer, commit=commit, name=name).value.error_code

    def commit_offset(self, producer: ProducerIdAndEpoch, offset: int, group_id: str = "g", **fields: Any) -> int:
        committed = CommittedOffset(offset, commit_timestamp_ms=self.clock.now_ms())
        member_id, generation_id = fields.get("member_id", ""), fields.get("generation_id", -1)
        call = CommitCall(group_id, member_id, generation_id, {TP: committed})
        of = Producer(producer.producer_id, producer.epoch, 0)
        return self.groups.coordinator.commit_offsets_in_transaction(call, of).value[TP]

    # data

    def write(self, producer: ProducerIdAndEpoch, value: bytes, tp: TopicPartition = TP) -> None:
        """Append a producer's batch to a partition; sequences are not checked."""
        self.broker.log(tp).append(
            encode_batch(
                [Record(None, value, 1)],
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=0,
                is_transactional=True,
            )
        )

    def committed(self, tp: TopicPartition = TP) -> list[bytes | None]:
        """The records that a read_committed consumer gets."""
        open_since: dict[int, list[bytes | None]] = {}
        seen: list[bytes | None] = []
        for data in self.broker.log(tp).batches:
            header: BatchHeader = next(iterate_headers(data))[1]
            if not header.is_control:
                values = [each.value for each in read_records(data)]
                open_since.setdefault(header.producer_id, []).extend(values)
                continue
            ended = open_since.pop(header.producer_id, [])
            seen += ended if read_control(data, header).type == 1 else []
        return seen
