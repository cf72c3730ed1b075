"""Unusual requests of the data path get equal answers from Apache Kafka 2.7.2 (`--target kafka-2.7.2`) and kafkapy."""

import struct
from typing import Any

import pytest

from compat_tests.data_path.frames import (
    NOW_MS,
    batch,
    fetch,
    is_closed,
    list_offsets,
    new_topic,
    patched,
    produce,
    produce_request,
    raw,
)
from compat_tests.differential.odd_records import entry
from compat_tests.groups.wire import Wire
from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.protocol.headers import RequestHeader, write_request_header
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.protocol.primitives import Writer
from kafkapy.records.compression import compress
from kafkapy.records.record import Record, encode_batch, encode_legacy

NOWHERE = "nowhere-x"
COORDINATOR_LOAD_IN_PROGRESS = 14
THREE = batch(b"a", b"b", b"c")


@pytest.fixture
def wire(broker: Broker) -> Any:
    with Wire(broker.bootstrap) as wire:
        yield wire


REFUSED = {
    "two batches": (THREE + THREE, 87),
    "a wrong CRC": (patched(THREE, 17, bytes(4), with_crc=False), 2),
    "magic 1": (patched(THREE, 16, b"\x01"), 87),
    "a base offset": (patched(THREE, 0, struct.pack(">q", 5)), 87),
    "more records than there are": (patched(THREE, 57, struct.pack(">i", 4)), 87),
    "fewer records than there are": (patched(THREE, 57, struct.pack(">i", 2)), 87),
    "a negative count": (patched(THREE, 57, struct.pack(">i", -1)), 87),
    "a last offset beyond the count": (patched(THREE, 23, struct.pack(">i", 100)), 87),
    "a negative last offset": (patched(THREE, 23, struct.pack(">i", -1)), 87),
    "a control batch": (patched(THREE, 21, b"\x00\x20"), 87),
    "a transactional batch without an id": (patched(THREE, 21, b"\x00\x10"), 53),
    "no records": (encode_batch([]), 87),
}


@pytest.mark.parametrize("name", REFUSED)
def test_batches_that_are_refused(name: str, wire: Wire) -> None:
    records, code = REFUSED[name]
    assert produce(wire, new_topic(wire), records) == (code, -1)


NO_BATCH = {
    "null": (None, 87),
    "nothing": (b"", 87),
    "half a batch": (THREE[:40], 87),
    "ten bytes": (THREE[:10], 87),
    "magic 9": (patched(THREE, 16, b"\x09"), 2),
    "a negative size": (patched(THREE, 8, struct.pack(">i", -1)), 2),
    "no size": (patched(THREE, 8, struct.pack(">i", 0)), 2),
    "two gigabytes": (patched(THREE, 8, struct.pack(">i", 0x7FFFFFFF)), 87),
}


@pytest.mark.differs("kafka-2.7.2", reason="it closes the connection, as all releases below version 3 of Produce")
@pytest.mark.differs(*IN_KRAFT, cases=["null"], reason="no records at all: the request is never answered")
@pytest.mark.differs(*IN_KRAFT, cases=["two gigabytes"], reason="UNKNOWN_SERVER_ERROR (-1)")
@pytest.mark.parametrize("name", NO_BATCH)
def test_records_that_are_no_batch(name: str, wire: Wire) -> None:
    records, code = NO_BATCH[name]
    assert produce(wire, new_topic(wire), records) == (code, -1)


@pytest.mark.differs("kafka-3.9.1", reason="it looks at records once the request has been read, in all versions")
@pytest.mark.parametrize("name", NO_BATCH)
def test_records_that_close_the_connection(name: str, wire: Wire) -> None:
    """Below version 3 of Produce."""
    topic = new_topic(wire)
    with pytest.raises(AssertionError, match="closed the connection"):
        produce(wire, topic, NO_BATCH[name][0], 2)


FRAMES = {
    "a negative length": struct.pack(">i", -5),
    "two gigabytes": struct.pack(">i", 0x7FFFFFFF),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "an empty frame": struct.pack(">i", 0),
    "an unknown key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "an unknown version": struct.pack(">ihhih", 10, 0, 99, 1, -1),
    "a count beyond the frame": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0x7FFFFFFF),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_close_the_connection(name: str, broker: Broker) -> None:
    with raw(broker.bootstrap) as sock:
        sock.sendall(FRAMES[name])
        assert is_closed(sock)


