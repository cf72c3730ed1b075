"""A look at all records of a Produce request before any of them is appended."""

from struct import Struct
from typing import Final

from kafkapy.network.errors import RefusedError
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_BIT,
    measure,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.validate import FIRST_VERSION_OF_ZSTD

_SMALLEST_PARSED_SIZE: Final = 51
"""So far Kafka looks into a batch of format 2 while it parses the request: up to the producer's id."""
_LENGTH: Final = Struct(">i")


def examine(request: ProduceRequest, version: int) -> tuple[bool, bool]:
    """Tell whether each partition's records are just one batch of format 2, and whether any batch is transactional.

    Raises:
        RefusedError: records don't begin with a whole batch; it ends the connection, as Kafka fails to parse such a
            request.
    """
    all_plain = version >= FIRST_VERSION_OF_ZSTD
    any_transactional = False
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records: memoryview | None = partition.records  # type: ignore[assignment]  # as it was read
            if records is None:
                raise RefusedError(f"records of {topic.name}-{partition.index} are null")
            size = len(records)
            plain = size >= HEADER_SIZE and _LENGTH.unpack_from(records, LENGTH_OFFSET)[0] + LOG_OVERHEAD == size
            if not plain or records[MAGIC_OFFSET] != MAGIC:
                all_plain = False
                _refuse_unparsable(topic.name, partition.index, records)
            if records[MAGIC_OFFSET] == MAGIC and records[ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL_BIT:
                any_transactional = True
    return all_plain, any_transactional


def _refuse_unparsable(topic: str, index: int, records: memoryview) -> None:
    try:
        size = measure(records)
    except CorruptRecordError as error:
        raise RefusedError(f"records of {topic}-{index} are no batch: {error}") from error
    if size is None or (records[MAGIC_OFFSET] == MAGIC and size < _SMALLEST_PARSED_SIZE):
        raise RefusedError(f"records of {topic}-{index} hold no whole batch")
