"""Old versions of Fetch: batches of newer formats are converted, cut or refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import EPOCH_MS, Client, batch, fetch_request, frame, values_of
from kafkapy.protocol.messages.fetch import FetchPartition as Wanted
from kafkapy.protocol.messages.fetch import FetchRequest, FetchTopic
from kafkapy.records.batch import HEADER_SIZE, iterate_headers
from kafkapy.records.convert import convert
from kafkapy.records.record import STEP_RECORDS, Record, encode_legacy
from kafkapy.replication.fetching import PartitionRead
from kafkapy.server.handlers.shared.fetch_versions import fit
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until

PLACE = TopicPartition("t", 0)


def only(response: Any) -> Any:
    return response.responses[0].partitions[0]


def magics(records: Any) -> list[int]:
    return [header.magic for _, header in iterate_headers(records)]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_each_version_gets_a_format_that_it_knows(version: int, magic: int, codec: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            sent = batch(b"a" * 100, b"b" * 100, compression=codec)
            await client.produce("t", sent)
            await client.produce("t", batch(b"c" * 100))
            records = only(await client.fetch("t", version=version)).records
            assert set(magics(records)) == {magic}
            assert values_of(records) == [b"a" * 100, b"b" * 100, b"c" * 100]
            if magic < 2:
                assert bytes(records[: len(convert(sent, magic))]) == convert(sent, magic)

    run(scenario())


@pytest.mark.parametrize("version", range(5))
def test_batches_of_a_known_format_are_sent_unchanged(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", message__format__version="0.9.0")
            await client.produce("t", batch(b"a", b"b"))
            records = only(await client.fetch("t", version=version)).records
            wanted = [Record(None, value, -1, (), at) for at, value in enumerate((b"a", b"b"))]
            assert bytes(records) == encode_legacy(wanted, 0)

    run(scenario())


def test_other_requests_are_served_while_a_large_batch_is_converted(tmp_path: Path) -> None:
    """At most some hundreds of records are converted at a time, before the answer begins and while it is sent."""
    large = [batch(*[b""] * 20 * STEP_RECORDS, compression=codec) for codec in (1, 0)]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            for each in large:
                assert (await client.produce("t", each)).error_code == 0
            client.send(frame(fetch_request("t"), 3))
            answer = asyncio.ensure_future(client.receive())
            turns = 0
            while not answer.done():
                assert only(await other.fetch("t", 40 * STEP_RECORDS)).error_code == 0
                turns += 1
            records = only(Client.decode(1, 3, answer.result())).records
            assert bytes(records).startswith(convert(large[0], 1))
            assert turns > 2  # one before each of the two batches, if they were converted in one go

    run(scenario())


def test_a_connection_that_is_lost_ends_its_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, lost = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            lost.send(frame(fetch_request("t", min_bytes=1, max_wait_ms=60_000), 1))
            purgatory = broker.services.replica_manager.purgatory
            await until(lambda: len(purgatory) == 1)
            await lost.close()
            await until(lambda: len(purgatory) == 0)
            await client.produce("t", batch(b"a"))
            assert values_of(only(await client.fetch("t", version=1)).records) == [b"a"]

    run(scenario())


def test_a_waiting_fetch_of_an_old_client_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            client.send(frame(fetch_request("t", min_bytes=1, max_wait_ms=60_000), 1))
            await other.produce("t", batch(b"a"))
            assert magics(only(Client.decode(1, 1, await client.receive())).records) == [0]

    run(scenario())


async def _filled(client: Client, **configs: str) -> None:
    await client.create_topic("t", partitions=2, **configs)
    await client.produce("t", batch(b"v" * 500))
    await client.produce("t", batch(b"w" * 500))


def test_refusals(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await _filled(client, message__downconversion__enable="false")
            for version in range(4):
                found = only(await client.fetch("t", version=version))
                assert (found.error_code, found.high_watermark, bytes(found.records)) == (35, -1, b"")
            assert only(await client.fetch("t", partition=1, version=3)).error_code == 0
            assert only(await client.fetch("t", 9, version=3)).error_code == 1
            assert only(await client.fetch("nowhere", version=3)).error_code == 3
            await client.create_topic("z")
            await client.produce("z", batch(b"a", compression=4))
            assert only(await client.fetch("z", version=3)).error_code == 76
            assert values_of(only(await client.fetch("z", version=4)).records) == [b"a"]
            await client.create_topic("zz", compression__type="zstd")
            assert [only(await client.fetch("zz", version=version)).error_code for version in (0, 9, 10)] == [76, 76, 0]

    run(scenario())


def test_up_to_version_2_a_batch_is_cut_at_the_limits(tmp_path: Path) -> None:
    """From version 3 on the batch is whole, however small the limit."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await _filled(client)
            for version in (0, 2):
                cut = only(await client.fetch("t", version=version, partition_max_bytes=100)).records
                assert (len(cut), magics(cut)) == (100, [])
                assert bytes(only(await client.fetch("t", version=version, partition_max_bytes=0)).records) == b""
            assert magics(only(await client.fetch("t", version=3, partition_max_bytes=100)).records) == [1]
            await client.produce("t", batch(b"x" * 500), partition=1)
            wanted = [Wanted(at, partition_max_bytes=300) for at in range(2)]
            answer = await client.ask(FetchRequest(max_wait_ms=0, topics=[FetchTopic("t", partitions=wanted)]), 2)
            assert [len(each.records) for each in answer.responses[0].partitions] == [300, 300]

    run(scenario())


def test_an_old_client_gets_the_beginning_of_an_entry_in_place_of_control_batches(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            _append_marker(broker)
            found = only(await client.fetch("t", version=1))
            nothing = b"\xff" * 8 + HEADER_SIZE.to_bytes(4, "big")
            assert (found.error_code, found.high_watermark, bytes(found.records)) == (0, 1, nothing)

    run(scenario())


def _append_marker(broker: BrokerServer) -> None:
    from kafkapy.records.control import ControlType, Marker, encode_marker

    records = bytearray(encode_marker(ControlType.COMMIT, Marker(7, 0, 0), EPOCH_MS))
    broker.services.replica_manager.append(PLACE, records, from_client=False)


def test_errors_that_old_clients_do_not_know(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            replicas = broker.services.replica_manager
            failed = [PartitionRead(PLACE, error_code=56)]
            codes = [fit(replicas, version, failed)[0].error_code for version in (3, 5, 6, 9)]
            assert codes == [6, 6, 56, 56]

    run(scenario())
