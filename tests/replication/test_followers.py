"""Followers of a partition, in clusters of two and three brokers."""

import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame, values_of
from kafkapy.metadata.embedded import EmbeddedSession
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.replication.fetching import MANY
from kafkapy.replication.partition import Partition
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.result import Handle, Result
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.types import TopicPartition
from tests.replication.brokers import TP, Brokers, brokers
from tests.replication.leader import bytes_of
from tests.server.harness import run, until
from tests.server.test_transactions import transactor


def test_brokers_of_one_store_share_a_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2) as cluster:
            await cluster.create_topic(2, 1)
            assert (await cluster.state())[:3] == (2, 0, (2, 1))
            assert (cluster.partition(2).is_leader, cluster.partition(1).is_leader) == (True, False)
            await cluster.stop(2)
            await cluster.leads(1, epoch=1)
            assert cluster.partition(1).log.log_end_offset == 0
            assert TP in cluster[1].services.replica_manager.partitions

    run(scenario())


def test_records_arrive_on_all_replicas_as_the_leader_wrote_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(2, 1, 3, segment__bytes="4000")
            for number in range(30):
                answer = await cluster.produce(2, batch(*(b"%d %d" % (number, each) for each in range(20))))
                assert (answer.error_code, answer.base_offset) == (0, 20 * number)
            await cluster.same_end(1, 2, 3)
            assert cluster.log(1).log_end_offset == 600
            assert cluster.content(1) == cluster.content(2) == cluster.content(3)
            assert len(cluster.content(1)) > 2

    run(scenario())


def test_the_leader_stops_and_a_follower_leads_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(2, 1, 3, min__insync__replicas="2")
            for number in range(20):
                assert (await cluster.produce(2, batch(b"%d" % number))).error_code == 0
            await cluster.stop(2, kill=True)
            await cluster.leads(1)
            assert cluster.log(1).log_end_offset == 20
            assert (await cluster.produce(1, batch(b"20"))).error_code == 0
            await cluster.same_end(1, 3)
            await cluster.in_sync(1, 3)
            await cluster.start(2)
            await cluster.in_sync(1, 2, 3)
            await cluster.same_end(1, 2, 3)
            assert cluster.content(1) == cluster.content(2) == cluster.content(3)
            fetched = await (await cluster.client(1)).fetch(TP.topic)
            records = fetched.responses[0].partitions[0].records
            assert values_of(records) == [b"%d" % number for number in range(21)]

    run(scenario())


def test_a_follower_that_was_away_catches_up_and_is_in_sync_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2) as cluster:
            await cluster.create_topic(1, 2)
            assert (await cluster.produce(1, batch(b"a"))).error_code == 0
            await cluster.stop(2)
            await cluster.in_sync(1)
            for number in range(50):
                assert (await cluster.produce(1, batch(b"%d" % number))).error_code == 0
            await cluster.start(2)
            await cluster.in_sync(1, 2)
            await cluster.same_end(1, 2)
            assert cluster.content(1) == cluster.content(2)
            state = await cluster.state()
            assert state == (1, 1, (1, 2), 1, 2)
            assert cluster.partition(1).zk_version == 2

    run(scenario())


def test_a_deposed_leader_drops_what_nobody_else_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(3, 2, unclean__leader__election__enable="true")
            for number in range(5):
                assert (await cluster.produce(3, batch(b"%d" % number))).error_code == 0
            await cluster.same_end(2, 3)
            await cluster.stop(2)
            await cluster.in_sync(3)
            for _ in range(3):
                assert (await cluster.produce(3, batch(b"lost"))).error_code == 0
            await cluster.stop(3)
            await cluster.start(2)
            await cluster.leads(2)
            assert (await cluster.produce(2, batch(b"new", b"newer"))).error_code == 0
            await cluster.start(3)
            await cluster.in_sync(2, 3)
            await cluster.same_end(2, 3)
            assert cluster.content(2) == cluster.content(3)
            assert cluster.log(3).log_end_offset == 7
            assert cluster.log(2).leader_epochs.entries == cluster.log(3).leader_epochs.entries

    run(scenario())


