"""Bad input is answered with Kafka's error code, or its connection is closed; other clients are not affected."""

import logging
import ssl
import struct
from pathlib import Path

import pytest

from harness.client import Client, batch, frame, produce_request, values_of
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import PartitionProduceData
from kafkapy.protocol.reader import Reader
from kafkapy.records.batch import MAGIC_OFFSET, crc_of
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker


def tls_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


GOOD = frame(ApiVersionsRequest(), 0)
REQUEST_V8 = frame(produce_request("t", batch(b"v")), 8)

CLOSED = {
    "garbage": (b"\xff" * 64, "a frame of -1 bytes"),
    "tls hello": (tls_hello(), "a frame of 3692956"),
    "http": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "a frame of 1195725856 bytes"),
    "two gigabytes": (struct.pack(">i", 0x7FFFFFFF), "a frame of 2147483647 bytes"),
    "negative length": (struct.pack(">i", -5), "a frame of -5 bytes"),
    "empty frame": (struct.pack(">i", 0), "0 bytes"),
    "header only": (struct.pack(">ihhi", 8, 0, 8, 1), "client id"),
    "client id beyond the frame": (struct.pack(">ihhih", 10, 0, 8, 1, 500), "client id of 500"),
    "truncated body": (struct.pack(">i", len(REQUEST_V8) - 24) + REQUEST_V8[4:-20], "wanted at"),
    "count beyond the frame": (
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0x7FFFFFFF), "an array of 2147483647 elements",
    ),
    "negative count": (struct.pack(">ihhihhhii", 24, 0, 8, 1, -1, -1, 1, 1000, -7) + b"\0" * 2, "an array of -7"),
    "unknown key": (struct.pack(">ihhih", 10, 999, 0, 1, -1), "999"),
    "unknown version": (struct.pack(">ihhih", 10, 0, 99, 1, -1), "version 99"),
    "a version above 4.4's": (struct.pack(">ihhih", 10, 0, 14, 1, -1), "key 0 version 14"),
    "an inter-broker request": (struct.pack(">ihhihb", 11, 6, 6, 1, -1, 0), "key 6"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_bytes_that_are_no_request_close_the_connection_with_one_log_line(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, reason = CLOSED[name]
    caplog.set_level(logging.INFO, "kafkapy.network.connection")

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            other = await Client.connect(broker)
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
            caplog.clear()
            client = await Client.connect(broker)
            host, port = client.writer.get_extra_info("sockname")
            client.send(data)
            assert await client.is_closed()
            (line,) = [record.getMessage() for record in caplog.records if record.name == "kafkapy.network.connection"]
            assert f"{host}:{port}" in line
            assert reason in line
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
            assert broker.services.metrics.connections_failed == 1

    run(scenario())


def test_an_unknown_version_of_api_versions_is_answered_in_v0_with_its_own_versions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            client.send(struct.pack(">ihhihb", 11, 18, 77, 1, -1, 0))
            reader = Reader(await client.receive())
            assert reader.read_int32() == 1
            response = ApiVersionsResponse.read(reader, 0)
            assert response.error_code == 35
            assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 5)]
            assert (await client.ask(ApiVersionsRequest("test", "1"), 3)).error_code == 0

    run(scenario())


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


THREE = batch(b"a", b"b", b"c")
BATCHES = {
    "wrong crc": (changed(THREE, 17, b"\0\0\0\0"), 2),
    "a flipped bit in a record": (changed(THREE, len(THREE) - 2, b"\x55"), 2),
    "magic 1": (changed(THREE, MAGIC_OFFSET, b"\x01"), 87),
    "two batches": (THREE + THREE, 87),
    "a transactional batch without an id": (changed(THREE, 22, b"\x10"), 53),
    "a decompression bomb": (encode_batch([Record(b"", bytes(70_000_000))], compression=4), 10),
}
NO_BATCH = {
    "magic 9": (changed(THREE, MAGIC_OFFSET, b"\x09"), 2),
    "a negative size": (changed(THREE, 8, b"\xff\xff\xff\xff"), 2),
    "half a batch": (THREE[:40], 87),
    "nothing": (b"", 87),
    "null": (None, 87),
}
"""With the error of versions from 3 on, as of Apache Kafka 4.4.0, which never answers null."""


