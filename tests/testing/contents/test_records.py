"""Reading a topic's records, and appending one."""

import asyncio

import pytest

from harness.client import Client, produce_request
from kafkapy.clients.records import partition_of
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.records.record import Record, encode_batch
from kafkapy.testing import AsyncBroker, Broker, NotInTimeError, RequestRefusedError, TopicRecord, UnknownNameError
from kafkapy.testing.contents import records as records_module
from tests.testing.contents.wire_member import find_coordinator


def test_records_are_decoded_and_ordered_by_partition_and_offset() -> None:
    with Broker(topics={"t": 2}) as broker:
        second = broker.produce("t", b"v", key=b"k", headers=[("h", b"1"), ("n", None)], partition=1, timestamp=5)
        first = broker.produce("t", None)
        assert second == TopicRecord("t", 1, 0, 5, b"k", b"v", [("h", b"1"), ("n", None)])
        read = broker.records("t")
        assert [(each.partition, each.offset, each.value) for each in read] == [(0, 0, None), (1, 0, b"v")]
        assert read[1]._replace(headers=list(read[1].headers)) == second
        assert read[0].timestamp == first.timestamp > 1_600_000_000_000
        assert broker.records("t", partition=1) == read[1:]


def test_keys_are_partitioned_as_by_java() -> None:
    with Broker(topics={"t": 4}) as broker:
        keys = (b"a", b"b", b"c", b"foobar", b"21")
        placed = [broker.produce("t", b"", key=key).partition for key in keys]
        assert placed == [partition_of(key, 4) for key in keys]
        assert len(set(placed)) > 1


def test_unknown_names() -> None:
    with Broker(topics=["t"]) as broker:
        with pytest.raises(UnknownNameError, match="there is no topic 'tx'; did you mean 't'"):
            broker.records("tx")
        with pytest.raises(UnknownNameError, match="there is no partition of 't': '1'; there is 0"):
            broker.records("t", partition=1)
        with pytest.raises(UnknownNameError):
            broker.produce("t", b"v", partition=7)


def test_a_record_that_is_refused() -> None:
    with Broker() as broker:
        broker.create_topic("keyed", configs={"cleanup.policy": "compact"})
        with pytest.raises(RequestRefusedError, match=r"keyed-0 does not take the record: INVALID_RECORD") as it:
            broker.produce("keyed", b"v")
        assert it.value.code == 87


def test_a_topic_is_read_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "CHUNK", 100)
    with Broker({"log.segment.bytes": 300}, topics=["t"]) as broker:
        for at in range(20):
            broker.produce("t", b"%d" % at)
        assert [int(each.value or b"") for each in broker.records("t")] == list(range(20))


def test_deleted_records_are_not_read() -> None:
    with Broker(topics=["t"]) as broker:
        for at in range(3):
            broker.produce("t", b"%d" % at)
        log = records_module.logs_of(broker._host.services, "t")[0]
        log.advance_log_start_offset(2)
        assert [each.offset for each in broker.records("t")] == [2]


def test_a_wait_for_records_ends_when_they_are_there() -> None:
    async def scenario() -> None:
        async with AsyncBroker(topics=["t"]) as broker:
            waiting = asyncio.ensure_future(broker.wait_for_records("t", 2))
            await broker.produce("t", b"1")
            await asyncio.sleep(0)
            assert not waiting.done()
            await broker.produce("t", b"2")
            assert [each.value for each in await waiting] == [b"1", b"2"]
            with pytest.raises(NotInTimeError, match=r"not within 0\.01 s: 't' has 2 records, 3 are waited for"):
                await broker.wait_for_records("t", 3, timeout_s=0.01)

    asyncio.run(scenario())


def test_read_committed_leaves_out_open_and_aborted_transactions() -> None:
    async def transact(client: Client, name: str, *, end: bool | None) -> None:
        await find_coordinator(client, name, 1)
        given = await client.ask(InitProducerIdRequest(name, 60_000), 1)
        topics = [AddPartitionsToTxnTopic("t", [0])]
        fields = {"v3_and_below_transactional_id": name, "v3_and_below_producer_id": given.producer_id}
        asked = AddPartitionsToTxnRequest(
            **fields, v3_and_below_producer_epoch=given.producer_epoch, v3_and_below_topics=topics
        )
        await client.ask(asked, 1)
        batch = encode_batch(
            [Record(None, name.encode(), 1)],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        answer = await client.ask(produce_request("t", batch, acks=-1, transactional_id=name), 8)
        assert answer.responses[0].partition_responses[0].error_code == 0
        if end is not None:
            ended = await client.ask(EndTxnRequest(name, given.producer_id, given.producer_epoch, end), 1)
            assert ended.error_code == 0

    async def scenario() -> None:
        async with AsyncBroker(topics=["t"]) as broker:
            client = Client(*await asyncio.open_connection("127.0.0.1", broker.port))
            await broker.produce("t", b"plain")
            await transact(client, "aborted", end=False)
            await transact(client, "committed", end=True)
            await transact(client, "open", end=None)
            await broker.produce("t", b"late")
            everything = [b"plain", b"aborted", b"committed", b"open", b"late"]
            assert [each.value for each in await broker.records("t")] == everything
            committed = await broker.records("t", read_committed=True)
            assert [each.value for each in committed] == [b"plain", b"committed"]
            await client.close()

    asyncio.run(scenario())
