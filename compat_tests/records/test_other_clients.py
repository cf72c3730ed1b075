"""kafka-python's and aiokafka's record code reads what kafkapy writes, and the reverse, without a broker."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kafkapy.records.batch import crc_is_valid, read_header
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.records.validate import ProducePolicy, validate_produced
from kafkapy.types import TopicPartition

LISTED = [
    Record(b"k", b"v" * 200_000, 1_700_000_000_000, (("a", b"1"), ("b", None))),
    Record(None, b"", 1_700_000_000_005),
    Record(b"", None, 1_700_000_000_003),
]


@pytest.mark.parametrize("batch_class", [DefaultRecordBatch, AioBatch])
@pytest.mark.parametrize("codec", range(5))
def test_other_libraries_read_kafkapys_batches(batch_class: Any, codec: int) -> None:
    batch = batch_class(encode_batch(LISTED, compression=codec, base_offset=9))
    assert batch.validate_crc()
    found = [
        Record(record.key, record.value, record.timestamp, tuple(record.headers), record.offset) for record in batch
    ]
    assert found == [record._replace(offset=9 + place) for place, record in enumerate(LISTED)]


@pytest.mark.parametrize("builder_class", [DefaultRecordBatchBuilder, AioBuilder])
@pytest.mark.parametrize("codec", range(5))
def test_kafkapy_reads_the_batches_of_other_libraries(builder_class: Any, codec: int) -> None:
    builder = builder_class(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for place, record in enumerate(LISTED):
        headers = list(record.headers)
        assert builder.append(place, record.timestamp, record.key, record.value, headers) is not None
    data = bytearray(builder.build())
    assert crc_is_valid(data, 0, read_header(data))
    assert read_records(data) == [record._replace(offset=place) for place, record in enumerate(LISTED)]
    assert validate_produced(data, ProducePolicy(TopicPartition("t", 0)), 0).header.compression == codec
