"""Moves of replicas between data directories: copied records, the replacement of the current log, errors, limits."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkapy.config.log_config import LogConfig
from kafkapy.metadata.errors import (
    InvalidTopicError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import FileSlice
from kafkapy.records.batch import iterate_headers
from kafkapy.replication.copying import BATCHES_IN_A_STEP
from kafkapy.replication.log_dir_moves import COPIED_BYTES, LogDirMoves, MoveSettings
from kafkapy.replication.partition import Partition
from kafkapy.replication.quota import ReplicationQuota
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.storage.errors import LogDirNotFoundError
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.replication.logs import ME, TP, batch, leave_gap, state
from tests.storage.broken_disk import BrokenDisk
from tests.storage.slow_flusher import SlowFlusher

BACKOFF_MS = 1_000
LEADER = 2


class Node:
    """A broker's replicas in the directories a, b and c; ``lanes`` partitions are copied at a time."""

    def __init__(self, path: Path, config: LogConfig | None = None, *, lanes: int = 1) -> None:
        self.path = path
        self.config = config or LogConfig()
        self.clock = ManualClock()
        self.files = BrokenDisk()
        self.flusher = SlowFlusher()
        self.logs = LogManager(
            [str(path / name) for name in "abc"],
            self.config,
            self.clock,
            storage=Storage(self.clock, self.files, flusher=self.flusher),
        )
        load_logs(self.logs)
        self.known: set[tuple[str, int]] = set()
        self.quota = ReplicationQuota(self.clock)
        self.replicas = ReplicaManager(
            broker_id=ME, clock=self.clock, logs=self.logs, cluster=self, log_config_of=lambda _: self.config
        )
        self.moves = LogDirMoves(
            self.logs, self.clock, MoveSettings(lanes, BACKOFF_MS), self.quota, self.replicas.log_moved
        )
        self.replicas.move_by(lambda: self.moves)
        self.logs.set_directory_listener(lambda _, partitions: self.replicas.take_offline(partitions))

    def lacks(self, topic: str, partition: int) -> bool:
        return (topic, partition) not in self.known

    def is_alive(self, broker_id: int) -> bool:
        return True

    def at(self, name: str) -> str:
        return str(self.path / name)

    def home(self, topic_partition: TopicPartition = TP) -> str:
        return Path(self.logs.directory_of(topic_partition) or "none").name

    def lead(self, topic_partition: TopicPartition = TP, **fields: int) -> Partition:
        self.replicas.become_leader_or_follower(topic_partition, state(**fields))  # type: ignore[arg-type]  # numbers
        return self.replicas.partitions[topic_partition]

    def follow(self, epoch: int = 0) -> Partition:
        self.replicas.become_leader_or_follower(TP, state(LEADER, epoch, (ME, LEADER), (ME, LEADER)))
        return self.replicas.partitions[TP]

    def move(self, name: str, topic_partition: TopicPartition = TP) -> None:
        self.replicas.alter_log_dir(topic_partition, self.at(name))

    async def settle(self, topic_partition: TopicPartition = TP, *, to: str = "b") -> None:
        """Wait until the partition has moved, with all fsyncs done."""
        for _ in range(10_000):
            self.flusher.catch_up()
            if self.home(topic_partition) == to:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{topic_partition} is in {self.home(topic_partition)}")

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)


def run(
    path: Path, scenario: Callable[[Node], Awaitable[None]], config: LogConfig | None = None, lanes: int = 1
) -> None:
    async def limited() -> None:
        node = Node(path, config, lanes=lanes)
        try:
            await asyncio.wait_for(scenario(node), 20)
        finally:
            node.moves.close()

    asyncio.run(limited())


def content(log: Log) -> bytes:
    found = log.read(log.log_start_offset, 1 << 30).records
    return found.read() if isinstance(found, FileSlice) else found


def fill(partition: Partition, batches: int, **fields: int) -> None:
    for _ in range(batches):
        partition.append(batch(**fields))