def test_bytes_after_a_request_are_ignored(broker: Broker) -> None:
    with raw(broker.bootstrap) as sock:
        sock.sendall(struct.pack(">ihhihi", 18, 3, 1, 1, -1, -1) + b"junk")
        assert not is_closed(sock)


def test_acks_0_with_an_error_closes_the_connection(broker: Broker) -> None:
    writer = Writer()
    write_request_header(writer, RequestHeader(0, 8, 1, "x"))
    produce_request(NOWHERE, THREE, acks=0).write(writer, 8)
    with raw(broker.bootstrap) as sock:
        sock.sendall(struct.pack(">i", writer.size()) + writer.getvalue())
        assert is_closed(sock)


def test_produce_to_unknown_partitions_and_with_bad_acks(wire: Wire) -> None:
    topic = new_topic(wire)
    assert [produce(wire, topic, THREE, acks=acks) for acks in (2, -2)] == [(21, -1)] * 2
    assert produce(wire, NOWHERE, THREE, acks=2) == (3, -1)
    assert produce(wire, NOWHERE, THREE) == (3, -1)
    assert produce(wire, topic, THREE, partition=9) == (3, -1)
    assert produce(wire, topic, THREE, partition=-1) == (3, -1)
    assert produce(wire, "bad name!", THREE) == (3, -1)
    assert produce(wire, topic, THREE, transactional_id="zz") == (0, 0)
    assert produce(wire, new_topic(wire, max__message__bytes="1000"), batch(b"x" * 2000)) == (10, -1)


@pytest.mark.differs(*IN_KRAFT, reason="min.insync.replicas asks for no more replicas than the partition has")
def test_too_few_replicas_in_sync(wire: Wire) -> None:
    few = new_topic(wire, min__insync__replicas="2")
    assert produce(wire, few, THREE, acks=1) == (0, 0)
    assert produce(wire, few, THREE) == (19, -1)


@pytest.mark.differs("kafka-4.4.0", reason="segment.bytes is at least a megabyte (KIP-1030)")
def test_a_batch_that_is_larger_than_a_segment(wire: Wire) -> None:
    segment = new_topic(wire, max__message__bytes="100000", segment__bytes="2000")
    assert produce(wire, segment, batch(b"x" * 3000)) == (18, -1)


def refusal(wire: Wire, topic: str, records: bytes) -> tuple[int, int, list[int], bool]:
    answer = wire.ask(produce_request(topic, records), 8).responses[0].partition_responses[0]
    return (
        answer.error_code,
        answer.log_start_offset,
        [error.batch_index for error in answer.record_errors],
        answer.error_message is not None,
    )


def test_the_error_text_of_a_refused_batch(wire: Wire) -> None:
    assert refusal(wire, new_topic(wire), REFUSED["a negative count"][0]) == (87, 0, [], False)
    assert refusal(wire, NOWHERE, THREE) == (3, -1, [], False)
    compacted = new_topic(wire, cleanup__policy="compact")
    assert refusal(wire, compacted, THREE) == (87, 0, [0, 1, 2], True)


@pytest.mark.differs("kafka-4.4.0", reason="message.timestamp.difference.max.ms is gone (KIP-937)")
def test_the_error_text_of_a_refused_timestamp(wire: Wire) -> None:
    strict = new_topic(wire, message__timestamp__difference__max__ms="3600000")
    old = encode_batch([Record(key=None, value=b"a", timestamp=5), Record(key=None, value=b"b", timestamp=NOW_MS)])
    assert refusal(wire, strict, old) == (32, 0, [0], True)


def test_sequences_of_idempotent_producers(wire: Wire) -> None:
    topic = new_topic(wire)

    def send(producer_id: int, epoch: int, sequence: int) -> tuple[int, int]:
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        return produce(wire, topic, batch(b"v", b"w", **fields))

    assert [send(7, 0, at) for at in (0, 2, 0, 2, 9, 3)] == [(0, 0), (0, 2), (0, 0), (0, 2), (45, -1), (45, -1)]
    assert [send(7, 1, at) for at in (4, 0)] == [(45, -1), (0, 4)]
    assert send(7, 0, 4) == (47, -1)
    assert send(8, 0, 5) == (0, 6)


