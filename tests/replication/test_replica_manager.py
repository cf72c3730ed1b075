"""The partitions of a broker, and waiting for their replicas."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from kafkapy.config.log_config import LogConfig
from kafkapy.metadata.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    StaleControllerEpochError,
    UnknownTopicOrPartitionError,
)
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.errors import CorruptRecordError
from kafkapy.replication.replica_manager import PendingAck
from kafkapy.storage.log.log import AppendResult
from kafkapy.types import TopicPartition
from tests.replication.logs import ME, TP, Node, batch, state
from tests.storage.slow_flusher import SlowFlusher


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int | None]] = []

    def on_leader(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        self.heard.append(("leader", leader_epoch))

    def on_follower_or_stopped(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        self.heard.append(("not", leader_epoch))


def test_leadership_is_told(tmp_path: Path) -> None:
    node, listener = Node(tmp_path), Listener()
    node.replicas.add_leadership_listener(listener)
    node.partition()
    node.partition(leader=2, epoch=1, replicas=(ME, 2))
    node.partition(leader=-1, epoch=2)
    node.replicas.stop_replica(TP, 2, delete=True)
    node.replicas.stop_replica(TP, -2, delete=True)
    assert listener.heard == [("leader", 0), ("not", 1), ("not", 2), ("not", None)]
    assert node.logs.get(TP) is None


def test_older_epochs_and_foreign_partitions_are_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.partition(epoch=3)
    for epoch in (2, 3):
        with pytest.raises(StaleControllerEpochError):
            node.partition(epoch=epoch)
    with pytest.raises(UnknownTopicOrPartitionError):
        node.replicas.become_leader_or_follower(TopicPartition("t", 1), state(replicas=(5,)))
    assert node.logs.get(TopicPartition("t", 1)) is None
    with pytest.raises(FencedLeaderEpochError):
        node.replicas.stop_replica(TP, 2, delete=False)


def test_lookups(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.partition() is node.replicas.partition(TP)
    node.known.add(("elsewhere", 0))
    with pytest.raises(NotLeaderOrFollowerError):
        node.replicas.partition(TopicPartition("elsewhere", 0))
    with pytest.raises(UnknownTopicOrPartitionError):
        node.replicas.append(TopicPartition("nowhere", 0), batch())


def test_waiting_for_acknowledgements(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        replicas, partition = node.replicas, node.partition(isr=(ME, 2), replicas=(ME, 2))
        first = PendingAck(TP, replicas.append(TP, batch(2)).last_offset + 1)
        assert not replicas.is_acknowledged(first)
        future = replicas.wait_for_acks([first], 1000)
        partition.follower_fetched(2, 1, 0)
        replicas.purgatory.check(TP)
        assert not future.done()
        partition.follower_fetched(2, 2, 0)
        replicas.purgatory.check(TP)
        assert future.result() == [None]
        assert replicas.is_acknowledged(first)

        late = replicas.wait_for_acks([first, PendingAck(TP, 9), PendingAck(TopicPartition("gone", 0), 1)], 1000)
        node.clock.advance(1000)
        errors = late.result()
        assert [type(error) for error in errors] == [type(None), RequestTimedOutError, UnknownTopicOrPartitionError]

        deposed = replicas.wait_for_acks([PendingAck(TP, 9)], 1000)
        node.partition(leader=2, epoch=1, replicas=(ME, 2))
        (error,) = deposed.result()
        assert isinstance(error, NotLeaderOrFollowerError)

    asyncio.run(scenario())


def test_a_brokers_own_batches(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        replicas, partition = node.replicas, node.partition(isr=(ME, 2), replicas=(ME, 2))
        waiting, cancelled, late = (replicas.append_internal(TP, bytes(batch(count)), 1000) for count in (1, 1, 2))
        assert isinstance(waiting, asyncio.Future)
        assert isinstance(cancelled, asyncio.Future)
        assert isinstance(late, asyncio.Future)
        cancelled.cancel()
        at_once = replicas.append_internal(TP, bytes(batch()), 1000, 1)
        assert isinstance(at_once, asyncio.Future), "others are not answered yet"
        assert (await at_once).first_offset == 4
        partition.follower_fetched(2, 2, 0)
        replicas.purgatory.check(TP)
        assert (await waiting).first_offset == 0
        node.clock.advance(1000)
        with pytest.raises(RequestTimedOutError):
            await late
        node.partition(epoch=1)
        alone = replicas.append_internal(TP, bytes(batch()), 1000)
        assert isinstance(alone, AppendResult)
        assert alone.first_offset == 5
        broken = batch()
        broken[17] ^= 1
        with pytest.raises(CorruptRecordError):
            replicas.append_internal(TP, bytes(broken), 1000)

    asyncio.run(scenario())


def test_a_brokers_own_batches_are_answered_in_their_order(tmp_path: Path) -> None:
    """A transaction's marker must not be replayed before a commit that is in front of it in the log."""

    async def scenario() -> None:
        node = Node(tmp_path)
        replicas, partition = node.replicas, node.partition(isr=(ME, 2), replicas=(ME, 2))
        order: list[int] = []
        commit = replicas.append_internal(TP, bytes(batch()), 1000)
        assert isinstance(commit, asyncio.Future)
        commit.add_done_callback(lambda _: order.append(1))
        partition.follower_fetched(2, 1, 0)
        replicas.purgatory.check(TP)
        node.partition(epoch=1)  # alone: the next append is acknowledged at once
        marker = replicas.append_internal(TP, bytes(batch()), 1000)
        assert isinstance(marker, asyncio.Future)
        marker.add_done_callback(lambda _: order.append(2))
        assert (await marker).first_offset == 1
        assert order == [1, 2]
        assert isinstance(replicas.append_internal(TP, bytes(batch()), 1000), AppendResult)

    asyncio.run(scenario())


