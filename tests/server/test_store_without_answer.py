"""Requests while the disk of the embedded store refuses changes: each is answered in time, with its error."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client
from kafkapy.metadata.sqlite_file import SqliteFile
from kafkapy.metadata.store import CLIENT_WAIT_MS, StoreFileError
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, until

TIMEOUT_MS = 3_000
FIRST = CreateTopicsRequest([CreatableTopic("first", 1, 1)], timeout_ms=TIMEOUT_MS)
MOVE = ReassignableTopic("there", [ReassignablePartition(0, [0])])
SHORTER = AlterConfigsResource(2, "there", [AlterableConfig("retention.ms", 0, "1000")])

CASES: list[tuple[Any, int, Callable[[Any], int], int, int]] = [
    (FIRST, 5, lambda a: a.topics[0].error_code, 7, TIMEOUT_MS),
    (
        CreatePartitionsRequest([CreatePartitionsTopic("there", 2, None)], TIMEOUT_MS),
        1,
        lambda a: a.results[0].error_code,
        7,
        TIMEOUT_MS,
    ),
    (
        DeleteTopicsRequest(topic_names=["there"], timeout_ms=TIMEOUT_MS),
        3,
        lambda a: a.responses[0].error_code,
        7,
        3_000,
    ),
    (IncrementalAlterConfigsRequest([SHORTER]), 0, lambda a: a.responses[0].error_code, 7, CLIENT_WAIT_MS),
    (
        DescribeConfigsRequest([DescribeConfigsResource(2, "there", None)]),
        1,
        lambda a: a.results[0].error_code,
        7,
        CLIENT_WAIT_MS,
    ),
    (InitProducerIdRequest(None, 1_000), 2, lambda a: a.error_code, 14, CLIENT_WAIT_MS),
    (FindCoordinatorRequest("group"), 1, lambda a: a.error_code, 15, CLIENT_WAIT_MS),
    (
        MetadataRequest([MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True),
        4,
        lambda a: a.topics[0].error_code,
        5,
        CLIENT_WAIT_MS,
    ),
    (
        AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[MOVE]),
        0,
        lambda a: a.error_code,
        7,
        TIMEOUT_MS,
    ),
]


def test_every_request_is_answered_in_time_while_the_disk_refuses_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise StoreFileError("the disk refuses")

    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, in_memory_metadata=False) as broker:
            client, store = await Client.connect(broker), broker._own_store
            assert store is not None
            await client.create_topic("there")
            with monkeypatch.context() as patched:
                patched.setattr(SqliteFile, "write", refused)
                for request, version, code_of, code, limit_ms in CASES:
                    timers = clock.pending_timers()
                    asked = asyncio.ensure_future(client.ask(request, version))
                    await until(lambda: clock.pending_timers() > timers)  # noqa: B023  # of this request
                    if request is FIRST:
                        await until(lambda: store._retry.is_waiting)
                    clock.advance(limit_ms - 1)
                    await until(lambda: store._retry.is_waiting)
                    assert not asked.done(), request
                    clock.advance(1)
                    assert code_of(await asked) == code, request
                    await until(lambda: store._retry.is_waiting)
            while not store.is_available:
                clock.advance(1_000)
                await asyncio.sleep(0)
            await until(lambda: "first" in broker.services.metadata.image.topics)
            # The first one waited for the commit. The others had not changed anything when they were given up.
            assert sorted(await broker.services.store.children("/brokers/topics")) == ["first", "there"]
            assert await broker.services.config_admin.topic_overrides("there") == {}

    run(scenario())
