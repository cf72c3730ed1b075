"""Batches that Apache Kafka 2.7.2 wrote: three logs of a broker, and one batch for each codec by its Java classes."""

from pathlib import Path

import pytest

from kafkapy.records.batch import crc_is_valid, iterate_headers
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.record import encode_batch, read_records

LOGS = sorted(Path(__file__).with_name("golden").glob("*.log"))
TRANSACTIONS = Path(__file__).with_name("golden") / "data-with-transaction.log"


def test_the_logs_are_there() -> None:
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


def test_every_codec_of_the_original() -> None:
    data = LOGS[[log.stem for log in LOGS].index("every-codec")].read_bytes()
    for codec, (position, header) in enumerate(iterate_headers(data)):
        first, second = read_records(data, header, position)
        assert header.compression == codec
        assert (first.key, first.value, first.headers) == (b"key", b"Kafka wrote this. " * 12, (("h", None),))
        assert (second.key, second.value, second.offset) == (None, None, codec * 2 + 1)
