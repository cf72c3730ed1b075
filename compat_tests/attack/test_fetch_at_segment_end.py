"""The wait of a fetch with a large ``min_bytes`` whose records are in another segment than the log's end.

One answer holds records of one segment only. A fetch whose offset is in another segment than the end that the client
may see is therefore answered at once, whatever ``min_bytes`` is. The same from Apache Kafka 2.7.2
(`--target kafka-2.7.2`) and from kafkapy.
"""

import time
import uuid
from typing import Any

import pytest

from compat_tests.data_path.frames import batch, list_offsets, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.process import Broker
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest

pytestmark = pytest.mark.differs(
    "kafka-4.4.0", reason="segment.bytes is at least a megabyte (KIP-1030): no small segments can be made"
)

MAX_WAIT_MS = 3_000
AT_ONCE_MS = 1_000
MUCH = 1 << 20
VALUE = b"v" * 100
RECORDS = batch(VALUE)
TWO_BATCHES = str(2 * len(RECORDS) + 50)
"""``segment.bytes`` for two batches."""
VERSION = 11
COORDINATOR_IS_NOT_THERE = (14, 15, 16, 51)


@pytest.fixture
def wire(broker: Broker) -> Any:
    with Wire(broker.bootstrap) as wire:
        yield wire


def send_fetch(wire: Wire, topic: str, offsets: dict[int, int], **fields: Any) -> None:
    """``offsets``: partition → fetch offset."""
    partition_max_bytes = fields.pop("partition_max_bytes", MUCH)
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in offsets.items()
    ]
    request = FetchRequest(**{"max_wait_ms": MAX_WAIT_MS, "min_bytes": MUCH, "max_bytes": 1 << 26, **fields})
    request.topics = [FetchTopic(topic=topic, partitions=wanted)]
    wire.send(request, VERSION)


def receive(wire: Wire) -> list[tuple[int, int]]:
    """(error code, bytes) of each partition."""
    found = wire.receive().responses[0].partitions
    return [(each.error_code, len(each.records or b"")) for each in found]


def timed_fetch(wire: Wire, topic: str, offset: int, **fields: Any) -> tuple[float, tuple[int, int]]:
    """(ms until the answer, what ``receive`` says of the partition)."""
    began_s = time.monotonic()
    send_fetch(wire, topic, {0: offset}, **fields)
    found = receive(wire)[0]
    return (time.monotonic() - began_s) * 1000, found


def fill(wire: Wire, topic: str, batches: int) -> None:
    for _ in range(batches):
        assert produce(wire, topic, RECORDS)[0] == 0


def test_offset_in_an_older_segment(wire: Wire) -> None:
    topic = new_topic(wire, segment__bytes=TWO_BATCHES)
    fill(wire, topic, 5)
    for offset, size in (0, 2), (1, 1), (2, 2), (3, 1):
        taken_ms, found = timed_fetch(wire, topic, offset)
        assert (found, taken_ms < AT_ONCE_MS) == ((0, size * len(RECORDS)), True)
    taken_ms, found = timed_fetch(wire, topic, 4)
    assert found == (0, len(RECORDS))
    assert taken_ms >= MAX_WAIT_MS, "the rest of the last segment is less than what is asked for"


def test_roll_while_waiting(broker: Broker, wire: Wire) -> None:
    topic = new_topic(wire, segment__bytes=TWO_BATCHES)
    fill(wire, topic, 2)
    with Wire(broker.bootstrap) as at_end:
        send_fetch(wire, topic, {0: 1})
        send_fetch(at_end, topic, {0: 2})
        assert not wire.has_answer()
        assert not at_end.has_answer()
        with Wire(broker.bootstrap) as producer:
            fill(producer, topic, 1)
        assert wire.has_answer(AT_ONCE_MS / 1000)
        assert receive(wire) == [(0, len(RECORDS))]
        assert at_end.has_answer(AT_ONCE_MS / 1000)
        assert receive(at_end) == [(0, len(RECORDS))]


def test_one_partition_at_a_segment_end_ends_the_wait(wire: Wire) -> None:
    topic = new_topic(wire, 2, segment__bytes=TWO_BATCHES)
    for _ in range(3):
        assert produce(wire, topic, RECORDS, partition=1)[0] == 0
    began_s = time.monotonic()
    send_fetch(wire, topic, {0: 0, 1: 0})
    assert receive(wire) == [(0, 0), (0, 2 * len(RECORDS))]
    assert time.monotonic() - began_s < AT_ONCE_MS / 1000


