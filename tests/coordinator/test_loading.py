"""Partitions of the internal topics in damaged files: the decodable records are loaded."""

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.coordinator.group.calls import COMMITTER
from kafkapy.coordinator.group.classic.group import as_classic
from kafkapy.coordinator.group.coordinator import GroupCoordinator
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.records import offset_record, plain_commits
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.loading import LARGEST_STEP, RECORDS_IN_A_STEP, SKIPPED_LINES, LoadProgress, read_partition
from kafkapy.coordinator.runtime import FIRST_RETRY_MS, Background, Shard
from kafkapy.coordinator.transaction.records import transaction_record
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import TransactionData
from kafkapy.metadata.image import MetadataCache
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.metrics import Counters
from kafkapy.platform.descriptors import FileSlice
from kafkapy.records.batch import iterate_headers, read_header, write_batch
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.log.log import Log
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import CONFIG, TP, Broker, World, bare_shard
from tests.replication.logs import Node, state
from tests.storage.support import open_log

PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)


def commit(group_id: str, offset: int, metadata: str = "") -> Record:
    return offset_record(group_id, TP, CommittedOffset(offset, metadata=metadata), 7)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = open_log(tmp_path)
    yield log
    log.release()


def append(log: Log, *records: Record, **fields: Any) -> None:
    log.append_as_leader(bytearray(encode_batch(records, **fields)), 0, from_client=False)
    log.update_high_watermark(log.log_end_offset)


def load(log: Log, shard: Shard, counters: Counters | None = None) -> Steps[bool]:
    """Load ``shard`` from ``log``; returns whether it was loaded to the end."""
    broker: Any = SimpleNamespace(partition=lambda _: SimpleNamespace(log=log))
    return read_partition(broker, LoadProgress(PARTITION, counters or Counters()), 5_242_880, shard.replay_batches)


def group_shard() -> GroupShard:
    return bare_shard(PARTITION.partition)


def offsets(log: Log, counters: Counters | None = None) -> dict[str, int]:
    """The committed offset of each group, as loaded from ``log``."""
    shard = group_shard()
    assert finish(load(log, shard, counters))
    return {group_id: group.offsets.fetch(TP).offset for group_id, group in shard.groups.items()}


def positions(log: Log) -> list[int]:
    return [at for at, _ in iterate_headers(Path(log.segments.first.log.path).read_bytes())]


def damage(log: Log, position: int, content: bytes) -> None:
    with Path(log.segments.first.log.path).open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.mark.parametrize(
    ("key", "value", "is_skipped"),
    [
        (b"", b"x", True),
        (b"\0", b"x", True),
        (b"\0\1\0\x09ab", b"x", True),
        (b"\0\2\0\x09ab", b"x", True),
        (commit("g", 1).key, b"", True),
        (commit("g", 1).key, b"\0\x63", True),
        (commit("g", 1).key, b"\0\3\0\0", True),
        (b"\0\2\0\1g", b"", True),
        (b"\0\2\0\1g", b"\0\x63", True),
        (b"\0\2\0\1g", b"\0\3\0\1c\0\0\0\1", True),
        (b"\0\x63later", b"x", False),
        (b"\xff\xff", None, False),
    ],
)
def test_a_record_that_no_broker_writes_is_skipped(
    log: Log, key: bytes, value: bytes | None, is_skipped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, commit("g", 5), Record(key, value, 7), commit("h", 6))
    append(log, commit("i", 7))
    counters = Counters()
    assert offsets(log, counters) == {"g": 5, "h": 6, "i": 7}
    assert counters.skipped_records == is_skipped
    assert ("Skipped 1 undecodable records at offset 1 of __consumer_offsets-0" in caplog.text) == is_skipped


def test_a_group_record_with_a_repeated_member_id_is_skipped(log: Log) -> None:
    world = World()
    world.stable(2)
    (record,) = [each for each in world.log.records() if each.value is not None]
    first, second = (member_id.encode() for member_id in world.group().members)
    assert record.value is not None
    append(log, record._replace(value=record.value.replace(second, first)), commit("h", 6))
    counters = Counters()
    assert offsets(log, counters) == {"h": 6}
    assert counters.skipped_records == 1