def test_deleted_records_are_deleted_on_all_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2) as cluster:
            await cluster.create_topic(1, 2)
            assert (await cluster.produce(1, batch(*[b"v"] * 10))).error_code == 0
            request = DeleteRecordsRequest(
                [DeleteRecordsTopic(TP.topic, [DeleteRecordsPartition(0, 4)])], timeout_ms=10_000
            )
            response = await (await cluster.client(1)).ask(request, 2)
            (answer,) = response.topics[0].partitions
            assert (answer.error_code, answer.low_watermark) == (0, 4)
            assert cluster.log(2).log_start_offset == 4

    run(scenario())


class Idle:
    """A follower that does not fetch."""

    def follow(self, partition: Partition, leader: int, /) -> None:
        """Copy nothing."""

    def stop(self, topic_partition: TopicPartition, /) -> None:
        """Nothing is copied."""

    def made_durable(self, topic_partition: TopicPartition, /) -> None:
        """Nothing is waited for."""


async def _send(cluster: Brokers, broker_id: int, request: Any, version: int) -> Client:
    """A connection of its own on which an answer is awaited."""
    client = await Client.connect(cluster[broker_id])
    client.send(frame(request, version))
    return client


def _produce(records: bytes, acks: int = -1, timeout_ms: int = 60_000) -> ProduceRequest:
    data = TopicProduceData(TP.topic, partition_data=[PartitionProduceData(0, records)])
    return ProduceRequest(None, acks, timeout_ms, [data])


def test_consumers_read_up_to_the_high_watermark_and_a_follower_that_lags_leaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, replica__lag__time__max__ms="300") as cluster:
            cluster[2].services.replica_manager.follow_by(Idle)
            await cluster.create_topic(1, 2)
            waiting = await _send(cluster, 1, _produce(batch(b"a", b"b")), 8)
            await until(lambda: cluster.log(1).log_end_offset == 2)
            fetched = await (await cluster.client(1)).fetch(TP.topic)
            found = fetched.responses[0].partitions[0]
            assert (found.error_code, found.high_watermark, found.records) == (0, 0, b"")
            await cluster.in_sync(1)
            response = Client.decode(0, 8, await waiting.receive())
            assert response.responses[0].partition_responses[0].error_code == 0
            assert cluster.log(1).high_watermark == 2
            fetched = await (await cluster.client(1)).fetch(TP.topic)
            assert values_of(fetched.responses[0].partitions[0].records) == [b"a", b"b"]
            assert await cluster.state() == (1, 0, (1,), 1, 1)
            await waiting.close()

    run(scenario())


def test_too_few_in_sync_replicas_before_and_after_the_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, replica__lag__time__max__ms="300") as cluster:
            cluster[2].services.replica_manager.follow_by(Idle)
            await cluster.create_topic(1, 2, min__insync__replicas="2")
            waiting = await _send(cluster, 1, _produce(batch(b"a")), 8)
            await cluster.in_sync(1)
            response = Client.decode(0, 8, await waiting.receive())
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            answer = await cluster.produce(1, batch(b"b"))
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert (await cluster.produce(1, batch(b"c"), acks=1)).error_code == 0
            await waiting.close()

    run(scenario())


def test_leaders_of_an_older_protocol_write_the_state_themselves(tmp_path: Path) -> None:
    async def scenario() -> None:
        older = {"inter__broker__protocol__version": "2.6", "log__message__format__version": "2.6"}
        clock = MovingClock()
        async with brokers(tmp_path, 1, 2, clock=clock, **older) as cluster:
            await cluster.create_topic(2, 1)
            await cluster.stop(1)
            await cluster.leads(2, epoch=1)
            assert (await cluster.produce(2, batch(b"a"))).error_code == 0
            await cluster.start(1)
            await until(lambda: cluster.partition(2).isr.committed == (2, 1))
            assert (await cluster.state())[2] == (2, 1)

            def is_told() -> bool:
                clock.advance(500)
                found = cluster[1].services.metadata.image.partition(*TP)
                return found is not None and found.isr == (2, 1)

            await until(is_told)

    run(scenario())