@pytest.mark.differs(
    "kafka-4.4.0", reason="segment.bytes is at least a megabyte (KIP-1030), and Produce begins with version 3 (KIP-896)"
)
def test_the_order_of_checks_of_a_batch(wire: Wire) -> None:
    """Each batch has several faults: the order of the checks decides on the error."""

    def refused(topic: str, records: bytes, version: int = 8, **fields: Any) -> tuple[int, int]:
        answer = wire.ask(produce_request(topic, records, **fields), version).responses[0].partition_responses[0]
        return answer.error_code, answer.log_start_offset

    topic, small = new_topic(wire), new_topic(wire, max__message__bytes="200")
    large, segments = batch(b"x" * 200), new_topic(wire, segment__bytes="200")
    wrong, message = patched(THREE, 17, bytes(4), with_crc=False), encode_legacy([Record(b"k", b"v", NOW_MS, (), 0)], 1)
    assert refused(topic, message) == refused(topic, THREE + THREE, acks=5) == (87, -1)
    assert refused(topic, batch(b"a", compression=4), 6) == (76, -1)
    assert refused(topic, THREE, acks=5) == (21, -1)
    assert refused(topic, wrong) == (2, -1)
    assert refused(topic, patched(THREE, 0, struct.pack(">q", 5))) == (87, 0)
    assert refused(topic, patched(THREE, 21, b"\x00\x10") + b"tail") == (53, -1)
    assert refused(small, large + THREE, 2) == refused(small, THREE + large, 2) == (10, -1)
    assert refused(topic, THREE + wrong, 2) == (2, -1)
    producer = {"producer_id": 9, "producer_epoch": 0}
    assert refused(segments, batch(b"a", base_sequence=0, **producer)) == (0, 0)
    assert refused(segments, batch(b"x" * 200, base_sequence=0, **producer)) == (18, -1)
    assert refused(segments, batch(b"x" * 200, base_sequence=9, **producer)) == (18, -1)
    assert refused(topic, batch(b"a", producer_id=9, producer_epoch=-5, base_sequence=0)) == (47, 0)


@pytest.mark.differs("kafka-2.7.2", cases=["26", "50"], reason="it closes the connection")
@pytest.mark.differs(*IN_KRAFT, cases=["26", "50"], reason="UNKNOWN_SERVER_ERROR (-1)")
@pytest.mark.parametrize("size", [26, 50, 51, 60])
def test_a_batch_that_is_shorter_than_its_header(size: int, wire: Wire) -> None:
    records = THREE[:8] + struct.pack(">i", size - 12) + THREE[12:size]
    assert produce(wire, new_topic(wire), records) == (2, -1)


@pytest.mark.differs("kafka-4.4.0", reason="message formats 0 and 1 are gone (KIP-724), Produce 0 to 2, too (KIP-896)")
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_bytes_after_compressed_data_are_ignored(codec: int, wire: Wire) -> None:
    content = compress(codec, encode_legacy([Record(b"k", b"v", NOW_MS, (), 0)], 1))
    for tail in (b"", b"\0\0\0"):
        data = entry(0, 1, codec, NOW_MS, None, content + tail)
        assert produce(wire, new_topic(wire, message__format__version="0.10.0"), data, 2) == (0, 0)
        assert produce(wire, new_topic(wire, compression__type="uncompressed"), data, 2) == (0, 0)


def test_fetches(wire: Wire) -> None:
    topic = new_topic(wire, partitions=2)
    for _ in range(3):
        produce(wire, topic, THREE)

    def seen(**fields: Any) -> tuple[int, int, int, int, int]:
        found = fetch(wire, fields.pop("topic", topic), **fields)
        return (
            found.error_code, found.high_watermark, found.last_stable_offset, found.log_start_offset,
            len(found.records or b""),
        )  # fmt: skip

    size = 3 * len(THREE)
    for version in range(5, 13):
        assert seen(version=version) == (0, 9, 9, 0, size)
    assert seen(offset=9) == (0, 9, 9, 0, 0)
    for fields in ({"offset": 10}, {"offset": -1}):
        assert seen(**fields) == (1, -1, -1, -1, 0)
    assert seen(topic=NOWHERE) == seen(partition=9) == (3, -1, -1, -1, 0)
    assert [seen(current_leader_epoch=epoch)[0] for epoch in (0, 1, -1, -2)] == [0, 75, 0, 0]
    assert seen(partition_max_bytes=1) == seen(max_bytes=0) == (0, 9, 9, 0, len(THREE))
    for size in -1, -(2**31):
        assert seen(partition_max_bytes=size) == seen(max_bytes=size) == (-1, -1, -1, -1, 0)
        assert seen(partition_max_bytes=size, offset=9) == (0, 9, 9, 0, 0)
        assert seen(partition_max_bytes=size, offset=10) == (1, -1, -1, -1, 0)
    assert fetch(wire, topic, isolation_level=1).aborted_transactions == []
    assert fetch(wire, topic).aborted_transactions is None


