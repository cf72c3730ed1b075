"""The simple consumer of Kafka's original design: reads from one broker, at offsets that its user chooses.

It keeps no position, belongs to no group and does not look for leaders: a broker that does not lead a partition answers
NOT_LEADER_OR_FOLLOWER. ``kafka.javaapi.consumer.SimpleConsumer`` of Kafka 0.7 had the same three methods: ``fetch``,
``multifetch`` and ``getOffsetsBefore``.

>>> with SimpleConsumer("127.0.0.1", 9092) as consumer:
...     fetched = consumer.fetch(SimpleFetch("flights", 0, offset=0, max_bytes=1 << 20))
...     for record in fetched.records:
...         print(record.offset, record.value)
...     fetched = consumer.fetch(SimpleFetch("flights", 0, fetched.next_offset, max_bytes=1 << 20))
"""

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkapy.records.batch import ReadableBuffer, iterate_headers
from kafkapy.records.record import Record, read_records

MAX_RESPONSE_BYTES: Final = 50 << 20
"""The most bytes of records in one response; a partition that no longer fits is answered with no records."""
SEVERAL_OFFSETS_VERSION: Final = 0
"""The version of ListOffsets that answers with several offsets; Apache Kafka 4 no longer serves it (KIP-896)."""


class SimpleFetch(NamedTuple):
    """What to read: a partition, from an offset on, at most so many bytes (but the first batch whole, KIP-74)."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20


class SimpleFetched(NamedTuple):
    """The records of a partition from the asked offset on, in order; none if ``error`` is set.

    ``next_offset`` is where to go on: behind the last batch, also where that had no records for consumers (the markers
    of transactions, records that compaction removed). ``high_watermark`` is the offset after the last committed record.
    """

    records: Sequence[Record]
    next_offset: int
    high_watermark: int
    error: RequestFailedError | None = None


class SimpleConsumer:
    """A connection to the broker at ``host:port``; closed by ``close`` or as a context manager.

    ``timeout_s`` is the longest wait for a response. Methods raise NoBrokerError when the broker can't be reached or
    the connection breaks, and ClientError when it serves none of the versions that a request may have.
    """

    def __init__(self, host: str, port: int, timeout_s: float = 10.0) -> None:
        self._connection = Connection(host, port, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def fetch(self, asked: SimpleFetch, max_wait_ms: int = 0) -> SimpleFetched:
        """Read from one partition; wait at most ``max_wait_ms`` for a first record.

        Raises RequestFailedError, for example OFFSET_OUT_OF_RANGE.
        """
        (found,) = self.multifetch([asked], max_wait_ms)
        if found.error is not None:
            raise found.error
        return found

    def multifetch(self, asked: Iterable[SimpleFetch], max_wait_ms: int = 0) -> list[SimpleFetched]:
        """Read from many partitions with one request; the results have the order of ``asked``.

        A partition that fails has its ``error``, and the others have their records. If a partition is asked for more
        than once, each further time takes a request of its own, since a request names a partition once.

        Raises:
            RequestFailedError: the broker refused the whole request.
        """
        found: dict[int, SimpleFetched] = {}
        waiting = dict(enumerate(asked))
        while waiting:
            together: dict[tuple[str, int], int] = {}
            for place, each in waiting.items():
                together.setdefault((each.topic, each.partition), place)
            once = {place: waiting.pop(place) for place in together.values()}
            answers = self._answers(once.values(), max_wait_ms)
            found |= {place: _fetched(each, answers[each.topic, each.partition]) for place, each in once.items()}
        return [found[place] for place in sorted(found)]

    def _answers(self, asked: Iterable[SimpleFetch], max_wait_ms: int) -> dict[tuple[str, int], PartitionData]:
        topics: dict[str, list[FetchPartition]] = {}
        for each in asked:
            partition = FetchPartition(each.partition, fetch_offset=each.offset, partition_max_bytes=each.max_bytes)
            topics.setdefault(each.topic, []).append(partition)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=MAX_RESPONSE_BYTES,
            topics=[FetchTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        answer = self._connection.call(request, FetchResponse)
        check(answer.error_code)
        return {(topic.topic, each.partition_index): each for topic in answer.responses for each in topic.partitions}

    def offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int = 1) -> list[int]:
        """At most ``max_offsets`` offsets before a time, newest first: the first offset of each segment, and the end.

        ``time_ms`` is a time in ms since the epoch, by which a segment counts with the last change of its file; LATEST
        (-1) gives the end of the log first, EARLIEST (-2) its first offset. A broker of Kafka 4 does not serve this.

        Raises RequestFailedError.
        """
        question = ListOffsetsPartition(partition, timestamp=time_ms, max_num_offsets=max_offsets)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [question])])
        answer = self._connection.call(request, ListOffsetsResponse, at_most=SEVERAL_OFFSETS_VERSION)
        found = answer.topics[0].partitions[0]
        check(found.error_code, what=f"partition {topic}-{partition}")
        return list(found.old_style_offsets)


def _fetched(asked: SimpleFetch, answer: PartitionData) -> SimpleFetched:
    if answer.error_code:
        error = RequestFailedError(answer.error_code, what=f"partition {asked.topic}-{asked.partition}")
        return SimpleFetched([], asked.offset, answer.high_watermark, error)
    assert answer.records is None or isinstance(answer.records, memoryview | bytes), "records come from the wire"
    batches = answer.records or b""
    next_offset = max([asked.offset, *(header.next_offset for _, header in iterate_headers(batches))])
    return SimpleFetched(list(_records(batches, asked.offset)), next_offset, answer.high_watermark)


def _records(batches: ReadableBuffer, offset: int) -> Iterator[Record]:
    for position, header in iterate_headers(batches):
        if not header.is_control:
            yield from (record for record in read_records(batches, header, position) if record.offset >= offset)
