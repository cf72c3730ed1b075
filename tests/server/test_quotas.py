"""Clients that exceed a quota: throttle times, muted connections, and what survives a restart."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, produce_request
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import run, running_broker, until

MANY = 10_000


async def _limit(broker: BrokerServer, **limits: float) -> Client:
    """Limit the client id of ``Client``; return a connection."""
    client = await Client.connect(broker)
    changes = [OpData(key, value, False) for key, value in limits.items()]
    entry = RequestEntryData([EntityData("client-id", "test")], changes)
    answer = await client.ask(AlterClientQuotasRequest([entry], False), 0)
    assert answer.entries[0].error_code == 0
    await until(lambda: broker.services.quotas is not None)
    return client


async def _topic(client: Client) -> None:
    answer = await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000), 6)
    assert answer.topics[0].error_code == 0


def test_without_quotas_nothing_measures(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            assert broker.services.quotas is None

    run(scenario())


def test_credentials_of_a_user_switch_no_quotas_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin = broker.services.config_admin
            await admin.set_user_overrides("u", {"SCRAM-SHA-256": "salt=x"})
            await until(lambda: bool(admin.cached_user_overrides("u")))
            assert broker.services.quotas is None

    run(scenario())


def test_a_muted_connection_is_served_no_further_and_others_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await _limit(broker, producer_byte_rate=100_000)
            await _topic(client)
            start_s = time.monotonic()
            answer = await client.ask(produce_request("t", batch(bytes(1_040_000))), 8)
            assert 300 <= answer.throttle_time_ms <= 450
            other = await Client.connect(broker)
            other.send(frame(ApiVersionsRequest(), 2, client_id="other"))
            await other.receive()
            assert time.monotonic() - start_s < 0.25
            await client.ask(ApiVersionsRequest(), 2)
            assert time.monotonic() - start_s >= 0.3

    run(scenario())


def test_a_producer_without_answers_is_muted_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await _limit(broker, producer_byte_rate=100_000)
            await _topic(client)
            request = produce_request("t", batch(bytes(1_040_000)))
            request.acks = 0
            start_s = time.monotonic()
            client.send(frame(request, 8))
            await client.ask(ApiVersionsRequest(), 2)
            assert time.monotonic() - start_s >= 0.3

    run(scenario())


def test_a_fetch_above_the_quota_has_no_records_and_leaves_its_session_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await _limit(broker, consumer_byte_rate=100_000)
            await _topic(client)
            for _ in range(3):
                await client.ask(produce_request("t", batch(bytes(520_000))), 8)
            opened = await client.ask(fetch_request("t", 0, session_epoch=0, partition_max_bytes=520_100), 11)
            assert len(opened.responses[0].partitions[0].records) > 0
            wanted: dict[str, Any] = {"session_id": opened.session_id, "partition_max_bytes": 520_100}
            throttled = await client.ask(fetch_request("t", 1, session_epoch=1, **wanted), 11)
            assert (throttled.responses, throttled.session_id) == ([], opened.session_id)
            assert 0 < throttled.throttle_time_ms <= 450
            again = await client.ask(fetch_request("t", 1, session_epoch=2, **wanted), 11)
            assert len(again.responses[0].partitions[0].records) > 0

    run(scenario())


def test_a_request_that_comes_later_or_in_steps_is_measured(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, quota__window__size__seconds="1") as broker:
            client = await _limit(broker, request_percentage=1e-9)
            waits = await client.ask(fetch_request("nothing", 0, max_wait_ms=50), 11)
            assert waits.throttle_time_ms == 1000
            start_s = time.monotonic()
            described = await client.ask(MetadataRequest(None), 8)
            assert described.throttle_time_ms == 1000
            assert time.monotonic() - start_s >= 0.9

    run(scenario())


def test_a_client_that_leaves_while_it_is_muted_is_closed_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await _limit(broker, request_percentage=1e-9)
            await client.ask(ApiVersionsRequest(), 2)
            client.writer.transport.abort()
            await until(lambda: not broker.listeners[0].connections)

    run(scenario())


@pytest.mark.parametrize(("version", "code"), [(6, 89), (5, 0)])
def test_changes_of_topics_above_the_quota(version: int, code: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await _limit(broker, controller_mutation_rate=5)
            first = await client.ask(CreateTopicsRequest([CreatableTopic("a", 56, 1)], 10_000), 6)
            assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
            second = await client.ask(CreateTopicsRequest([CreatableTopic("b", 1, 1)], 10_000), version)
            assert second.topics[0].error_code == code
            assert 0 < second.throttle_time_ms <= 400
            deleted = await client.ask(DeleteTopicsRequest(topic_names=["a", "missing"], timeout_ms=10_000), 5)
            assert [each.error_code for each in deleted.responses] == [0, 3]
            refused = await client.ask(DeleteTopicsRequest(topic_names=["b"], timeout_ms=10_000), 5)
            assert [each.error_code for each in refused.responses] == [3 if code else 89]

    run(scenario())


def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            await _limit(broker, request_percentage=1e-9)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            answer = await (await Client.connect(broker)).ask(ApiVersionsRequest(), 2)
            assert answer.throttle_time_ms == 1000

    run(scenario())


def test_static_defaults_hold_for_client_ids(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, quota__producer__default="1000") as broker:
            client = await Client.connect(broker)
            await _topic(client)
            answer = await client.ask(produce_request("t", batch(bytes(10_100))), 8)
            assert 100 <= answer.throttle_time_ms <= 400

    run(scenario())


def test_many_entities_and_keys_delay_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            named = [
                RequestEntryData([EntityData("user", f"{number}")], [OpData("producer_byte_rate", 1e9, False)])
                for number in range(MANY // 10)
            ]
            removed = [OpData(f"{number}", 1.0, True) for number in range(MANY)]
            odd = RequestEntryData([EntityData("user", "odd")], removed)
            small = RequestEntryData([EntityData("user", "odd")], removed[:1])
            request = AlterClientQuotasRequest([*named, odd, *[small] * MANY], False)
            task = asyncio.ensure_future(client.ask(request, 0))
            delays = []
            while not task.done():
                start_s = time.monotonic()
                await other.ask(ApiVersionsRequest(), 2)
                delays.append(time.monotonic() - start_s)
            assert {each.error_code for each in (await task).entries} == {0}
            assert max(delays) < 1

    run(scenario())
