"""The bytes of a running Kafka 2.7.2 (``kafka_2_7_2_records.txt``), read and written again."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordinator.group import records
from kafkapy.coordinator.group.calls import COMMITTER, Producer
from kafkapy.coordinator.group.classic.records import decode_group, group_record, group_tombstone
from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.coordinator.group.records import (
    GroupKey,
    OffsetKey,
    decode_key,
    decode_offset,
    offset_key,
    offset_record,
    plain_commits,
)
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataValue, MemberMetadata
from kafkapy.protocol.messages.stored.offset_commit import OffsetCommitValue
from kafkapy.protocol.primitives import ProtocolError, Writer
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, bare_group, bare_shard

PATTERN = re.compile(r"offset=(\d+) attrs=(0x\w+) .*\n  key=(\w+)\n  val=(\w+)")


def real_records() -> list[Record]:
    text = Path(__file__).with_name("kafka_2_7_2_records.txt").read_text()
    return [
        Record(bytes.fromhex(key), None if value == "None" else bytes.fromhex(value), 0, (), int(offset))
        for offset, attributes, key, value in PATTERN.findall(text)
        if attributes != "0x30"  # a transaction's marker
    ]


@pytest.mark.parametrize("record", real_records(), ids=lambda record: f"{record.key[-14:]!r}@{record.offset}")
def test_real_records_are_written_as_they_were_read(record: Record) -> None:
    assert record.key is not None
    key = decode_key(record.key)
    if isinstance(key, OffsetKey):
        committed = None if record.value is None else decode_offset(record.value)
        written = offset_record(*key, committed, 0)
    else:
        assert isinstance(key, GroupKey)
        assert record.value is not None
        shard = bare_shard(0)
        shard.replay_record(record)
        group = shard.groups[key.group_id]
        written = group_record(group, {each.member_id: each.assignment for each in group.members.values()}, 0)
    assert (written.key, written.value) == (record.key, record.value)


def test_there_are_records_of_every_kind() -> None:
    assert len(real_records()) == 11
    assert sum(record.value is None for record in real_records()) == 1


def test_a_commit_with_a_retention_time_is_written_in_version_1() -> None:
    committed = CommittedOffset(5, -1, "m", 1_000, 2_000)
    record = offset_record("g", TopicPartition("t", 1), committed, 7)
    assert record.value is not None
    assert record.value == bytes.fromhex("0001 0000000000000005 0001 6d 00000000000003e8 00000000000007d0")
    assert (decode_offset(record.value), record.timestamp) == (committed, 7)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_version_are_read(version: int) -> None:
    writer = Writer()
    OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9).write(writer, version)
    value = version.to_bytes(2, "big") + writer.getvalue()
    assert decode_offset(value) == CommittedOffset(5, -1, "m", 9, -1)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_groups_of_every_version_are_read(version: int) -> None:
    writer = Writer()
    member = MemberMetadata(member_id="m", client_id="c", client_host="/h", rebalance_timeout=7, session_timeout=5)
    GroupMetadataValue("consumer", 3, "range", "m", -1, [member]).write(writer, version)
    stored = decode_group(version.to_bytes(2, "big") + writer.getvalue())
    assert (stored.generation, stored.members[0].rebalance_timeout) == (3, 7 if version else 5)


@pytest.mark.parametrize("key", [b"\x00\x04", b"\x00\x0f\x00\x00", b"\xff\xff"])
def test_keys_of_later_releases_are_not_decoded(key: bytes) -> None:
    assert decode_key(key) is None


def test_the_oldest_key_is_read_like_its_successor() -> None:
    record = offset_record("g", TopicPartition("t", 1), None, 0)
    assert record.key is not None
    assert decode_key(b"\x00\x00" + record.key[2:]) == decode_key(record.key) == ("g", ("t", 1))


@pytest.mark.parametrize("cut", range(4))
def test_a_cut_off_key_is_a_protocol_error(cut: int) -> None:
    key = group_tombstone("g", 0).key
    assert key is not None
    with pytest.raises(ProtocolError):
        decode_key(key[:cut])


def test_values_of_unknown_versions_are_protocol_errors() -> None:
    for decode in (decode_offset, decode_group):
        with pytest.raises(ProtocolError):
            decode(b"\x00\x63" + bytes(60))


def test_the_record_of_a_group_that_never_had_members() -> None:
    value = group_record(bare_group(), {}, 0).value
    assert value == bytes.fromhex("0003 0000 00000000 ffff ffff ffffffffffffffff 00000000")


@pytest.mark.parametrize("value", [b"\x00\x04" + bytes(11), b"\x00\x03" + bytes(12) + b"\x00\x05m" + bytes(8)])
def test_a_cut_off_offset_is_a_protocol_error(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_offset(value)


longs = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
plain = st.builds(CommittedOffset, longs, st.integers(-1, 2**31 - 1), st.just(""), longs, st.just(NO_EXPIRY))
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
producers = st.just(COMMITTER) | st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.just(0))


@given(names, st.dictionaries(partitions, plain, min_size=1, max_size=70), st.integers(0, 2**62), producers)
def test_the_fast_path_writes_the_same_bytes(
    group_id: str, offsets: dict[TopicPartition, CommittedOffset], timestamp_ms: int, producer: Producer
) -> None:
    batch = plain_commits(group_id, offsets, timestamp_ms, producer)
    assert batch is not None
    records = [offset_record(group_id, partition, each, timestamp_ms) for partition, each in offsets.items()]
    assert bytes(batch.buffer) == encode_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        is_transactional=producer is not COMMITTER,
    )
    assert batch.header == read_header(batch.buffer)
    assert (batch.max_timestamp, batch.max_timestamp_offset) == (timestamp_ms, 0)


@given(names, st.dictionaries(partitions, plain, min_size=1, max_size=5))
def test_the_fast_path_is_decoded_to_its_commits(group_id: str, offsets: dict[TopicPartition, CommittedOffset]) -> None:
    """Therefore ``replay_commits`` may take the commits from memory."""
    batch = plain_commits(group_id, offsets, 0, COMMITTER)
    assert batch is not None
    read = {decode_key(record.key or b""): decode_offset(record.value or b"") for record in read_records(batch.buffer)}
    assert read == {OffsetKey(group_id, partition): each for partition, each in offsets.items()}


def test_commits_with_metadata_or_retention_do_not_take_the_fast_path() -> None:
    for odd in (CommittedOffset(1, metadata="m"), CommittedOffset(1, expire_timestamp_ms=5)):
        assert plain_commits("g", {TP: CommittedOffset(1), TopicPartition("u", 0): odd}, 0, COMMITTER) is None


def test_long_group_ids_are_not_kept() -> None:
    """A group id may have 32 kB, and three caches have thousands of entries each."""
    group_id = "g" * 2_000
    caches = (records._known_key, records._known_offset_key, records._head)
    sizes = [cache.cache_info().currsize for cache in caches]
    assert decode_key(offset_key(group_id, TP)) == OffsetKey(group_id, TP)
    batch = plain_commits(group_id, {TP: CommittedOffset(1)}, 0, COMMITTER)
    assert batch is not None
    assert [record.key for record in read_records(batch.buffer)] == [offset_key(group_id, TP)]
    assert [cache.cache_info().currsize for cache in caches] == sizes
