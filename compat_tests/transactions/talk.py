"""Requests of a transactional producer, one by one, and their error codes."""

import struct
from collections.abc import Callable, Iterable
from typing import Any

from compat_tests.data_path.frames import batch, fetch, list_offsets, new_topic, produce
from compat_tests.groups.wire import Wire, find_coordinator, join_request, sync_request
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records

PASSING = (14, 15, 16, 51)
"""The coordinator is coming, or has not ended the last transaction yet."""
Producer = tuple[int, int]


class Talk:
    """One transactional id, one topic, one group, one connection."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire = wire
        self.name = name
        self.group = f"{name}-group"
        self.topic = new_topic(wire, 2)

    def settled(self, ask: Callable[[], Any]) -> Any:
        """Repeat the request until its error is not a retriable one."""
        while True:
            answer = ask()
            if (answer[0] if isinstance(answer, tuple) else answer) not in PASSING:
                return answer
            self.wire.has_answer(0.02)

    def coordinator(self, key: str | None = None) -> int:
        """FindCoordinator of a transactional id."""

        def ask() -> int:
            return int(self.wire.ask(FindCoordinatorRequest(self.name if key is None else key, 1), 3).error_code)

        return int(self.settled(ask))

    def initialize(
        self, version: int = 4, *, timeout_ms: int = 60_000, producer: Producer = (-1, -1), name: str | None = ""
    ) -> tuple[int, int, int]:
        """(error code, producer id, epoch); ``name`` is the transactional id unless it is this talk's."""
        name = self.name if name == "" else name
        response = self.wire.ask(InitProducerIdRequest(name, timeout_ms, *producer), version)
        return response.error_code, response.producer_id, response.producer_epoch

    def producer(self, **fields: Any) -> Producer:
        """A producer, given its id and epoch."""
        self.coordinator()
        code, *producer = self.settled(lambda: self.initialize(**fields))
        assert code == 0
        return producer[0], producer[1]

    def add(
        self, producer: Producer, topics: dict[str, list[int]] | None = None, version: int = 2, name: str | None = None
    ) -> list[int]:
        """AddPartitionsToTxn: the error codes in the order of topics and partitions."""
        topics = {self.topic: [0]} if topics is None else topics
        wanted = [AddPartitionsToTxnTopic(*each) for each in topics.items()]
        request = AddPartitionsToTxnRequest([], self.name if name is None else name, *producer, wanted)
        found = {
            (topic.name, each.partition_index): each.partition_error_code
            for topic in self.wire.ask(request, version).results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        return [found.pop((topic, index)) for topic in topics for index in dict.fromkeys(topics[topic])] + [
            *found.values()
        ]

    def begin(self, producer: Producer, *partitions: int) -> None:
        """Add partitions of the topic, waiting for the last transaction to end."""
        codes = self.settled(lambda: self.add(producer, {self.topic: list(partitions or (0,))})[0])
        assert codes == 0

    def add_offsets(
        self, producer: Producer, version: int = 2, *, group: str | None = None, name: str | None = None
    ) -> int:
        """AddOffsetsToTxn."""
        group = self.group if group is None else group
        request = AddOffsetsToTxnRequest(self.name if name is None else name, *producer, group)
        return int(self.wire.ask(request, version).error_code)

    def commit_offset(
        self, producer: Producer, offset: int = 5, version: int = 3, *, topic: str | None = None, **fields: Any
    ) -> int:
        """TxnOffsetCommit of partition 0 (or ``partition``)."""
        each = TxnOffsetCommitRequestPartition(
            fields.pop("partition", 0), offset, committed_metadata=fields.pop("metadata", "")
        )
        topics = [TxnOffsetCommitRequestTopic(topic or self.topic, partitions=[each])]
        group = fields.pop("group", self.group)
        request = TxnOffsetCommitRequest(self.name, group, *producer, topics=topics, **fields)
        return int(self.wire.ask(request, version).topics[0].partitions[0].error_code)

    def committed(self, version: int = 5, *, stable: bool = False) -> tuple[int, int]:
        """OffsetFetch of partition 0: (error code, offset)."""
        topics = [OffsetFetchRequestTopic(self.topic, [0])]
        request = OffsetFetchRequest(self.group, topics, require_stable=stable)
        each = self.wire.ask(request, version).topics[0].partitions[0]
        return each.error_code, each.committed_offset

    def end(self, producer: Producer, commit: bool = True, version: int = 2, *, name: str | None = None) -> int:
        """EndTxn."""
        request = EndTxnRequest(self.name if name is None else name, *producer, commit)
        return int(self.wire.ask(request, version).error_code)

    def ended(self, producer: Producer, commit: bool = True) -> int:
        """EndTxn, asked again until markers are written: the first answer."""
        first = self.end(producer, commit)
        self.settled(lambda: self.end(producer, commit))
        return first

    def markers(
        self, producer: Producer, commit: bool = True, epoch: int = 0, topics: dict[str, list[int]] | None = None
    ) -> list[int]:
        """WriteTxnMarkers: the error codes in the order of topics and partitions."""
        topics = {self.topic: [0]} if topics is None else topics
        wanted = [WritableTxnMarkerTopic(*each) for each in topics.items()]
        response = self.wire.ask(WriteTxnMarkersRequest([WritableTxnMarker(*producer, commit, wanted, epoch)]), 0)
        found = {
            (topic.name, each.partition_index): each.error_code
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        return [found[topic, index] for topic in topics for index in topics[topic]]

    def write(self, producer: Producer, sequence: int, *values: bytes, **fields: Any) -> int:
        """Produce: the error code."""
        name = fields.pop("name", self.name)
        partition = fields.pop("partition", 0)
        records = batch(
            *(values or (b"v",)),
            **{
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "base_sequence": sequence,
                "is_transactional": True,
                **fields,
            },
        )
        return produce(self.wire, self.topic, records, partition=partition, transactional_id=name)[0]

    def ends(self) -> tuple[int, int]:
        """The end of partition 0 for read_uncommitted, and for read_committed."""
        found = [list_offsets(self.wire, self.topic, -1, isolation_level=level) for level in (0, 1)]
        return found[0].offset, found[1].offset

    def seen(self) -> list[Any]:
        """The records of partition 0 that a read_committed consumer gets."""
        answer = fetch(self.wire, self.topic, isolation_level=1)
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        return [each.decode() for each in visible(answer.records or b"", aborted)]

    def aborted(self) -> list[int]:
        """First offsets of the aborted transactions that a fetch of partition 0 lists."""
        answer = fetch(self.wire, self.topic, isolation_level=1)
        return sorted(each.first_offset for each in answer.aborted_transactions or ())

    def member(self) -> tuple[str, int]:
        """A member of the group: its id and generation."""
        find_coordinator(self.wire, self.group)
        joined = self.wire.ask(join_request(self.group), 3)
        synced = self.wire.ask(sync_request(self.group, joined.generation_id, joined.member_id), 2)
        assert synced.error_code == 0
        return joined.member_id, joined.generation_id


def visible(records: Any, aborted: Iterable[tuple[int, int]]) -> list[bytes]:
    """The values that are left without control batches and without those of aborted transactions."""
    data = bytes(records)
    pending = sorted(aborted, key=lambda each: each[1])
    open_aborts: set[int] = set()
    values = []
    for position, header in iterate_headers(data):
        while pending and pending[0][1] <= header.last_offset:
            open_aborts.add(pending.pop(0)[0])
        if header.is_control:
            (kind,) = struct.unpack_from(">h", read_records(data, header, position)[0].key or b"", 2)
            if kind == 0:
                open_aborts.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborts):
            values += [each.value or b"" for each in read_records(data, header, position)]
    return values
