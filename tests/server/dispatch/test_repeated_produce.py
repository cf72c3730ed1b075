"""Produce requests that have the form of an earlier one of their connection: answered as if they were decoded."""

import asyncio
import gc
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from harness.client import EPOCH_MS, Client, batch, frame, produce_request, values_of
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.reader import Reader
from kafkapy.records.compression import CODEC_NAMES
from kafkapy.replication.partition import RemoteReplica
from kafkapy.server.dispatch.forms import RequestForm
from kafkapy.server.dispatch.routes import route_of
from kafkapy.server.handlers import produce
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until

LARGE = batch(os.urandom(3_000_000))
LOG_APPEND_TIME = {"message__timestamp__type": "LogAppendTime"}


def batches(rng: random.Random, count: int) -> list[bytes]:
    """Good and bad records, as producers and attackers send them."""
    found = []
    for number in range(count):
        value = b"v%d" % number
        good = batch(value, compression=rng.randrange(len(CODEC_NAMES)))
        found.append(
            rng.choice(
                [good] * 8
                + [
                    batch(value, value * 100, value),
                    good[:-1] + b"x",
                    good + b"tail",
                    good[:40],
                    batch(value, base_offset=number + 1),
                    batch(value, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=number),
                    batch(value, producer_id=5, producer_epoch=0, base_sequence=number),
                    good[:16] + b"\x07" + good[17:],
                    LARGE,
                ]
            )
        )
    return found


class Sender:
    """Requests for one topic; ``reconnects``: each has its own connection, so that all are decoded."""

    def __init__(self, broker: BrokerServer, topic: str, *, reconnects: bool) -> None:
        self.broker = broker
        self.topic = topic
        self.reconnects = reconnects
        self.client: Client | None = None
        self.topic_id = ZERO_UUID

    async def answer(self, records: bytes, version: int, acks: int) -> Any:
        """The partition's answer; None if the broker has closed the connection."""
        if self.client is None or self.reconnects:
            self.client = await Client.connect(self.broker)
        request = produce_request(self.topic, records, acks=acks, topic_id=self.topic_id)
        try:
            response = await self.client.ask(request, version)
        except asyncio.IncompleteReadError:
            self.client = None
            return None
        ((found,),) = [each.partition_responses for each in response.responses]
        texts = [found.error_message, *(each.batch_index_error_message for each in found.record_errors)]
        named = [None if text is None else text.replace(self.topic, "T") for text in texts]
        places = [each.batch_index for each in found.record_errors]
        return found.error_code, found.base_offset, found.log_start_offset, named, places

    async def content(self) -> bytes:
        client = await Client.connect(self.broker)
        response = await client.fetch(self.topic, max_bytes=1 << 27, partition_max_bytes=1 << 27)
        return bytes(response.responses[0].partitions[0].records)


