"""Batches that Apache Kafka 2.7.2 wrote: three logs of a broker, and one batch for each codec by its Java classes.

Kafka's Java classes wrote the message sets too: magic 0 with each codec, then magic 1 with each codec, with CreateTime
and LogAppendTime.
"""

from pathlib import Path

import pytest

from kafkapy.records.batch import crc_is_valid, iterate_headers
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records

LOGS = sorted(Path(__file__).with_name("golden").glob("*.log"))
MESSAGE_SETS = Path(__file__).with_name("golden") / "message-sets.bin"
TRANSACTIONS = Path(__file__).with_name("golden") / "data-with-transaction.log"


def test_the_logs_exist() -> None:
    assert len(LOGS) == 4


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_every_batch_is_read_and_written_back_as_it_was(log: Path) -> None:
    data = log.read_bytes()
    end = 0
    for position, header in iterate_headers(data):
        assert position == end
        assert crc_is_valid(data, position, header)
        listed = read_records(data, header, position)
        assert [record.offset for record in listed] == list(range(header.base_offset, header.next_offset))
        again = encode_batch(
            listed,
            base_offset=header.base_offset,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            compression=header.compression,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        end = position + header.size
        if header.compression:
            assert read_records(again) == listed
        else:
            assert again == data[position:end]
    assert end == len(data)


def test_the_transactions_of_a_real_log() -> None:
    data = TRANSACTIONS.read_bytes()
    markers = [read_control(data, header, at).type for at, header in iterate_headers(data) if header.is_control]
    assert markers == [ControlType.COMMIT, ControlType.ABORT, ControlType.ABORT, ControlType.ABORT]


def test_batches_of_every_codec_of_kafka_are_read() -> None:
    data = LOGS[[log.stem for log in LOGS].index("every-codec")].read_bytes()
    for codec, (position, header) in enumerate(iterate_headers(data)):
        first, second = read_records(data, header, position)
        assert header.compression == codec
        assert (first.key, first.value, first.headers) == (b"key", b"Kafka wrote this. " * 12, (("h", None),))
        assert (second.key, second.value, second.offset) == (None, None, codec * 2 + 1)


def test_message_sets_of_kafka_are_read() -> None:
    data = MESSAGE_SETS.read_bytes()
    listed = [
        Record(b"key", b"Kafka wrote this. " * 12, 1600000000000, (), 100),
        Record(None, None, 1600000005000, (), 101),
        Record(b"", b"", 1600000002000, (), 102),
    ]
    batches = iterate_headers(data)
    kinds = [(0, codec, 0) for codec in range(4)] + [(1, codec, stamped) for codec in range(4) for stamped in (0, 1)]
    for magic, codec, stamped in kinds:
        whole = [next(batches) for _ in range(1 if codec else 3)]
        assert {(each.magic, each.compression, each.timestamp_type) for _, each in whole} == {(magic, codec, stamped)}
        assert all(crc_is_valid(data, position, header) for position, header in whole)
        found = [record for position, header in whole for record in read_records(data, header, position)]
        times = [1600000009000 if stamped else record.timestamp if magic else -1 for record in listed]
        assert found == [record._replace(timestamp=time) for record, time in zip(listed, times, strict=True)]
        if not codec:
            again = encode_legacy(found, magic, timestamp_type=stamped, append_time=1600000009000)
            assert data[whole[0][0] :].startswith(again)
    assert next(batches, None) is None