def test_a_replica_moves_while_it_is_written(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 3 * BATCHES_IN_A_STEP)
        node.move("b")
        assert node.home() == "a"
        for _ in range(40):
            fill(partition, 2)
            await node.turns(1)
            node.flusher.catch_up()
        await node.settle()
        assert partition.log is node.logs.get(TP)
        end = 3 * BATCHES_IN_A_STEP + 80
        assert (partition.log.high_watermark, partition.log.log_end_offset) == (end, end)
        fill(partition, 1)
        assert content(partition.log) == b"".join(bytes(_at(offset)) for offset in range(end + 1))

    run(tmp_path, scenario)


def _at(offset: int) -> bytes:
    """The batch of ``fill`` at an offset, as a leader of epoch 0 writes it."""
    content = bytearray(batch())
    content[:8] = offset.to_bytes(8, "big")
    content[12:16] = bytes(4)
    return bytes(content)


def test_at_most_a_few_batches_are_copied_in_one_iteration_of_the_loop(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 10 * BATCHES_IN_A_STEP)
        node.move("b")
        before = 0
        for _ in range(20):
            await node.turns(1)
            future = node.logs.future(TP)
            assert future is not None
            assert future.log_end_offset - before <= BATCHES_IN_A_STEP
            before = future.log_end_offset
        assert before > 0

    run(tmp_path, scenario)


def test_high_watermark_and_log_start_follow(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead(replicas=(ME, LEADER), isr=(ME, LEADER))  # type: ignore[arg-type]  # as state() takes them
        fill(partition, 10)
        partition.follower_fetched(LEADER, 6, 0)
        partition.log.advance_log_start_offset(4)
        node.move("b")
        await node.settle()
        log = partition.log
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 6, 10)
        partition.follower_fetched(LEADER, 10, 0)
        assert partition.log.high_watermark == 10

    run(tmp_path, scenario)


def test_a_log_that_begins_within_a_batch_moves_with_the_whole_batch(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 2, count=5)
        partition.log.advance_log_start_offset(7)
        node.move("b")
        await node.settle()
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (7, 10)

    run(tmp_path, scenario)


def test_records_that_are_deleted_before_they_are_copied(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5 * BATCHES_IN_A_STEP)
        future = await held_up(node, 1)
        assert future.log_end_offset < 250
        partition.log.advance_log_start_offset(250)
        await let_go(node)
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (250, 5 * BATCHES_IN_A_STEP)

    run(tmp_path, scenario)


def test_offsets_without_records_at_the_end(tmp_path: Path) -> None:
    """Compaction may have removed every record below an active segment that is empty."""

    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 3)
        leave_gap(partition.log, 9)
        partition.log.update_high_watermark(9)
        node.move("b")
        await node.settle()
        assert (partition.log.high_watermark, partition.log.log_end_offset) == (9, 9)
        assert partition.log.has_batch_from(8), "a start will find the same end"

    run(tmp_path, scenario)


