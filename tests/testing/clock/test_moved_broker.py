"""The effects of ``MovingClock.advance`` on a broker, seen by clients on the wire; no test sleeps."""

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.client import Client, fetch_request, frame, produce_request, values_of
from kafkapy.clock import SystemClock
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, encode_batch
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.clock.stamped_files import StampedFiles
from kafkapy.turns import finish
from tests.server.harness import run, running_broker, until

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BACKOFF_MS = 15_000


@asynccontextmanager
async def _moved(path: Path, **keys: Any) -> Any:
    clock = MovingClock()
    hooks = Hooks(connection_clock=SystemClock(), files=StampedFiles(clock))
    async with running_broker(path, clock=clock, hooks=hooks, **keys) as broker:
        client = await Client.connect(broker)
        yield broker, clock, client
        await client.close()


def _batch(*records: tuple[bytes | None, bytes | None], clock: MovingClock) -> bytes:
    now_ms = clock.now_ms()
    made = [Record(key, value, now_ms, (), at) for at, (key, value) in enumerate(records)]
    return bytes(encode_batch(made))


async def _start_offset(client: Client, topic: str) -> int:
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -2)])])
    answer = await client.ask(request, 5)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def test_retention(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path) as (_, clock, client):
            await client.create_topic("t", retention__ms=str(7 * DAY_MS))
            await client.produce("t", _batch((None, b"x"), clock=clock))
            clock.advance(7 * DAY_MS - HOUR_MS)
            assert await _start_offset(client, "t") == 0
            clock.advance(2 * HOUR_MS)
            assert await _start_offset(client, "t") == 1
            assert any((tmp_path / "data" / "t-0").glob("*.deleted"))
            clock.advance(60_000)
            await until(lambda: not any((tmp_path / "data" / "t-0").glob("*.deleted")))

    run(scenario())


def test_compaction_lag_and_the_time_that_deletion_markers_stay(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path) as (_, clock, client):
            settings = {"min__cleanable__dirty__ratio": "0.0001", "segment__bytes": "300"}
            lag = {"min__compaction__lag__ms": str(DAY_MS), "delete__retention__ms": str(5 * DAY_MS)}
            await client.create_topic("t", cleanup__policy="compact", **settings, **lag)
            await client.produce("t", _batch((b"k", b"old" * 50), clock=clock))
            await client.produce("t", _batch((b"gone", b"x" * 150), clock=clock))
            await client.produce("t", _batch((b"k", b"new" * 50), (b"gone", None), clock=clock))
            await client.produce("t", _batch((b"z", b"z" * 150), clock=clock))
            clock.advance(HOUR_MS)
            assert await _values(client) == [b"old" * 50, b"x" * 150, b"new" * 50, None, b"z" * 150]
            clock.advance(DAY_MS)
            await _until_values(clock, client, [b"new" * 50, None, b"z" * 150])
            clock.advance(2 * DAY_MS)
            for value in (b"y" * 150, b"v" * 150, b"w" * 150):
                await client.produce("t", _batch((b"y", value), clock=clock))
            clock.advance(2 * DAY_MS)
            await _until_values(clock, client, [b"new" * 50, None, b"z" * 150, b"v" * 150, b"w" * 150])
            await client.produce("t", _batch((b"y", b"u" * 150), clock=clock))
            clock.advance(2 * DAY_MS)
            await client.produce("t", _batch((b"q", b"q" * 150), clock=clock))  # else there may be nothing to compact
            await _until_values(clock, client, [b"new" * 50, b"z" * 150, b"u" * 150, b"q" * 150])

    async def _values(client: Client) -> list[bytes | None]:
        found: list[bytes | None] = []
        offset = 0
        while True:
            records = (await client.fetch("t", offset)).responses[0].partitions[0].records
            if not records:
                return found
            found += values_of(records)
            offset = 1 + max(header.last_offset for _, header in iterate_headers(bytes(records)))

    async def _until_values(clock: MovingClock, client: Client, wanted: list[bytes | None]) -> None:
        deadline_s = time.monotonic() + 15
        while True:
            found = await _values(client)
            if found == wanted:
                return
            assert time.monotonic() < deadline_s, [value and value[:5] for value in found]
            clock.advance(BACKOFF_MS)  # the cleaner runs again, since its input may first have to be flushed
            await asyncio.sleep(0.05)

    run(scenario())