def test_a_deleted_topic_is_gone_from_all_replicas(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2) as cluster:
            await cluster.create_topic(1, 2)
            assert (await cluster.produce(1, batch(b"a"))).error_code == 0
            response = await (await cluster.client(1)).ask(
                DeleteTopicsRequest(topic_names=[TP.topic], timeout_ms=9000), 5
            )
            assert [each.error_code for each in response.responses] == [0]
            await cluster.knows(lambda image: TP.topic not in image.topics)
            for each in cluster.all:
                assert TP not in each.services.replica_manager.partitions
            await cluster.create_topic(2, 1)
            assert (await cluster.produce(2, batch(b"b", b"c"))).error_code == 0
            await cluster.same_end(1, 2)
            assert cluster.content(1) == cluster.content(2)

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert caplog.records == []


def test_groups_outlive_their_coordinators_broker(tmp_path: Path) -> None:
    """``__consumer_offsets`` is replicated like any topic: the next leader has the offsets that were acknowledged."""

    async def scenario() -> None:
        async with brokers(
            tmp_path, 1, 2, 3, offsets__topic__replication__factor="3", offsets__topic__num__partitions="1"
        ) as cluster:
            await cluster.create_topic(1, 2, 3)
            held = TopicPartition("__consumer_offsets", 0)
            find = FindCoordinatorRequest("g", 0)
            found = await (await cluster.client(1)).ask(find, 3)
            await cluster.knows(lambda image: image.partition(*held) is not None)
            while found.error_code:
                found = await (await cluster.client(1)).ask(find, 3)
            partition = OffsetCommitRequestPartition(0, 42)
            commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(TP.topic, partitions=[partition])])
            while True:
                answer = await (await cluster.client(found.node_id)).ask(commit, 7)
                if answer.topics[0].partitions[0].error_code == 0:
                    break
            survivor = next(each for each in (1, 2, 3) if each != found.node_id)
            await cluster.stop(found.node_id, kill=True)
            while found.node_id not in cluster.running or found.error_code:
                found = await (await cluster.client(survivor)).ask(find, 3)
            fetch = OffsetFetchRequest("g", [OffsetFetchRequestTopic(TP.topic, [0])])
            while True:
                answer = await (await cluster.client(found.node_id)).ask(fetch, 7)
                if answer.error_code == 0:
                    break
            assert answer.topics[0].partitions[0].committed_offset == 42

    run(scenario())


def test_transactions_are_continued_by_the_next_leaders(tmp_path: Path) -> None:
    """Followers know producers, open transactions and aborted ones from the batches that they copy."""

    async def scenario() -> None:
        keys = ("offsets__topic__num__partitions", "transaction__state__log__num__partitions")
        async with brokers(tmp_path, 1, 2, clock=None, **dict.fromkeys(keys, "1")) as cluster:
            for name in (TP.topic, "__consumer_offsets", "__transaction_state"):
                await cluster.create_topic(1, 2, name=name, segment__ms=str(2**62))
            first = await transactor(cluster[1])
            producer = await first.initialize()
            await first.write(producer, 0, b"committed")
            await first.commit_offset(producer, 7)
            assert await first.end(producer) == 0
            while True:
                found = await first.ask(InitProducerIdRequest("x", 60_000), 4)
                if found.error_code == 0:
                    break
            aborted = (found.producer_id, found.producer_epoch)
            await first.write(aborted, 0, b"aborted")
            assert await first.end(aborted, commit=False) == 0
            while True:
                found = await first.ask(InitProducerIdRequest("x", 60_000), 4)
                if found.error_code == 0:
                    break
            opened = (found.producer_id, found.producer_epoch)
            await first.write(opened, 0, b"open")
            end_offset = cluster.log(1).log_end_offset
            await cluster.same_end(1, 2)
            await first.close()
            await cluster.stop(1, kill=True)
            await cluster.leads(2)
            second = await transactor(cluster[2])
            assert await second.stable_end() == end_offset - 1
            assert await second.aborted() == [(aborted[0], 2)]
            while await second.end(opened) != 0:
                ...
            await until(lambda: cluster.log(2).last_stable_offset == end_offset + 1)
            fetched = await second.fetch(TP.topic, isolation_level=1)
            assert values_of(fetched.responses[0].partitions[0].records)[::2] == [b"committed", b"aborted", b"open"]
            assert await second.committed_offset() == 7
            await second.close()

    run(scenario())