@pytest.mark.parametrize("name", NO_BATCH)
def test_records_without_a_whole_batch_are_refused_by_partition(name: str, tmp_path: Path) -> None:
    records, code = NO_BATCH[name]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            request = produce_request("t", batch(b"good"))
            request.topic_data[0].partition_data.append(PartitionProduceData(1, records))
            for version in (3, 8, 12):
                answer = await client.ask(request, version)
                assert [each.error_code for each in answer.responses[0].partition_responses] == [0, code]

    run(scenario())


@pytest.mark.parametrize("name", NO_BATCH)
def test_records_without_a_whole_batch_close_the_connection_before_anything_is_appended(
    name: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            request = produce_request("t", batch(b"good"))
            request.topic_data[0].partition_data.append(PartitionProduceData(1, NO_BATCH[name][0]))
            client.send(frame(request, 2))
            assert await client.is_closed()
            assert broker.services.replica_manager.partitions[TopicPartition("t", 0)].log.log_end_offset == 0

    run(scenario())


@pytest.mark.parametrize("name", BATCHES)
def test_a_bad_batch_gets_its_error_code_and_a_log_line_and_is_not_appended(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records, code = BATCHES[name]
    caplog.set_level(logging.INFO, "kafkapy.server.dispatch.context")

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            answer = await client.produce("t", records)
            assert (answer.error_code, answer.base_offset) == (code, -1)
            said = [
                record.getMessage() for record in caplog.records if record.name == "kafkapy.server.dispatch.context"
            ]
            assert len(said) == 1
            assert said[0].startswith("Refused records for t-0 of 127.0.0.1: ")
            assert said[0].endswith(f" (error {code})")
            assert (await client.produce("t", batch(b"good"))).base_offset == 0
            fetched = await client.fetch("t")
            assert values_of(fetched.responses[0].partitions[0].records) == [b"good"]

    run(scenario())


def lying(position: int, new: bytes) -> bytes:
    """THREE with other header bytes and a CRC that fits them."""
    data = bytearray(changed(THREE, position, new))
    data[17:21] = struct.pack(">I", crc_of(data, 0, len(data)))
    return bytes(data)


LIES = {
    "more records than there are": lying(57, struct.pack(">i", 4)),
    "fewer records than there are": lying(57, struct.pack(">i", 2)),
    "a negative count": lying(57, struct.pack(">i", -1)),
    "a last offset beyond the count": lying(23, struct.pack(">i", 100)),
    "a negative last offset": lying(23, struct.pack(">i", -1)),
    "a record longer than the batch": lying(61, b"\x7e"),
}


@pytest.mark.parametrize("name", LIES)
def test_batches_with_wrong_offsets_or_counts_are_refused(name: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", LIES[name])).error_code in (2, 87)
            assert broker.services.replica_manager.partitions[TopicPartition("t", 0)].log.log_end_offset == 0

    run(scenario())


TOPICS = {
    "an invalid name": (CreatableTopic("bad name!", 1, 1), 17),
    "an empty name": (CreatableTopic("", 1, 1), 17),
    "an unknown key": (CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("no.such.key", "1")]), 40),
    "an invalid value": (CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("segment.bytes", "soon")]), 40),
}


@pytest.mark.parametrize("name", TOPICS)
def test_invalid_topics_get_their_error_code_and_a_log_line(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, code = TOPICS[name]
    caplog.set_level(logging.INFO, "kafkapy.server.dispatch.context")

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            answer = await client.ask(CreateTopicsRequest([topic], 1000), 5)
            assert answer.topics[0].error_code == code
            (said,) = [
                record.getMessage() for record in caplog.records if record.name == "kafkapy.server.dispatch.context"
            ]
            assert said.startswith(f"Refused the creation of topic {topic.name!r} of 127.0.0.1: ")
            assert topic.name not in broker.services.metadata.image.topics

    run(scenario())


def test_acks_0_with_an_error_closes_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            client.send(frame(produce_request("nowhere", batch(b"v"), acks=0), 8))
            assert await client.is_closed()

    run(scenario())


def test_a_request_of_very_many_small_elements_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            # 5 million topics of empty names: two bytes each on the wire
            body = struct.pack(">hhihi", 3, 1, 1, -1, 5_000_000) + b"\0\0" * 5_000_000
            client.send(struct.pack(">i", len(body)) + body)
            assert await client.is_closed()
            again = await Client.connect(broker)
            assert (await again.ask(MetadataRequest(None), 1)).brokers

    run(scenario())