def _join(member_id: str, instance_id: str, *, rebalance_timeout_ms: int = 300_000) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest("g", 30_000, rebalance_timeout_ms, member_id, instance_id, "consumer", protocols)


async def _heartbeat(client: Client, member_id: str, instance_id: str, generation: int = 1) -> int:
    answer = await client.ask(HeartbeatRequest("g", generation, member_id, instance_id), 3)
    code: int = answer.error_code
    return code


def test_session_time_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path) as (_, clock, client):
            await client.ask(FindCoordinatorRequest("g"), 2)
            member_id = (await client.ask(_join("", "one"), 5)).member_id
            clock.advance(29_000)
            assert await _heartbeat(client, member_id, "one") == 0
            clock.advance(29_000)
            assert await _heartbeat(client, member_id, "one") == 0
            clock.advance(31_000)
            assert await _heartbeat(client, member_id, "one") == 25

    run(scenario())


def test_rebalance_time_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path) as (broker, clock, client):
            await client.ask(FindCoordinatorRequest("g"), 2)
            first = (await client.ask(_join_dynamic(""), 5)).member_id
            first = (await client.ask(_join_dynamic(first), 5)).member_id
            other = await Client.connect(broker)
            second = (await other.ask(_join_dynamic(""), 5)).member_id
            other.send(frame(_join_dynamic(second), 5))
            describe = broker.services.group_coordinator.describe_group
            await until(lambda: len(finish(describe("g")).members) == 2)
            clock.advance(11_000)
            answer = Client.decode(11, 5, await other.receive())
            assert (answer.error_code, answer.leader) == (0, second)
            assert first not in [member.member_id for member in finish(describe("g")).members]
            await other.close()

    def _join_dynamic(member_id: str) -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        return JoinGroupRequest("g", 30_000, 10_000, member_id, None, "consumer", protocols)

    run(scenario())


def test_transaction_time_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        keys = {"transaction__state__log__num__partitions": "1"}
        async with _moved(tmp_path, **keys) as (broker, clock, client):
            await client.create_topic("t")
            await client.ask(FindCoordinatorRequest("id", 1), 2)
            given = await client.ask(InitProducerIdRequest("id", 60_000), 2)
            topics = [AddPartitionsToTxnTopic("t", [0])]
            added = await client.ask(AddPartitionsToTxnRequest([], "id", given.producer_id, 0, topics), 2)
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
            records = bytes(
                encode_batch([Record(None, b"x", clock.now_ms(), (), 0)], producer_id=given.producer_id,
                             producer_epoch=0, base_sequence=0, is_transactional=True)
            )  # fmt: skip
            await client.ask(produce_request("t", records, transactional_id="id"), 8)
            log = broker.services.replica_manager.partition(("t", 0)).log
            assert log.last_stable_offset == 0
            clock.advance(59_000)
            assert log.last_stable_offset == 0
            clock.advance(12_000)
            await until(lambda: log.last_stable_offset == 2)
            assert (await client.fetch("t", isolation_level=1)).responses[0].partitions[0].aborted_transactions

    run(scenario())


def test_offset_expiry(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path, offsets__retention__minutes="1440") as (_, clock, client):
            await client.create_topic("t")
            await client.ask(FindCoordinatorRequest("g"), 2)
            partition = OffsetCommitRequestPartition(0, 5)
            commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
            assert (await client.ask(commit, 7)).topics[0].partitions[0].error_code == 0
            wish = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])])

            async def committed() -> int:
                offset: int = (await client.ask(wish, 5)).topics[0].partitions[0].committed_offset
                return offset

            clock.advance(DAY_MS - HOUR_MS)
            assert await committed() == 5
            clock.advance(HOUR_MS + 600_000)
            assert await committed() == -1

    run(scenario())


def test_a_waiting_fetch_ends_with_the_clock(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path) as (broker, clock, client):
            await client.create_topic("t")
            client.send(frame(fetch_request("t", max_wait_ms=600_000), 11))
            await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
            clock.advance(600_000)
            assert Client.decode(1, 11, await client.receive()).responses[0].partitions[0].error_code == 0

    run(scenario())


def test_idle_connections_are_measured_by_the_machines_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _moved(tmp_path, connections__max__idle__ms="60000") as (broker, clock, client):
            clock.advance(DAY_MS)
            clock.advance(DAY_MS)
            await client.create_topic("t")
            assert broker.services.metrics.idle_closed == 0

    run(scenario())