def test_log_lines_of_skipped_records_are_few_and_escaped(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(SKIPPED_LINES + 3):
        append(log, Record(b"", b"", 7))
    append(log, *[Record(b"\0\x63", b"", 7)] * 4)
    counters = Counters()
    with caplog.at_level(logging.INFO):
        assert offsets(log, counters) == {}
    assert counters.skipped_records == SKIPPED_LINES + 3
    assert len([each for each in caplog.messages if "at offset" in each]) == SKIPPED_LINES
    assert "Skipped undecodable records at 3 more places of __consumer_offsets-0" in caplog.messages
    assert any(each.startswith("Skipped 4 records of __consumer_offsets-0 whose key") for each in caplog.messages)
    assert all(each.isprintable() for each in caplog.messages)


@pytest.mark.parametrize("at", [0, 8, 11, 16, 17, 21, 22, 57, 60, 61, 70, -1])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_flipped_byte_loses_one_commit(log: Log, at: int, place: int) -> None:
    for number in range(4):
        append(log, commit(f"g{number}", number))
    start, end = [*positions(log), log.segments.first.size][place : place + 2]
    at = start + at if at >= 0 else end + at
    content = Path(log.segments.first.log.path).read_bytes()
    damage(log, at, bytes([content[at] ^ 0x41]))
    counters = Counters()
    assert offsets(log, counters) == {f"g{number}": number for number in range(4) if number != place}
    assert counters.skipped_records == 1


@pytest.mark.parametrize("at", [0, 8, 17, 80, -5])
def test_the_last_undamaged_commit_of_a_partition_counts(log: Log, at: int) -> None:
    """Commits that are equal up to their values are decoded by their values; the damage must be found nevertheless."""
    for number in range(20):
        append(log, commit("g", number), base_sequence=0)
    start = positions(log)[-1]
    at = start + at if at >= 0 else log.segments.first.size + at
    damage(log, at, b"\x77")
    assert offsets(log) == {"g": 18}


def test_batches_after_zeros_are_loaded(log: Log) -> None:
    for number in range(9):
        append(log, commit(f"g{number}", number))
    starts = positions(log)
    damage(log, starts[2] + 30, bytes(starts[5] - starts[2]))
    counters = Counters()
    assert offsets(log, counters) == {f"g{number}": number for number in (0, 1, 6, 7, 8)}
    assert counters.skipped_records == 4


def test_a_batch_without_decodable_records_is_skipped(log: Log) -> None:
    """The CRC of the batch is right: it was written with these bytes."""
    header = read_header(encode_batch([commit("g", 1)] * 3))
    whole = write_batch(header, b"\x02\x07")
    log.append_as_follower(write_batch(header._replace(attributes=1), b"no gzip"))
    log.append_as_follower(write_batch(header._replace(base_offset=3), whole))
    log.append_as_follower(encode_batch([commit("h", 6)], base_offset=6))
    counters = Counters()
    assert offsets(log, counters) == {"h": 6}
    assert counters.skipped_records == 6


def test_the_records_before_the_broken_one_of_a_batch_count(log: Log) -> None:
    batch = encode_batch([commit("g", 1), commit("h", 2)])
    header = read_header(batch)
    log.append_as_follower(write_batch(header, batch[61:-1]))
    counters = Counters()
    assert offsets(log, counters) == {"g": 1}
    assert counters.skipped_records == 1


def test_a_marker_without_content_is_skipped(log: Log) -> None:
    log.append_as_follower(encode_batch([Record(b"\0", b"", 1)], is_control=True))
    log.append_as_follower(encode_batch([commit("h", 6)], base_offset=1))
    counters = Counters()
    assert offsets(log, counters) == {"h": 6}
    assert counters.skipped_records == 1


@pytest.mark.parametrize("place", [0, 2])
def test_transactional_ids_around_damage(log: Log, place: int) -> None:
    for number in range(4):
        append(log, transaction_record(f"x{number}", TransactionData(number, 0, 10), 7))
    damage(log, positions(log)[place] + 90, b"\x77")
    shard = TransactionShard(PARTITION, 0)
    assert finish(load(log, shard))
    assert list(shard.transactions) == [f"x{number}" for number in range(4) if number != place]


def test_long_batches_and_many_batches_are_replayed_in_steps(log: Log) -> None:
    append(log, *[commit("g", number, metadata=str(number)) for number in range(3 * RECORDS_IN_A_STEP)])
    assert sum(1 for _ in load(log, group_shard())) >= 3
    for number in range(200):
        append(log, commit(f"g{number}", 1), transaction_record(f"x{number}", TransactionData(number, 0, 10), 7))
    for shard in (group_shard(), TransactionShard(PARTITION, 0)):
        assert sum(1 for _ in load(log, shard)) >= 6


def test_finishing_takes_steps(log: Log) -> None:
    shard = group_shard()
    for number in range(200):
        as_classic(shard.get_or_create(f"g{number}")).generation_id = 1
    steps = shard.finish_loading()
    next(steps)
    assert (shard.is_loading, shard.is_read) == (True, True)
    assert sum(1 for _ in steps) == 2
    assert not shard.is_loading


@pytest.mark.parametrize(("buffer_size", "expected"), [(5_242_880, LARGEST_STEP), (100, 100)])
def test_a_partition_is_read_in_short_steps(buffer_size: int, expected: int) -> None:
    broker = Broker()
    broker.log(PARTITION).append(encode_batch([commit("g", 1)]))

    def replay_batches(*_: Any) -> Steps[int | None]:
        yield
        return None

    assert finish(read_partition(broker, LoadProgress(PARTITION, Counters()), buffer_size, replay_batches))
    assert broker.log(PARTITION).largest_read == expected


@pytest.mark.parametrize(("number", "is_lost"), [(errno.EIO, True), (errno.EMFILE, False)])
def test_a_read_that_the_system_refuses_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_lost: bool
) -> None:
    """The load goes on, or is tried again; a broken disk takes its directory offline."""
    node, partition = Node(tmp_path), TopicPartition("__consumer_offsets", 0)
    node.replicas.become_leader_or_follower(partition, state())
    commits = plain_commits("g", {TP: CommittedOffset(5)}, 1, COMMITTER)
    assert commits is not None
    node.replicas.append(partition, commits, from_client=False)
    node.replicas.stop_replica(partition, 0, delete=False)
    lost: list[str] = []
    node.logs.set_directory_listener(lambda path, _: lost.append(path))
    metadata = MetadataCache()
    metadata.set_partition_count(partition.topic, CONFIG["offsets.topic.num.partitions"])
    coordinator = GroupCoordinator(
        CONFIG, node.clock, node.replicas, metadata, Background(finish), overrides_of=lambda _: {}
    )
    coordinator.startup()
    good = FileSlice.read
    reads: list[FileSlice] = []

    def read(file_slice: FileSlice) -> bytes:
        reads.append(file_slice)
        if len(reads) == 1:
            raise OSError(number, os.strerror(number))
        return good(file_slice)

    monkeypatch.setattr(FileSlice, "read", read)
    node.replicas.become_leader_or_follower(partition, state(epoch=1))
    node.clock.advance(FIRST_RETRY_MS)
    _, fetched = coordinator.fetch_few_offsets("g", [TP])
    assert fetched[TP].offset == 5
    assert bool(lost) == is_lost