def test_a_failed_directory_takes_its_partitions_offline(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, listener = Node(tmp_path), Listener()
        node.replicas.add_leadership_listener(listener)
        node.partition(replicas=(ME, 2), isr=(ME, 2))
        result = node.replicas.append(TP, batch(), required_acks=-1)
        waiting = node.replicas.wait_for_acks([PendingAck(TP, result.last_offset + 1)], 1000)
        node.replicas.take_offline([TP, TopicPartition("t", 1)])
        (answer,) = await waiting
        assert isinstance(answer, KafkaStorageError)
        assert listener.heard == [("leader", 0), ("not", None)]
        for refused in (
            lambda: node.replicas.partition(TP),
            lambda: node.partition(epoch=5),
            lambda: node.replicas.stop_replica(TP, -2, delete=True),
        ):
            with pytest.raises(KafkaStorageError, match="t-0 is in a data directory that is offline"):
                refused()

    asyncio.run(scenario())


@pytest.mark.parametrize(("number", "for_good"), [(errno.EIO, True), (errno.ENOSPC, False)])
def test_a_log_that_can_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, for_good: bool
) -> None:
    node = Node(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(node.logs.storage.files, "make_directory", refuse)
        with pytest.raises(KafkaStorageError):
            node.partition()
    assert node.replicas.offline == ({TP} if for_good else set())
    if not for_good:
        assert node.partition().is_leader


def test_appends_that_are_acknowledged_already_are_not_waited_for(tmp_path: Path) -> None:
    """The disk may have taken the first partitions of a request while others had their turn between its appends."""

    async def scenario() -> None:
        node = Node(tmp_path, LogConfig(kafkapy_flush="ack"))
        flusher = SlowFlusher()
        node.logs.storage.flusher = flusher
        node.partition()
        awaited = PendingAck(TP, node.replicas.append(TP, batch(2)).last_offset + 1)
        assert not node.replicas.is_acknowledged(awaited)
        flusher.catch_up()
        assert node.replicas.wait_for_acks([awaited], 1000).result() == [None]
        assert len(node.replicas.purgatory) == 0

    asyncio.run(scenario())


def test_the_text_of_a_timeout_is_true_for_an_fsync_with_acks_1(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, LogConfig(kafkapy_flush="ack"))
        node.logs.storage.flusher = SlowFlusher()
        node.partition()
        pending = PendingAck(TP, node.replicas.append(TP, batch(2), required_acks=1).last_offset + 1, 1)
        future = node.replicas.wait_for_acks([pending], 1000)
        node.clock.advance(1000)
        (error,) = future.result()
        assert isinstance(error, RequestTimedOutError)
        assert str(error) == "the records were not replicated, or not fsynced, in time"

    asyncio.run(scenario())


def test_flush_ack_delays_acknowledgements_and_the_high_watermark_of_a_new_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, LogConfig(kafkapy_flush="ack"))
        flusher = SlowFlusher()
        node.logs.storage.flusher = flusher
        replicas, partition = node.replicas, node.partition()
        awaited = PendingAck(TP, replicas.append(TP, batch(2), required_acks=1).last_offset + 1, 1)
        assert (partition.log.high_watermark, replicas.is_acknowledged(awaited)) == (0, False)
        future = replicas.wait_for_acks([awaited], 1000)
        flusher.catch_up()
        assert (await future, partition.log.high_watermark, replicas.is_acknowledged(awaited)) == ([None], 2, True)
        replicas.append(TP, batch(1), required_acks=1)
        node.partition(leader=2, epoch=1, replicas=(ME, 2))
        flusher.catch_up()
        assert partition.log.high_watermark == 2
        node.partition(epoch=2)
        assert partition.log.high_watermark == 3

    asyncio.run(scenario())