def test_a_consumer_that_tells_the_epoch_of_its_last_record(wire: Wire) -> None:
    """It is told where the log that it has read leaves this one (KIP-595), or that its offset is out of range."""
    topic = new_topic(wire)
    produce(wire, topic, THREE)

    def seen(offset: int, epoch: int) -> tuple[int, int, tuple[int, int] | None, int]:
        found = fetch(wire, topic, version=12, offset=offset, last_fetched_epoch=epoch)
        diverging = found.diverging_epoch
        left = None if diverging is None or diverging.epoch < 0 else (diverging.epoch, diverging.end_offset)
        return found.error_code, found.high_watermark, left, len(found.records or b"")

    assert seen(0, 0) == (0, 3, None, len(THREE))
    assert seen(3, 0) == (0, 3, None, 0)
    assert seen(4, 0) == (0, 3, (0, 3), 0)
    assert seen(0, 7) == (1, -1, None, 0)


@pytest.mark.differs(*IN_KRAFT, reason="who has no replica of the partition is answered NOT_LEADER_OR_FOLLOWER (6)")
def test_a_fetch_with_the_id_of_a_broker_that_is_no_replica(wire: Wire) -> None:
    topic = new_topic(wire)
    produce(wire, topic, THREE)
    found = fetch(wire, topic, replica_id=9)
    assert (found.error_code, found.high_watermark, len(found.records or b"")) == (0, 3, 0)


def test_fetch_sessions(wire: Wire) -> None:
    topic = new_topic(wire, partitions=2)
    produce(wire, topic, THREE)

    def step(
        session: int, epoch: int, offsets: dict[int, int], forget: tuple[int, ...] = ()
    ) -> tuple[int, int, list[Any]]:
        partitions = [
            FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=1 << 20)
            for index, at in offsets.items()
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=epoch)
        request.topics = [FetchTopic(topic=topic, partitions=partitions)] if partitions else []
        request.forgotten_topics_data = [ForgottenTopic(topic=topic, partitions=list(forget))] if forget else []
        response = wire.ask(request, 11)
        found = [
            (partition.partition_index, partition.error_code, len(partition.records or b""))
            for answered in response.responses
            for partition in answered.partitions
        ]
        return response.error_code, response.session_id, found

    code, session, found = step(0, 0, {0: 0, 1: 0, 7: 0})
    assert (code, found) == (0, [(0, 0, len(THREE)), (1, 0, 0), (7, 3, 0)])
    assert step(session, 1, {}) == (0, session, [(0, 0, len(THREE)), (7, 3, 0)])
    assert step(session, 2, {0: 3}) == (0, session, [(7, 3, 0)])
    assert step(session, 9, {}) == (71, 0, [])
    assert step(session, 3, {}, (7,)) == (0, session, [])
    assert step(session + 1, 1, {}) == (70, 0, [])
    assert step(session, 4, {}, (0, 1)) == (0, 0, [])
    assert step(session, 5, {}) == (70, 0, [])
    assert step(0, 0, {})[1] > 0


