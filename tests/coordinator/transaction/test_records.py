import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordinator.transaction.records import (
    UnknownTransactionStateError,
    _value,
    batch_of,
    decode_key,
    decode_value,
    transaction_record,
)
from kafkapy.coordinator.transaction.states import TransactionState
from kafkapy.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, TransactionData
from kafkapy.protocol.messages.stored.transaction_log import PartitionsSchema, TransactionLogValue
from kafkapy.protocol.primitives import ProtocolError, encode
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition

KEY = "0000000474782d31"
PARTITIONS = (TopicPartition("rf2", 1), TopicPartition("rf3", 0))
# written by Apache Kafka 2.7.2
REAL = [
    (
        "00000000000000000fa000000000271000ffffffff000001a1fd31f67fffffffffffffffff",
        TransactionData(4000, 0, 10_000, TransactionState.EMPTY, (), 0x1A1FD31F67F, -1),
    ),
    (
        (
            "00000000000000000fa000000000271001000000020003726632000000010000000100037266330000000100000000000001a1fd31f6c9"
            "000001a1fd31f6c9"
        ),
        TransactionData(4000, 0, 10_000, TransactionState.ONGOING, PARTITIONS, 0x1A1FD31F6C9, 0x1A1FD31F6C9),
    ),
    (
        "00000000000000000fa00000000027100400000000000001a1fd3202cc000001a1fd31f6c9",
        TransactionData(4000, 0, 10_000, TransactionState.COMPLETE_COMMIT, (), 0x1A1FD3202CC, 0x1A1FD31F6C9),
    ),
]


@pytest.mark.parametrize(("value", "data"), REAL)
def test_records_have_the_bytes_of_kafka(value: str, data: TransactionData) -> None:
    record = transaction_record("tx-1", data, 5)
    assert record.key is not None
    assert record.value is not None
    assert (record.key.hex(), record.value.hex(), record.timestamp) == (KEY, value, 5)
    assert decode_key(record.key) == "tx-1"
    assert decode_value(record.value) == data


def test_a_tombstone() -> None:
    record = transaction_record("tx-1", None, 5)
    assert record.key is not None
    assert (record.key.hex(), record.value) == (KEY, None)


def test_a_value_lists_the_partitions_of_a_topic_together() -> None:
    mixed = (TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0))
    record = transaction_record("x", TransactionData(1, 0, 1, TransactionState.ONGOING, mixed), 0)
    assert record.value is not None
    assert decode_value(record.value).partitions == (mixed[0], mixed[2], mixed[1])


longs = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
partition_lists = st.lists(
    st.builds(TopicPartition, st.sampled_from("ab") | names, st.integers(0, 2**31 - 1)), max_size=8, unique=True
).map(tuple)


@given(
    st.builds(
        TransactionData,
        longs,
        st.integers(-1, 2**15 - 1),
        st.integers(0, 2**31 - 1),
        st.sampled_from(TransactionState),
        partition_lists,
        longs,
        longs,
        client_version=st.just(0) | st.just(EPOCH_PER_TRANSACTION),
        next_producer_id=longs,
        previous_producer_id=longs,
    ),
    partition_lists,
)
def test_a_record_is_decoded_to_what_was_encoded(data: TransactionData, added: tuple[TopicPartition, ...]) -> None:
    """Therefore ``replay_data`` may take the data from memory; only the order of partitions may differ."""
    if data.state is TransactionState.EMPTY:
        data = data._replace(partitions=())  # no partition was added
    if not data.client_version:
        data = data._replace(next_producer_id=-1, previous_producer_id=-1)  # of version 2 alone
    record = transaction_record("x", data, 0)
    assert record.value is not None
    read = decode_value(record.value)
    assert read == data._replace(partitions=read.partitions)
    assert sorted(read.partitions) == sorted(data.partitions)
    later = [each._replace(partitions=tuple(dict.fromkeys(each.partitions + added))) for each in (data, read)]
    assert transaction_record("x", later[0], 0) == transaction_record("x", later[1], 0)


STARTED_MS, ENDED_MS = 0x01A224201CB1, 0x01A224201E17
PARTITIONS = (TopicPartition("ta", 0),)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (
            "0001000000000000000000000000ea600102037461020000000000000001a224201cb1000001a224201cb1020008%s02020002",
            TransactionData(
                0, 0, 60_000, TransactionState.ONGOING, PARTITIONS, STARTED_MS, STARTED_MS, 2, previous_producer_id=0
            ),
        ),
        (
            "0001000000000000000000010000ea600401000001a224201e17000001a224201cb1020008%s02020002",
            TransactionData(
                0, 1, 60_000, TransactionState.COMPLETE_COMMIT, (), ENDED_MS, STARTED_MS, 2, previous_producer_id=0
            ),
        ),
        (
            "0001000000000000000000010000ea600000000001a224201e17ffffffffffffffff020008%s02020002",
            TransactionData(0, 1, 60_000, TransactionState.EMPTY, (), ENDED_MS, -1, 2, previous_producer_id=0),
        ),
    ],
)
def test_values_of_apache_kafka_4_4_for_producers_of_version_2(value: str, data: TransactionData) -> None:
    content = bytes.fromhex(value % ("00" * 8))
    assert decode_value(content) == data
    assert transaction_record("x", data, 0).value == content


@pytest.mark.parametrize("count", [64, 65])
def test_values_of_many_partitions_are_not_kept(count: int) -> None:
    _value.cache_clear()
    partitions = tuple(TopicPartition("t", index) for index in range(count))
    data = TransactionData(7, 3, 60_000, TransactionState.PREPARE_ABORT, partitions, 5, 4)
    expected = TransactionLogValue(7, 3, 60_000, data.state, [PartitionsSchema("t", list(range(count)))], 5, 4)
    for _ in range(2):
        assert transaction_record("x", data, 0).value == b"\0\0" + encode(expected, 0)
    assert _value.cache_info().currsize == (count == 64)


def test_keys_of_later_releases_are_not_decoded() -> None:
    assert decode_key(b"\x00\x01\x00\x01x") is None


def test_a_later_layout_of_the_value_is_read() -> None:
    value = b"\x00\x01" + bytes.fromhex("0000000000000fa00001000027100102047266320200000001") + b"\x00"
    value += (7).to_bytes(8, "big") + (6).to_bytes(8, "big") + b"\x00"
    expected = TransactionData(4000, 1, 10_000, TransactionState.ONGOING, (TopicPartition("rf2", 1),), 7, 6)
    assert decode_value(value) == expected


@pytest.mark.parametrize("state", [6, 7, -1])
def test_states_that_are_never_written_are_refused(state: int) -> None:
    value = bytearray.fromhex(REAL[0][0])
    value[16] = state & 0xFF
    with pytest.raises(UnknownTransactionStateError):
        decode_value(bytes(value))


@pytest.mark.parametrize("value", [b"", b"\x00\x05", bytes.fromhex(REAL[1][0])[:-9]])
def test_cut_off_and_unknown_values_are_protocol_errors(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_value(value)


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1, max_size=9
    ),
    st.integers(0, 2**62),
)
def test_a_batch_of_records_has_the_bytes_of_encode_batch(
    records: list[tuple[bytes | None, bytes | None]], timestamp_ms: int
) -> None:
    batch = batch_of([Record(key, value, timestamp_ms) for key, value in records], timestamp_ms)
    assert bytes(batch.buffer) == encode_batch([Record(key, value, timestamp_ms) for key, value in records])
    assert batch.header == read_header(batch.buffer)
    assert batch[2:] == (timestamp_ms, 0)
