"""Streams of records: the fetchers put records in, and the user's threads iterate over them.

A stream has a queue of chunks; a chunk is a fetched partition's bytes, which are decoded when they are read. The user's
position in a partition is the offset after the last record that an iterator has returned. A rebalance removes the
queue's chunks, with the rest of the one being read, and from then on the position no longer moves: the position of that
moment is committed, and the next owner continues there.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Self

from kafkapy.clients.errors import ClientError
from kafkapy.records.batch import crc_is_valid, iterate_headers
from kafkapy.records.errors import CorruptRecordError, RecordsError
from kafkapy.records.record import Headers, Record, iterate_records
from kafkapy.types import NO_OFFSET

Decoder = Callable[[bytes], Any]
"""Makes a key or value from its bytes; null is not decoded."""


class ConsumerTimeoutError(ClientError):
    """No record came for ``consumer.timeout.ms``; the stream can be iterated again."""


class MessageAndMetadata(NamedTuple):
    """A record of a stream; ``key`` and ``message`` are what the decoders have made of the bytes. Time in ms."""

    topic: str
    partition: int
    offset: int
    key: Any
    message: Any
    timestamp: int
    headers: Headers


class OwnedPartition:
    """A partition that a stream owns, from one rebalance to the next.

    ``fetch_offset`` is where the fetcher continues, ``consumed_offset`` where the user does; NO_OFFSET if unknown.
    ``begun_offset`` is what was committed last, or where the user began.
    """

    def __init__(self, topic: str, partition: int, stream: "KafkaStream") -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.stream: Final = stream
        self.fetch_offset = NO_OFFSET
        self.consumed_offset = NO_OFFSET
        self.begun_offset = NO_OFFSET

    def begin(self, offset: int) -> None:
        """Give the partition to its stream, which continues at a committed offset, or NO_OFFSET."""
        self.fetch_offset = self.consumed_offset = self.begun_offset = offset
        self.stream.own(self)

    def start_at(self, offset: int) -> None:
        """Continue at an offset that ``auto.offset.reset`` has chosen."""
        self.fetch_offset = offset
        self.stream.start_at(self, offset)


class _Chunk(NamedTuple):
    partition: OwnedPartition
    batches: memoryview
    first_offset: int

    def records(self) -> Iterator[Record]:
        """Raises a RecordsError for damaged batches."""
        for position, header in iterate_headers(self.batches):
            if not crc_is_valid(self.batches, position, header):
                place = f"{self.partition.topic}-{self.partition.partition}"
                raise CorruptRecordError(f"{place}: the batch at offset {header.base_offset} has a wrong CRC")
            if not header.is_control:
                for record in iterate_records(self.batches, header, position):
                    if record.offset >= self.first_offset:
                        yield record


class KafkaStream:
    """Records of the partitions that this stream owns; each iterator continues where the last one has stopped.

    ``next`` waits for a record. It raises ConsumerTimeoutError after ``consumer.timeout.ms``, StopIteration after the
    connector's shutdown, ConsumerRebalanceFailedError while the consumer owns nothing since it could not rebalance,
    and a RecordsError (``kafkapy.records.errors``) for damaged data. One thread at a time may use a stream.
    """

    def __init__(
        self, max_chunks: int, timeout_ms: int, decoders: tuple[Decoder, Decoder], on_room: Callable[[], None]
    ) -> None:
        self._max_chunks = max_chunks
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._decode_key, self._decode_value = decoders
        self._on_room = on_room
        self._changed = threading.Condition()
        self._owned: set[OwnedPartition] = set()
        self._chunks: deque[_Chunk] = deque()
        self._reading: tuple[OwnedPartition, Iterator[Record]] | None = None
        self._is_closed = False
        self._failure: ClientError | None = None
        self._damage: RecordsError | None = None  # lasts until the partitions are taken away

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata:
        with self._changed:
            while (found := self._next_record()) is None:
                self._wait()
            partition, record = found
            partition.consumed_offset = record.offset + 1
        key = None if record.key is None else self._decode_key(record.key)
        value = None if record.value is None else self._decode_value(record.value)
        place = (partition.topic, partition.partition, record.offset)
        return MessageAndMetadata(*place, key, value, record.timestamp, record.headers)

    def _next_record(self) -> tuple[OwnedPartition, Record] | None:
        if self._failure is not None:
            raise self._failure
        if self._damage is not None:
            raise self._damage
        while self._reading is not None or self._chunks:
            if self._reading is None:
                chunk = self._chunks.popleft()
                self._reading = (chunk.partition, chunk.records())
                self._on_room()
            partition, records = self._reading
            try:
                record = next(records, None)
            except RecordsError as error:  # the records behind it must not be skipped
                self._damage = error
                raise
            if record is not None:
                return partition, record
            self._reading = None
        if self._is_closed:
            raise StopIteration
        return None

    def _wait(self) -> None:
        def has_news() -> bool:
            return bool(self._chunks) or self._is_closed or self._failure is not None

        if not self._changed.wait_for(has_news, self._timeout_s):
            raise ConsumerTimeoutError("no record came within consumer.timeout.ms")

    @property
    def has_room(self) -> bool:
        """Whether there are fewer chunks than ``queued.max.message.chunks``."""
        return len(self._chunks) < self._max_chunks

    def own(self, partition: OwnedPartition) -> None:
        """Take a partition."""
        with self._changed:
            self._owned.add(partition)

    def put(self, partition: OwnedPartition, batches: memoryview, next_offset: int) -> None:
        """Add what was fetched from ``partition.fetch_offset`` on; nothing happens if it was taken away meanwhile."""
        with self._changed:
            if partition in self._owned:
                self._chunks.append(_Chunk(partition, batches, partition.fetch_offset))
                partition.fetch_offset = next_offset
                self._changed.notify()

    def start_at(self, partition: OwnedPartition, offset: int) -> None:
        """Set the user's position, unless the user is already reading the partition."""
        with self._changed:
            pending = any(chunk.partition is partition for chunk in self._chunks)
            reading = self._reading is not None and self._reading[0] is partition
            if partition in self._owned and not pending and not reading:
                partition.consumed_offset = partition.begun_offset = offset

    def release(self) -> None:
        """Take all partitions and their records away; no position of theirs moves any more."""
        with self._changed:
            self._owned.clear()
            self._chunks.clear()
            self._reading = None
            self._damage = None

    def fail(self, error: ClientError | None) -> None:
        """Let ``next`` raise ``error``; None: no longer."""
        with self._changed:
            self._failure = error
            self._changed.notify()

    def close(self) -> None:
        """End the iteration."""
        with self._changed:
            self._is_closed = True
            self._failure = None
            self._changed.notify()


def position_of(partition: OwnedPartition) -> int | None:
    """The offset to commit; None if nothing is known."""
    return None if partition.consumed_offset == NO_OFFSET else partition.consumed_offset
