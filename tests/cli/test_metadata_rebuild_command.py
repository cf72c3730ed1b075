"""A data directory whose metadata is lost: the error at a start, and ``kafkapy metadata rebuild``."""

import asyncio
import json
from pathlib import Path

import pytest

from harness.client import Client, batch
from kafkapy.metadata.store import StoreFileError
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.cli.conftest import Run
from tests.server.harness import running_broker

NAMES = ("kafkapy-metadata.sqlite", "kafkapy-metadata.journal")


async def _fill(path: Path) -> int:
    """Write three records of an idempotent producer; return its id."""
    async with running_broker(path, in_memory_metadata=False) as broker:
        client = await Client.connect(broker)
        await client.create_topic("t", 2)
        producer = await client.ask(InitProducerIdRequest(None, 60_000), 1)
        sent = batch(b"a", b"b", b"c", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0)
        assert (await client.produce("t", sent, partition=1, acks=-1)).error_code == 0
        await client.close()
        return int(producer.producer_id)


async def _end_offset(broker: BrokerServer) -> tuple[int, int]:
    client = await Client.connect(broker)
    asked = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(1, timestamp=-1)])])
    answer = (await client.ask(asked, 1)).topics[0].partitions[0]
    producer = await client.ask(InitProducerIdRequest(None, 60_000), 1)
    await client.close()
    assert answer.error_code == 0
    return int(answer.offset), int(producer.producer_id)


async def _started(path: Path) -> tuple[int, int]:
    async with running_broker(path, in_memory_metadata=False) as broker:
        return await _end_offset(broker)


def _files(path: Path) -> set[str]:
    return {each.name for each in (path / "data").iterdir()}


def test_lost_metadata_is_reported_and_rebuilt(run: Run, tmp_path: Path) -> None:
    producer_id = asyncio.run(_fill(tmp_path))
    for name in NAMES:
        (tmp_path / "data" / name).unlink()
    before = _files(tmp_path)
    with pytest.raises(StoreFileError, match=r"are missing or empty.*kafkapy metadata import.*metadata rebuild"):
        asyncio.run(_started(tmp_path))
    assert _files(tmp_path) == before
    planned = json.loads(run("metadata", "rebuild", "--data", f"{tmp_path}/data", "--dry-run", "--json").out)
    assert (planned["summary"]["topics"], planned["summary"]["partitions"]) == (1, 2)
    assert _files(tmp_path) == before
    done = run("metadata", "rebuild", "--data", f"{tmp_path}/data")
    assert (done.code, "configurations of topics" in done.err) == (0, True)
    end_offset, new_producer_id = asyncio.run(_started(tmp_path))
    assert end_offset == 3
    assert new_producer_id > producer_id
    refused = run("metadata", "rebuild", "--data", f"{tmp_path}/data")
    assert (refused.code, "It is rebuilt only if it is lost" in refused.err) == (1, True)


def test_a_start_with_empty_metadata_files_is_refused(tmp_path: Path) -> None:
    asyncio.run(_fill(tmp_path))
    (tmp_path / "data" / NAMES[0]).write_bytes(b"")
    (tmp_path / "data" / NAMES[1]).unlink()
    with pytest.raises(StoreFileError, match="are missing or empty"):
        asyncio.run(_started(tmp_path))


@pytest.mark.parametrize("damaged", [NAMES, NAMES[:1]])
def test_damaged_files_are_moved_aside(run: Run, tmp_path: Path, damaged: tuple[str, ...]) -> None:
    asyncio.run(_fill(tmp_path))
    for name in NAMES:
        (tmp_path / "data" / name).unlink()
    for name in damaged:
        (tmp_path / "data" / name).write_bytes(b"x" * 5000)
    with pytest.raises(StoreFileError, match="No copy of the cluster's metadata can be used"):
        asyncio.run(_started(tmp_path))
    assert run("metadata", "rebuild", "--data", f"{tmp_path}/data", "--dry-run").code == 0
    assert (tmp_path / "data" / NAMES[0]).read_bytes() == b"x" * 5000
    assert run("metadata", "rebuild", "--data", f"{tmp_path}/data").code == 0
    for name in damaged:
        assert (tmp_path / "data" / f"{name}.damaged").read_bytes() == b"x" * 5000
    assert asyncio.run(_started(tmp_path))[0] == 3


def test_a_directory_without_a_brokers_files_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run("metadata", "rebuild", "--data", f"{tmp_path}")
    assert (refused.code, "says whose they are" in refused.err) == (1, True)
