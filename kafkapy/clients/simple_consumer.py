"""The simple consumer of Kafka's original design: reads from one broker, at offsets that its user chooses.

It keeps no position, belongs to no group and does not look for leaders. A broker without a replica of the partition
answers NOT_LEADER_OR_FOLLOWER (UNKNOWN_TOPIC_OR_PARTITION if it does not know the partition); a follower serves
``fetch``, as every broker since Kafka 2.4 does (KIP-392), up to the high watermark that it knows.

``kafka.javaapi.consumer.SimpleConsumer`` of Kafka 0.7 had ``fetch``, ``multifetch`` and ``getOffsetsBefore``; that of
0.8.2 can also commit and fetch the offsets of a group.

>>> with SimpleConsumer("127.0.0.1", 9092) as consumer:
...     fetched = consumer.fetch(SimpleFetch("flights", 0, offset=0, max_bytes=1 << 20))
...     for record in fetched.records:
...         print(record.offset, record.value)
...     fetched = consumer.fetch(SimpleFetch("flights", 0, fetched.next_offset, max_bytes=1 << 20))
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.errors import ErrorCode
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
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafkapy.records.batch import ReadableBuffer, iterate_headers
from kafkapy.records.record import Record, read_records
from kafkapy.types import NO_OFFSET

MAX_RESPONSE_BYTES: Final = 50 << 20
"""The most bytes of records in one response; a partition that no longer fits is answered with no records."""
SEVERAL_OFFSETS_VERSION: Final = 0
"""The version of ListOffsets that answers with several offsets; Apache Kafka 4 no longer serves it (KIP-896)."""
IN_ZOOKEEPER_VERSION: Final = 0
"""The version of OffsetCommit and OffsetFetch whose offsets are in ZooKeeper; Apache Kafka 4 does not serve it."""
Place = tuple[str, int]
"""Topic and partition."""


class SimpleFetch(NamedTuple):
    """The place to read: a partition, from an offset on, at most so many bytes (but the first batch whole, KIP-74)."""

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

    def commit_offsets(self, group_id: str, offsets: Mapping[Place, int], *, in_zookeeper: bool = False) -> None:
        """Commit a group's offsets at this broker, or in ZooKeeper through it.

        In Kafka the broker must be the group's coordinator, and the group must have no members. Raises
        RequestFailedError (NOT_COORDINATOR, for example) for the first offset that is refused; others may be committed.
        """
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            each = OffsetCommitRequestPartition(partition, offset, committed_metadata="")
            topics.setdefault(topic, []).append(each)
        request = OffsetCommitRequest(
            group_id, topics=[OffsetCommitRequestTopic(topic, partitions=rows) for topic, rows in topics.items()]
        )
        answer = self._connection.call(request, OffsetCommitResponse, _version_of_store(in_zookeeper=in_zookeeper))
        for found in answer.topics:
            for committed in found.partitions:
                check(committed.error_code, what=f"group {group_id}, {found.name}-{committed.partition_index}")

    def fetch_offsets(
        self, group_id: str, partitions: Iterable[Place], *, in_zookeeper: bool = False
    ) -> dict[Place, int]:
        """The committed offsets of a group's partitions, as ``commit_offsets`` wrote them; NO_OFFSET where none is.

        Raises RequestFailedError.
        """
        found = dict.fromkeys(partitions, NO_OFFSET)
        indexes: dict[str, list[int]] = {}
        for topic, partition in found:
            indexes.setdefault(topic, []).append(partition)
        request = OffsetFetchRequest(group_id, [OffsetFetchRequestTopic(*pair) for pair in indexes.items()])
        answer = self._connection.call(request, OffsetFetchResponse, _version_of_store(in_zookeeper=in_zookeeper))
        check(answer.error_code, what=f"group {group_id}")
        for each in answer.topics:
            for committed in each.partitions:
                if committed.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # of version 0: nothing is committed
                    check(committed.error_code, what=f"group {group_id}, {each.name}-{committed.partition_index}")
                    found[each.name, committed.partition_index] = committed.committed_offset
        return found

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


def _version_of_store(*, in_zookeeper: bool) -> int | None:
    return IN_ZOOKEEPER_VERSION if in_zookeeper else None


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