def test_min_bytes_is_counted_without_the_limit_of_the_response(wire: Wire) -> None:
    """There are enough bytes, though the second partition's first batch does not fit into the response."""
    topic = new_topic(wire, 2)
    for index in 0, 1:
        assert produce(wire, topic, RECORDS, partition=index)[0] == 0
    limit = 2 * len(RECORDS) - 10
    began_s = time.monotonic()
    send_fetch(wire, topic, {0: 0, 1: 0}, max_bytes=limit, min_bytes=limit)
    assert receive(wire) == [(0, len(RECORDS)), (0, 0)]
    assert time.monotonic() - began_s < AT_ONCE_MS / 1000


def test_min_bytes_is_counted_with_the_limit_of_a_partition(broker: Broker, wire: Wire) -> None:
    """A batch that is larger than the partition's limit counts as much as the limit, when it comes later."""
    topic = new_topic(wire)
    began_s = time.monotonic()
    send_fetch(wire, topic, {0: 0}, partition_max_bytes=10, min_bytes=len(RECORDS))
    with Wire(broker.bootstrap) as producer:
        assert not wire.has_answer()
        fill(producer, topic, 1)
    assert receive(wire) == [(0, len(RECORDS))]
    assert time.monotonic() - began_s >= MAX_WAIT_MS / 1000


def test_start_of_the_log_that_moves_while_waiting(broker: Broker, wire: Wire) -> None:
    """Neither DeleteRecords nor an append after it ends the waiting; the response has the error."""
    topic = new_topic(wire)
    fill(wire, topic, 2)
    began_s = time.monotonic()
    send_fetch(wire, topic, {0: 0})
    with Wire(broker.bootstrap) as other:
        assert not wire.has_answer()
        partition = DeleteRecordsPartition(partition_index=0, offset=2)
        wanted = DeleteRecordsTopic(name=topic, partitions=[partition])
        answer = other.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 1)
        assert answer.topics[0].partitions[0].error_code == 0
        fill(other, topic, 1)
    assert receive(wire) == [(1, 0)]
    assert time.monotonic() - began_s >= MAX_WAIT_MS / 1000


class Transaction:
    """An open transaction with one batch in ``topic``."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.name = f"tx-{uuid.uuid4().hex[:10]}"
        self._wire = wire
        self._ask(FindCoordinatorRequest(key=self.name, key_type=1), 2)
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        found = self._ask(request, 2)
        self._producer = found.producer_id, found.producer_epoch
        added = AddPartitionsToTxnTopic(name=topic, partitions=[0])
        answer = wire.ask(AddPartitionsToTxnRequest([], self.name, *self._producer, [added]), 1)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        records = batch(
            VALUE,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        assert produce(wire, topic, records, transactional_id=self.name)[0] == 0

    def commit(self, wire: Wire) -> None:
        self._wire = wire
        self._ask(EndTxnRequest(self.name, *self._producer, committed=True), 1)

    def _ask(self, request: Any, version: int) -> Any:
        while (answer := self._wire.ask(request, version)).error_code in COORDINATOR_IS_NOT_THERE:
            self._wire.has_answer(0.1)
        assert answer.error_code == 0
        return answer


def test_read_committed(broker: Broker, wire: Wire) -> None:
    """The segment of the last stable offset counts, in either direction."""
    committed: dict[str, Any] = {"isolation_level": 1}
    topic = new_topic(wire, segment__bytes=TWO_BATCHES)
    fill(wire, topic, 2)
    transaction = Transaction(wire, topic)  # offset 2, in the second segment
    fill(wire, topic, 3)  # 3 in the second, 4 and 5 in the third
    assert list_offsets(wire, topic, -1, isolation_level=1).offset == 2
    taken_ms, found = timed_fetch(wire, topic, 0, **committed)
    assert (found, taken_ms < AT_ONCE_MS) == ((0, 2 * len(RECORDS)), True)
    taken_ms, found = timed_fetch(wire, topic, 2, **committed)
    assert (found, taken_ms >= MAX_WAIT_MS) == ((0, 0), True)
    taken_ms, found = timed_fetch(wire, topic, 3, **committed)
    assert (found, taken_ms >= MAX_WAIT_MS) == ((0, 0), True)
    taken_ms, found = timed_fetch(wire, topic, 4, **committed)
    assert (found, taken_ms < AT_ONCE_MS) == ((0, 0), True)
    send_fetch(wire, topic, {0: 2}, **committed)
    assert not wire.has_answer()
    with Wire(broker.bootstrap) as other:
        transaction.commit(other)
    assert wire.has_answer(AT_ONCE_MS / 1000)
    code, size = receive(wire)[0]
    assert code == 0
    assert size > len(RECORDS)


def test_reading_many_small_segments(wire: Wire) -> None:
    topic = new_topic(wire, segment__bytes=TWO_BATCHES)
    fill(wire, topic, 41)
    began_s = time.monotonic()
    for offset in range(0, 40, 2):
        send_fetch(wire, topic, {0: offset})
        assert receive(wire) == [(0, 2 * len(RECORDS))]
    assert time.monotonic() - began_s < MAX_WAIT_MS / 1000