def test_list_offsets(wire: Wire) -> None:
    topic = new_topic(wire, partitions=2)
    produce(wire, topic, THREE)

    def seen(timestamp: int, version: int, **fields: Any) -> tuple[int, int, int, int]:
        found = list_offsets(wire, fields.pop("topic", topic), timestamp, version, **fields)
        return found.error_code, found.offset, found.timestamp, found.leader_epoch

    for version in range(1, 6):
        epoch = 0 if version >= 4 else -1
        assert seen(-1, version) == (0, 3, -1, epoch)
        assert seen(-2, version) == (0, 0, -1, epoch)
        assert seen(NOW_MS + 1, version) == (0, 1, NOW_MS + 1, epoch)
        assert seen(NOW_MS + 100, version) == (0, -1, -1, -1)
    assert seen(-1, 5, topic=NOWHERE) == (3, -1, -1, -1)
    assert seen(-1, 5, current_leader_epoch=1) == (75, -1, -1, -1)
    assert seen(-1, 5, partition=1) == (0, 0, -1, 0)


@pytest.mark.differs("kafka-4.4.0", reason="a partition that is named twice is answered once")
def test_list_offsets_of_a_repeated_partition(wire: Wire) -> None:
    topic = new_topic(wire)
    twice = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2)
    answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[twice]), 5)
    assert [partition.error_code for partition in answer.topics[0].partitions] == [42, 42]


@pytest.mark.differs("kafka-4.4.0", reason="ListOffsets begins with version 1 (KIP-896)")
def test_list_offsets_of_the_first_version(wire: Wire) -> None:
    topic = new_topic(wire)
    produce(wire, topic, THREE)
    assert list_offsets(wire, topic, -1, 0, max_num_offsets=5).old_style_offsets == [3, 0]
    for count, code in (0, 0), (-1, -1), (-(2**31), -1):
        found = list_offsets(wire, topic, -1, 0, max_num_offsets=count)
        assert (found.error_code, found.old_style_offsets) == (code, [])


def test_offset_for_leader_epoch(wire: Wire) -> None:
    topic = new_topic(wire, partitions=2)
    produce(wire, topic, THREE)

    def seen(epoch: int, *, name: str = topic, **fields: int) -> tuple[int, int, int]:
        return end_of_epoch(wire, name, epoch, **fields)

    assert seen(0) == seen(0, current=0) == (0, 0, 3)
    assert [seen(epoch) for epoch in (1, 5, -1)] == [(0, -1, -1)] * 3
    assert seen(0, current=1) == (75, -1, -1)
    assert seen(0, name=NOWHERE) == (3, -1, -1)
    assert seen(0, index=1) == (0, 0, 0)


def end_of_epoch(
    wire: Wire, topic: str, epoch: int, *, current: int = -1, version: int = 3, index: int = 0
) -> tuple[int, int, int]:
    partition = OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
    wanted = OffsetForLeaderTopic(topic=topic, partitions=[partition])
    answer = wire.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted]), version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.differs("kafka-4.4.0", reason="OffsetForLeaderEpoch begins with version 2 (KIP-896)")
def test_offset_for_leader_epoch_of_the_first_version(wire: Wire) -> None:
    topic = new_topic(wire)
    produce(wire, topic, THREE)
    assert end_of_epoch(wire, topic, 0, version=0) == (0, -1, 3)


def test_delete_records(wire: Wire) -> None:
    topic = new_topic(wire)
    produce(wire, topic, THREE)

    def delete(offset: int, name: str = topic, index: int = 0) -> tuple[int, int]:
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        wanted = DeleteRecordsTopic(name=name, partitions=[partition])
        answer = wire.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 1)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.low_watermark

    assert delete(4) == delete(-2) == (1, -1)
    assert [delete(offset) for offset in (1, 0, -1)] == [(0, 1), (0, 1), (0, 3)]
    assert delete(0, NOWHERE) == delete(0, index=5) == (3, -1)
    assert delete(0, new_topic(wire, cleanup__policy="compact")) == (44, -1)
    assert fetch(wire, topic).error_code == 1


def test_producer_ids(wire: Wire) -> None:
    def answer(transactional_id: str | None, **fields: Any) -> tuple[int, bool, int]:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **fields)
        found = wire.ask(request, 4)
        while found.error_code == COORDINATOR_LOAD_IN_PROGRESS:  # a KRaft broker fetches its first ids from elsewhere
            wire.has_answer(0.1)
            found = wire.ask(request, 4)
        return found.error_code, found.producer_id >= 0, found.producer_epoch

    assert answer(None) == answer(None, producer_id=5, producer_epoch=1) == (0, True, 0)
    assert answer("") == answer(None, producer_id=5) == (42, False, -1)
