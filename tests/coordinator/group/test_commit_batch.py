from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordinator.group.calls import COMMITTER, Producer
from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.coordinator.group.records import OffsetKey, decode_key, decode_offset, offset_record, plain_commits
from kafkapy.records.batch import read_header
from kafkapy.records.record import encode_batch, read_records
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP

longs = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
plain = st.builds(CommittedOffset, longs, st.integers(-1, 2**31 - 1), st.just(""), longs, st.just(NO_EXPIRY))
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
producers = st.just(COMMITTER) | st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.just(0))


@given(names, st.dictionaries(partitions, plain, min_size=1, max_size=70), st.integers(0, 2**62), producers)
def test_it_is_what_the_ordinary_way_writes(
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
def test_reading_it_gives_the_commits_again(group_id: str, offsets: dict[TopicPartition, CommittedOffset]) -> None:
    """Why ``replay_commits`` may take them from memory."""
    batch = plain_commits(group_id, offsets, 0, COMMITTER)
    assert batch is not None
    read = {decode_key(record.key or b""): decode_offset(record.value or b"") for record in read_records(batch.buffer)}
    assert read == {OffsetKey(group_id, partition): each for partition, each in offsets.items()}


def test_commits_with_more_to_say_are_left_to_the_ordinary_way() -> None:
    for odd in (CommittedOffset(1, metadata="m"), CommittedOffset(1, expire_timestamp_ms=5)):
        assert plain_commits("g", {TP: CommittedOffset(1), TopicPartition("u", 0): odd}, 0, COMMITTER) is None
