"""A client that sends raw frames to a broker, and the frames and batches that it sends."""

import asyncio
import socket
import struct
from typing import Any
from uuid import UUID

from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.primitives import Reader, Writer
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.server.lifecycle.broker import BrokerServer

EPOCH_MS = 1_600_000_000_000


def frame(request: Any, version: int, *, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    """A request's bytes with their size."""
    writer = Writer()
    write_request_header(writer, RequestHeader(request.API_KEY, version, correlation_id, client_id))
    request.write(writer, version)
    body = writer.getvalue()
    return struct.pack(">i", len(body)) + body


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, broker: BrokerServer, listener: int = 0) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", broker.listeners[listener].endpoint.port))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> bytes:
        """A response frame without its size."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ask(self, request: Any, version: int) -> Any:
        self.send(frame(request, version))
        return self.decode(request.API_KEY, version, await self.receive())

    @staticmethod
    def decode(api_key: int, version: int, data: bytes) -> Any:
        reader = Reader(data)
        assert read_response_header(reader, api_key, version) == 1
        response = response_class(api_key).read(reader, version)
        reader.expect_end()
        return response

    async def is_closed(self) -> bool:
        """Wait until the broker closes the connection; False if it sends something instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return

    async def reset(self) -> None:
        """Reset the connection: after a plain close the client may still read, as far as the broker can tell."""
        at_once = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        await self.close()

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        configured = [CreatableTopicConfig(key.replace("__", "."), value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, 1, configs=configured)
        response = await self.ask(CreateTopicsRequest([topic], timeout_ms=5000), 5)
        assert [answer.error_code for answer in response.topics] == [0]

    async def topic_id(self, name: str) -> UUID:
        """Return the id of a topic."""
        response = await self.ask(MetadataRequest([MetadataRequestTopic(name=name)]), 12)
        topic_id: UUID = response.topics[0].topic_id
        return topic_id

    async def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = 1, version: int = 8
    ) -> PartitionProduceResponse:
        """Produce one batch and return the partition's answer."""
        response = await self.ask(produce_request(topic, records, partition=partition, acks=acks), version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def fetch(self, topic: str, offset: int = 0, *, version: int = 11, **fields: Any) -> FetchResponse:
        """Fetch one partition without a session."""
        response: FetchResponse = await self.ask(fetch_request(topic, offset, **fields), version)
        return response


def batch(*values: bytes | None, **fields: Any) -> bytes:
    """A record batch as a producer sends it."""
    records = [
        Record(offset=at, timestamp=EPOCH_MS + at, key=None, value=value, headers=()) for at, value in enumerate(values)
    ]
    return bytes(encode_batch(records, **fields))


def produce_request(
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = 1,
    transactional_id: str | None = None,
    topic_id: UUID = ZERO_UUID,
) -> ProduceRequest:
    """One batch; ``topic_id`` stands in place of the name from version 13 on."""
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])
    return ProduceRequest(transactional_id, acks, 1000, [data])


def fetch_request(topic: str, offset: int = 0, **fields: Any) -> FetchRequest:
    partition = FetchPartition(
        fields.pop("partition", 0),
        fields.pop("current_leader_epoch", -1),
        offset,
        partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
    )
    fields.setdefault("max_wait_ms", 0)
    fields.setdefault("min_bytes", 1)
    topic_id = fields.pop("topic_id", ZERO_UUID)  # in place of the name from version 13 on
    return FetchRequest(topics=[FetchTopic(topic, topic_id, [partition])], **fields)


def values_of(records: Any) -> list[bytes | None]:
    """The values of all whole batches."""
    assert records is not None
    return [
        record.value
        for position, header in iterate_headers(records)
        for record in read_records(bytes(records[position : position + header.size]), header)
    ]
