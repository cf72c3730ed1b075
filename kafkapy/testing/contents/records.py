"""Records of a broker in a test: read from a topic's logs and decoded, or appended."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafkapy.platform.files import FileSlice
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.batch import BatchHeader, iterate_headers
from kafkapy.records.record import Headers, Record, encode_batch, read_records
from kafkapy.server.dispatch.context import Services
from kafkapy.storage.log.log import Log
from kafkapy.testing.contents.topics import TIMEOUT_MS, Requests, check
from kafkapy.testing.errors import unknown
from kafkapy.testing.loop.waiting import Deadline, until
from kafkapy.types import TopicPartition

CHUNK: Final = 1 << 20
"""Bytes that are decoded at a time; in between the broker serves other requests."""


class TopicRecord(NamedTuple):
    """A record with its topic, partition and offset. ``timestamp`` is in ms; ``headers`` are (name, value) in order."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordSelection(NamedTuple):
    """A topic, one of its partitions or all, and whether records of open and aborted transactions are left out."""

    topic: str
    partition: int | None = None
    read_committed: bool = False


def logs_of(services: Services, topic: str, partition: int | None = None) -> list[Log]:
    """The logs of a topic by partition; raises ``UnknownNameError``."""
    topics = services.metadata.image.topics
    found = topics.get(topic)
    if found is None:
        raise unknown("topic", topic, topics)
    if partition is not None and partition not in found.partitions:
        raise unknown(f"partition of {topic!r}:", str(partition), map(str, found.partitions))
    wanted = sorted(found.partitions) if partition is None else [partition]
    logs = [services.log_manager.get(TopicPartition(topic, index)) for index in wanted]
    return [log for log in logs if log is not None]


async def read(services: Services, reading: RecordSelection) -> list[TopicRecord]:
    """Every record, by partition and offset; raises ``UnknownNameError``."""
    records: list[TopicRecord] = []
    for log in logs_of(services, reading.topic, reading.partition):
        end = _end(log, reading)
        is_void = _aborted(log) if reading.read_committed else _never
        offset = log.log_start_offset
        while max(offset, log.log_start_offset) < end:
            start = max(offset, log.log_start_offset)
            data = _batches(log, start, end)
            for position, header in iterate_headers(data):
                offset = header.next_offset
                if not (header.is_control or is_void(header)):
                    records += _records(log, read_records(data, header, position), start, end)
            if offset <= start:
                break  # no whole batch is left: the log was truncated meanwhile
            await services.clock.sleep(0)
    return records


async def wait_for(services: Services, reading: RecordSelection, count: int, timeout_s: float) -> list[TopicRecord]:
    """As ``read``, once there are at least ``count``; raises ``UnknownNameError`` and ``NotInTimeError``."""
    seen: tuple[int, ...] = ()
    records: list[TopicRecord] = []
    deadline = Deadline(timeout_s)

    def ends() -> tuple[int, ...]:
        return tuple(_end(log, reading) for log in logs_of(services, reading.topic, reading.partition))

    def grown() -> bool | None:
        return True if ends() != seen else None

    def failure() -> str:
        return f"{reading.topic!r} has {len(records)} records, {count} are waited for"

    while True:
        seen = ends()
        records = await read(services, reading)
        if len(records) >= count:
            return records
        await until(grown, deadline, failure)


def place(key: bytes | None, partitions: int) -> int:
    """The partition that Java's producer chooses for a key, 0 without one."""
    if key is None:
        return 0
    from kafkapy.clients.records import partition_of  # imports a client

    return partition_of(key, partitions)


async def produce(requests: Requests, place: TopicPartition, record: Record) -> int:
    """Append one record as a producer with acks=all; return its offset. Raises ``RequestRefusedError``."""
    batch = memoryview(bytearray(encode_batch([record])))
    data = TopicProduceData(place.topic, partition_data=[PartitionProduceData(place.partition, batch)])
    answer = requests.handle(ProduceRequest(None, -1, TIMEOUT_MS, [data]), 8)
    answer = await answer if hasattr(answer, "__await__") else answer
    result = answer.responses[0].partition_responses[0]
    check(result.error_code, result.error_message, f"{place} does not take the record")
    return int(result.base_offset)


def _end(log: Log, reading: RecordSelection) -> int:
    return log.last_stable_offset if reading.read_committed else log.high_watermark


def _batches(log: Log, start: int, end: int) -> bytes:
    found = log.read(start, CHUNK, up_to_offset=end).records
    if isinstance(found, FileSlice):
        data = found.read()
        found.release()
        return data
    return found


def _records(log: Log, records: list[Record], start: int, end: int) -> Iterator[TopicRecord]:
    topic, partition = log.topic_partition
    for record in records:
        if start <= record.offset < end:
            yield TopicRecord(
                topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers
            )


def _never(_header: BatchHeader) -> bool:
    return False


def _aborted(log: Log) -> Callable[[BatchHeader], bool]:
    """A function that tells whether a batch belongs to an aborted transaction, by the log's transaction indexes."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for segment in log.segments:
        for entry in segment.transaction_index:
            spans.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))

    def is_void(header: BatchHeader) -> bool:
        own = spans.get(header.producer_id, ()) if header.is_transactional else ()
        return any(first <= header.base_offset <= last for first, last in own)

    return is_void