@pytest.mark.parametrize("seed", range(4))
def test_answers_and_logs_are_those_of_decoded_requests(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    configs = [{}, {"max__message__bytes": "200"}, {"cleanup__policy": "compact"}, {"compression__type": "gzip"}][seed]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin = await Client.connect(broker)
            senders = [Sender(broker, "repeated", reconnects=False), Sender(broker, "decoded", reconnects=True)]
            for sender in senders:
                await admin.create_topic(sender.topic, **{"max__message__bytes": "20000000", **configs})
                sender.topic_id = await admin.topic_id(sender.topic)
            for records in batches(rng, 60):
                version = rng.choice([8, 8, 8, 8, 7, 6, 9, 9, 9, 9, 12, 12, 12, 12, 13, 13, 13, 13])
                acks = rng.choice([1, 1, 1, -1, 5])
                answers = [await sender.answer(records, version, acks) for sender in senders]
                assert answers[0] == answers[1], (records[:80], version, acks)
            contents = [await sender.content() for sender in senders]
            assert contents[0] == contents[1]
            assert len(values_of(contents[0])) > 10 or seed

    run(scenario())


@pytest.mark.parametrize("size", [1, 100, 70_000], ids=lambda size: f"{size} bytes")
def test_records_have_a_size_of_one_to_three_bytes(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From version 9 on it is a varint, and tagged fields follow the records; other tags are decoded."""
    decoded: list[str] = []
    read = TopicProduceData.read

    def counted(reader: Reader, version: int) -> TopicProduceData:
        decoded.append("")
        return read(reader, version)

    monkeypatch.setattr(TopicProduceData, "read", counted)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for number in range(6):
                assert (await client.produce("t", batch(b"v" * size), version=9)).base_offset == number
            assert len(decoded) == 2
            tagged = PartitionProduceData(0, batch(b"v" * size), [(5, b"tag")])
            request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[tagged])])
            answer = await client.ask(request, 9)
            assert answer.responses[0].partition_responses[0].base_offset == 6
            assert len(decoded) == 3

    run(scenario())


def test_requests_of_the_same_form_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of other APIs between them don't change that, nor another partition; another topic or client does."""
    decoded: list[str] = []
    read = TopicProduceData.read

    def counted(reader: Reader, version: int) -> TopicProduceData:
        topic = read(reader, version)
        decoded.append(topic.name)
        return topic

    monkeypatch.setattr(TopicProduceData, "read", counted)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            for topic in ("first", "second"):
                await client.create_topic(topic, 3)
            for number in range(6):
                answer = await client.produce("first", batch(b"v" * number), partition=number % 3)
                assert (answer.index, answer.base_offset) == (number % 3, number // 3)
                await client.ask(MetadataRequest(), 4)
            assert decoded == ["first"] * 2, "a form is made of the second one"
            for _ in range(12):  # the eighth has a form again
                await client.produce("second", batch(b"v"))
            assert decoded == ["first"] * 2 + ["second"] * 8
            await client.produce("second", batch(b"v"), version=7)
            client.send(frame(produce_request("second", batch(b"v")), 8, client_id="other"))
            await client.receive()
            assert decoded == ["first"] * 2 + ["second"] * 10
            assert broker.services.metrics.requests["produce"] == 20

    run(scenario())


def test_a_handler_gets_every_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form gives requests back, and answers none: a rule of a handler, or of all, holds for the hundredth one too."""
    handled: list[bytes] = []
    of_first = produce.handle

    def counted(context: Any, request: Any) -> Any:
        handled.append(bytes(request.topic_data[0].partition_data[0].records[-4:]))
        return of_first(context, request)

    monkeypatch.setattr(produce, "handle", counted)
    route_of.cache_clear()  # routes are kept for the process

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            sent = []
            for number in range(100):
                records = batch(b"%d" % number)
                client.send(frame(produce_request("t", records), 8, correlation_id=number))
                sent.append(records[-4:])
                await client.receive()
            assert handled == sent

    try:
        run(scenario())
    finally:
        route_of.cache_clear()


def forms() -> int:
    """How many forms are remembered in this process."""
    return sum(isinstance(each, RequestForm) for each in gc.get_objects())


def test_bytes_behind_the_message_are_no_records(tmp_path: Path) -> None:
    """Such a request is not remembered, although its last bytes look like the size of records and records."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            inner = batch(b"inner")
            data = frame(produce_request("t", batch(b"outer" + struct.pack(">i", len(inner)) + inner)), 8)[4:] + bytes(
                9
            )
            for _ in range(3):
                client.send(struct.pack(">i", len(data)) + data)
                await client.receive()
            for records in (inner, batch(b"v")):
                await client.produce("t", records)
            stored = (await client.fetch("t")).responses[0].partitions[0].records
            assert [(value or b"")[:5] for value in values_of(stored)] == [b"outer"] * 3 + [b"inner", b"v"]

    run(scenario())


def test_connections_remember_short_requests_only_and_are_freed_when_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            (connection,) = broker.listeners[0].connections
            session = connection.session
            for client_id, is_remembered in (("long" * 1000, False), ("short", True)):
                for _ in range(9):
                    client.send(frame(produce_request("t", batch(b"v")), 8, client_id=client_id))
                    await client.receive()
                is_known = any(each.is_made for each in session.forms.values())
                assert is_known is is_remembered
            gc.collect()
            gc.disable()
            try:
                before = forms()
                del session, connection
                await client.close()
                await until(lambda: forms() < before)
            finally:
                gc.enable()

    run(scenario())


def test_each_answer_has_its_correlation_id_and_append_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", **LOG_APPEND_TIME)
            for number in range(5):
                client.send(frame(produce_request("t", batch(b"v")), 8, correlation_id=number + 7))
            for number in range(5):
                data = await client.receive()
                assert struct.unpack_from(">i", data) == (number + 7,)
                answer = client.decode(0, 8, struct.pack(">i", 1) + data[4:]).responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, number, 0)
                assert answer.log_append_time_ms > EPOCH_MS

    run(scenario())


def test_a_topic_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t")
            for _ in range(3):
                await client.produce("t", batch(b"old"))
            await admin.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 3)
            assert (await client.produce("t", batch(b"v"))).error_code == 3
            await admin.create_topic("t")
            assert [(await client.produce("t", batch(b"new"))).base_offset for _ in range(2)] == [0, 1]

    run(scenario())


def test_answers_wait_for_other_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"v"), acks=-1)).base_offset == 0
            replicas = broker.services.replica_manager
            partition = replicas.partitions[TopicPartition("t", 0)]
            partition.remotes[9] = RemoteReplica(9, broker.clock.now_ms())
            asked = asyncio.ensure_future(client.produce("t", batch(b"v"), acks=-1))
            await until(lambda: partition.log.log_end_offset == 2)
            assert not asked.done()
            partition.follower_fetched(9, 2, 0)
            replicas.purgatory.check(partition.topic_partition)
            assert (await asked).base_offset == 1

    run(scenario())