def test_more_partitions_than_a_leader_answers_for_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, num__replica__fetchers="2") as cluster:
            await cluster.create_topic(1, 2, partitions=3 * MANY)
            client = await cluster.client(1)
            chosen = range(0, 3 * MANY, 7)
            for index in chosen:
                answer = await client.produce(TP.topic, batch(b"%d" % index), partition=index, acks=-1)
                assert answer.error_code == 0
            for index in chosen:
                await cluster.same_end(1, 2, topic_partition=TopicPartition(TP.topic, index))
            await cluster.stop(1, kill=True)
            await cluster.leads(2)
            assert {cluster.log(2, TopicPartition(TP.topic, index)).log_end_offset for index in chosen} == {1}

    run(scenario())


class Corrupting:
    """Flips a bit in the last batch of the first fetch responses with records that a follower gets."""

    def __init__(self, responses: int) -> None:
        self.remaining = responses

    def start(self, services: Services) -> None:
        """Nothing is needed of the broker."""

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        result = handle(context, request)
        if not isinstance(request, FetchRequest) or request.replica_id < 0:
            return result
        return self._corrupted(result)

    async def _corrupted(self, result: Result) -> Message | None:
        response = await result if isinstance(result, Awaitable) else result
        assert isinstance(response, FetchResponse)
        for topic in response.responses:
            for data in topic.partitions:
                if data.records and self.remaining:
                    self.remaining -= 1
                    records = bytearray(bytes_of(data.records))
                    records[-1] ^= 1
                    data.records = bytes(records)
        return response

    def stop(self) -> None:
        """Nothing waits."""


def test_corrupt_records_are_fetched_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1) as cluster:
            corrupting = Corrupting(3)
            await cluster.start(2, hooks=Hooks(corrupting))
            await cluster.create_topic(2, 1)
            assert (await cluster.produce(2, batch(b"a", b"b"))).error_code == 0
            assert corrupting.remaining == 0
            await cluster.same_end(1, 2)
            assert cluster.content(1) == cluster.content(2)

    with caplog.at_level(logging.WARNING):
        run(scenario())
    lines = [record.getMessage() for record in caplog.records if "corrupt" in record.getMessage()]
    problem = "what came at offset 0 is refused: The batch at offset 0 of t-0 is corrupt"
    assert lines == [f"t-0: fetching from broker 2 is tried again: {problem}"]


def test_a_leader_that_has_been_replaced_acknowledges_nothing(tmp_path: Path) -> None:
    """Its session has expired, it does not know it, and clients still write to it."""

    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(2, 1, 3)
            assert (await cluster.produce(2, batch(b"a"))).error_code == 0
            old = cluster[2].services.store
            assert isinstance(old, EmbeddedSession)
            await old.expire()
            await until(lambda: cluster.partition(1).is_leader and cluster.partition(3).leader_epoch == 1)
            assert cluster.partition(2).is_leader
            waiting = await _send(cluster, 2, _produce(batch(b"nobody"), timeout_ms=300), 8)
            assert (await cluster.produce(2, batch(b"old leader alone"), acks=1)).base_offset == 2
            response = Client.decode(0, 8, await waiting.receive())
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            await waiting.close()
            assert cluster.log(2).high_watermark == 1
            assert (await cluster.produce(1, batch(b"b", b"c"))).base_offset == 1
            old.renew()
            await cluster.in_sync(1, 2, 3)
            await cluster.same_end(1, 2, 3)
            assert cluster.content(1) == cluster.content(2) == cluster.content(3)
            fetched = await (await cluster.client(1)).fetch(TP.topic)
            assert values_of(fetched.responses[0].partitions[0].records) == [b"a", b"b", b"c"]

    run(scenario())