def test_a_batch_larger_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 2, count=COPIED_BYTES // 8)
        assert len(batch(COPIED_BYTES // 8)) > COPIED_BYTES
        node.move("b")
        await node.settle()

    run(tmp_path, scenario)


# what the disk has


def test_what_is_on_the_disk_is_on_the_disk_afterwards(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        partition.log.flush()
        node.move("b")
        await node.turns(50)
        assert node.home() == "a"
        node.flusher.catch_up()
        await node.turns(10)
        assert node.home() == "b"
        assert partition.log.recovery_point == 5

    run(tmp_path, scenario)


def test_owed_appends_are_acknowledged_after_the_move(tmp_path: Path) -> None:
    """With ``kafkapy.flush=ack`` no acknowledged record may be in the page cache alone, before and after the move."""

    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        for _ in range(2):  # the second fsync has what was appended during the first one
            node.flusher.catch_up()
        assert partition.is_acknowledged(5)
        node.move("b")
        await node.turns(50)
        assert node.home() == "a"
        fill(partition, 1)
        node.flusher.catch_up()
        await node.settle()
        fill(partition, 1)
        assert not partition.is_acknowledged(7)
        assert partition.log.durability.data_offset >= 6
        node.flusher.catch_up()
        assert partition.is_acknowledged(7)

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def test_a_move_that_waits_for_the_disk_ends_under_constant_writes(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        node.move("b")
        for _ in range(100):
            fill(partition, 1)
            await node.turns(3)
            node.flusher.catch_up()
            if node.home() == "b":
                return
        raise AssertionError("the move did not end")

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def test_a_refused_fsync_delays_the_end_of_a_move(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        partition.log.flush()
        node.move("b")
        await node.turns(50)
        node.files.broken, node.files.number = node.at("b"), errno.ENOSPC
        node.flusher.catch_up()
        await node.turns(10)
        node.files.broken = "nothing"
        node.flusher.catch_up()
        await node.turns(10)
        assert node.home() == "a"
        for _ in range(3):
            node.clock.advance(BACKOFF_MS)
            await node.turns(10)
            node.flusher.catch_up()
        await node.settle()

    run(tmp_path, scenario)


# truncation


def copied(offset: int, epoch: int = 0, count: int = 1) -> bytearray:
    """A batch as a leader sends it."""
    return batch(count, base_offset=offset, partition_leader_epoch=epoch)


async def held_up(node: Node, end_offset: int) -> Log:
    """Begin a move and stop it, by a limit of bytes, when the copy has the offset."""
    node.move("b")
    future = node.logs.future(TP)
    assert future is not None
    for _ in range(1000):
        if future.log_end_offset >= end_offset:
            break
        await node.turns(1)
    node.quota.limit = 0
    node.quota.record(1)
    await node.turns(20)
    return future


async def let_go(node: Node) -> None:
    node.quota.limit = 2**63 - 1
    node.clock.advance(BACKOFF_MS)
    await node.settle()


def test_the_copy_is_cut_when_the_current_log_is(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.follow(epoch=3)
        for offset in range(10):
            partition.append_as_follower(copied(offset, 3))
        partition.log.flush()  # so that the copy waits for the disk at the end
        future = await held_up(node, 10)
        partition.truncate_to(4)
        for offset in range(4, 12):
            partition.append_as_follower(copied(offset, 5, count=1))
        assert future.log_end_offset == 10
        await let_go(node)
        assert [entry[:2] for entry in partition.log.leader_epochs.entries] == [(3, 0), (5, 4)]
        assert headers(partition.log) == [(offset, 3 if offset < 4 else 5) for offset in range(12)]

    run(tmp_path, scenario)


def headers(log: Log) -> list[tuple[int, int]]:
    return [(each.base_offset, each.partition_leader_epoch) for _, each in iterate_headers(content(log))]


@pytest.mark.parametrize("cut", [3, 7])
def test_a_copy_without_epochs_is_cut_at_the_lowest_offset_of_the_current_log(tmp_path: Path, cut: int) -> None:
    """Logs of old formats have no leader epochs, so only the truncation itself says where they part."""

    async def scenario(node: Node) -> None:
        partition = node.follow()
        for offset in range(10):
            partition.append_as_follower(copied(offset, -1))
        partition.take_leader_offsets(10, 0)
        partition.log.flush()
        await held_up(node, 10)
        partition.truncate_to(cut)
        for offset in range(cut, 14, 2):
            partition.append_as_follower(copied(offset, -1, count=2))
        partition.truncate_to(cut + 8)
        before = content(partition.log)
        await let_go(node)
        assert content(partition.log) == before

    run(tmp_path, scenario)


def test_a_current_log_that_begins_again(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.follow()
        for offset in range(10):
            partition.append_as_follower(copied(offset))
        partition.log.flush()
        await held_up(node, 10)
        partition.restart_at(100)
        partition.append_as_follower(copied(100, 1))
        await let_go(node)
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (100, 101)

    run(tmp_path, scenario)


def test_a_new_leader_epoch_truncates_again_and_the_move_goes_on(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        partition.log.flush()
        await held_up(node, 5)
        node.lead(epoch=1)
        fill(partition, 1)
        await let_go(node)
        assert headers(partition.log) == [*((offset, 0) for offset in range(5)), (5, 1)]

    run(tmp_path, scenario)


def test_copies_of_an_earlier_run_are_cut_and_go_on_with_leader_and_isr(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        partition.log.flush()
        await held_up(node, 5)
        node.moves.close()
        node.logs.shutdown()
        again = Node(node.path)
        log = again.logs.get(TP)
        assert log is not None
        log.truncate_to(3)
        partition = again.lead(epoch=1)
        fill(partition, 1)
        await again.settle()
        assert headers(partition.log) == [(0, 0), (1, 0), (2, 0), (3, 1)]
        again.moves.close()

    run(tmp_path, scenario)


# ends of moves


def test_the_present_directory_ends_a_move(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        node.move("b")
        await node.turns(1)
        node.move("a")
        await node.turns(50)
        assert node.logs.future(TP) is None
        assert (node.home(), partition.cut_listener) == ("a", None)
        node.move("a")
        assert node.logs.future(TP) is None

    run(tmp_path, scenario)


def test_another_directory_ends_a_move_and_begins_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        fill(node.lead(), 5)
        node.move("b")
        node.move("b")
        await node.turns(1)
        node.move("c")
        await node.settle(to="c")

    run(tmp_path, scenario)


@pytest.mark.parametrize("delete", [True, False])
def test_a_stopped_replica_is_not_moved(tmp_path: Path, *, delete: bool) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        node.move("b")
        node.replicas.stop_replica(TP, 0, delete=delete)
        await node.turns(50)
        assert (node.logs.future(TP) is None) == delete
        assert partition.cut_listener is None
        if not delete:
            node.lead(epoch=1)
            await node.settle()

    run(tmp_path, scenario)


def test_a_move_to_a_directory_that_fails_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        node.files.broken = node.at("b")
        with pytest.raises(KafkaStorageError):
            node.move("b")
        node.files.broken = "nothing"
        node.clock.advance(0)
        with pytest.raises(KafkaStorageError):
            node.move("c")

    run(tmp_path, scenario)

    async def in_the_middle(node: Node) -> None:
        partition = node.lead()
        fill(partition, 5)
        node.move("b")
        node.files.broken = node.at("b")
        await node.turns(50)
        node.clock.advance(0)
        await node.turns(50)
        node.clock.advance(BACKOFF_MS)
        await node.turns(50)
        assert node.logs.future(TP) is None
        assert "has ended: the copy is gone" in caplog.text
        fill(partition, 1)

    run(tmp_path / "other", in_the_middle)


def test_a_full_disk_delays_a_move(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node) -> None:
        fill(node.lead(), 5)
        node.move("b")
        node.files.broken, node.files.number = node.at("b"), errno.ENOSPC
        for _ in range(3):
            await node.turns(20)
            node.clock.advance(BACKOFF_MS)
        assert caplog.text.count("t-0: the move is tried again") == 1
        node.files.broken = "nothing"
        await node.settle()

    run(tmp_path, scenario)


def damage(partition: Partition) -> None:
    """Change the last byte of the log."""
    path = Path(partition.log.segments.active.log.path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def test_a_damaged_batch_is_not_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 2)
        damage(partition)
        node.move("b")
        await node.turns(50)
        assert "is corrupt" in caplog.text
        assert node.home() == "a"

    run(tmp_path, scenario)


def test_an_unexpected_error_is_logged_and_the_move_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        fill(node.lead(), 2)
        with monkeypatch.context() as patched:
            patched.setattr(Log, "read", lambda *_: 1 / 0)
            node.move("b")
            await node.turns(20)
        assert "ZeroDivisionError" in caplog.text
        node.clock.advance(BACKOFF_MS)
        await node.settle()

    run(tmp_path, scenario)


# requests


def test_replicas_that_are_not_here(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        with pytest.raises(UnknownTopicOrPartitionError):
            node.move("c")
        node.known.add(TP)
        with pytest.raises(ReplicaNotAvailableError):
            node.move("c")
        node.lead()
        assert node.home() == "c"

    run(tmp_path, scenario)


def test_refused_requests(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.lead()
        long = TopicPartition("t" * 214, 0)
        with pytest.raises(InvalidTopicError):
            node.move("b", long)
        with pytest.raises(UnknownTopicOrPartitionError):
            node.move("b", TopicPartition("t" * 213, 0))
        with pytest.raises(LogDirNotFoundError):
            node.move("d")
        node.replicas.take_offline([TP])
        with pytest.raises(KafkaStorageError):
            node.move("b")

    run(tmp_path, scenario)


def test_without_a_mover_the_copy_waits(tmp_path: Path) -> None:
    """A replica manager of a test, or of a tool, has none."""
    logs = LogManager([str(tmp_path / name) for name in "ab"], LogConfig(), ManualClock())
    load_logs(logs)
    replicas = ReplicaManager(
        broker_id=ME, clock=ManualClock(), logs=logs, cluster=Node(tmp_path / "c"), log_config_of=lambda _: LogConfig()
    )
    replicas.become_leader_or_follower(TP, state())
    replicas.alter_log_dir(TP, str(tmp_path / "b"))
    replicas.alter_log_dir(TP, str(tmp_path / "a"))
    replicas.alter_log_dir(TP, str(tmp_path / "b"))
    assert logs.future(TP) is not None


# lanes and limits


def test_a_lane_copies_one_partition_after_the_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node) -> None:
        names = [TopicPartition("t", number) for number in range(9)]
        for name in names:
            fill(node.lead(name), 3)
        for name in reversed(names):
            node.move("b" if node.home(name) != "b" else "c", name)
        for name in names:
            await node.settle(name, to="c" if int(str(name)[2:]) % 3 == 1 else "b")
        begun = [record.message.split()[1] for record in caplog.records if record.message.startswith("Copying")]
        assert begun == [str(name) for name in names]

    caplog.set_level(logging.INFO)
    run(tmp_path, scenario)


def test_several_lanes_share_the_partitions(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        names = [TopicPartition("t", number) for number in range(2)]
        for name in names:
            fill(node.lead(name), 5 * BATCHES_IN_A_STEP)
            node.move("c", name)
        await node.turns(6)
        ends = [future.log_end_offset for future in node.logs.future_logs()]
        assert len(ends) == 2
        assert all(0 < end < 5 * BATCHES_IN_A_STEP for end in ends)

    run(tmp_path, scenario, lanes=2)


def test_the_limit_of_bytes_holds_moves_back(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.lead()
        fill(partition, 20 * BATCHES_IN_A_STEP)
        size = partition.log.size_bytes
        node.quota.limit = size // 10
        node.move("b")
        took_ms = 0
        while node.home() == "a":
            await node.turns(30)
            node.flusher.catch_up()
            node.clock.advance(BACKOFF_MS)
            took_ms += BACKOFF_MS
            assert took_ms < 60_000
        assert took_ms >= 5_000

    run(tmp_path, scenario)


def test_moves_that_are_changed_often_leave_nothing_behind(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        fill(node.lead(), 1)
        for _ in range(100):
            node.move("b")
            node.move("c")
        await node.settle(to="c")

    run(tmp_path, scenario)


def test_nothing_is_moved_after_the_end(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        fill(node.lead(), 1)
        node.moves.close()
        node.move("b")
        await node.turns(20)
        assert node.home() == "a"

    run(tmp_path, scenario)
