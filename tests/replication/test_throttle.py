"""Throttled replication on the leader and on the follower, with a clock that is moved by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.client import batch as batch_of
from harness.client import values_of
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.replication.fetching import FetchLimits, FetchWish
from kafkapy.replication.quota import UNLIMITED
from kafkapy.replication.throttle import ReplicationThrottles, throttled_partitions
from kafkapy.testing.clock import ManualClock
from kafkapy.testing.clock.moving import MovingClock
from tests.replication.brokers import TP, Brokers, brokers
from tests.replication.leader import BACKOFF_MS, Pair, throttles
from tests.replication.logs import ME, Node, batch
from tests.replication.reading import fetch, read_all
from tests.server.harness import run as run_cluster

FOLLOWER = 2
SIZE = len(batch())
AS_FOLLOWER = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, replica_id=FOLLOWER)
WISH = {TP: FetchWish(0, 1 << 20)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("*",), [0, 1, 2]),
        (("*", "0:7"), [0, 1, 2]),
        (("0:1", "1:2", "2:1"), [0, 2]),
        (("1:1", "1:1"), [1]),
        (("0:2",), []),
        (("", "1:1"), [1]),
        ((" 1:1 ", "02:01"), [1, 2]),
        (("2147483648:1", "1:2147483648"), []),
        (("9" * 5000 + ":1", "1:" + "9" * 5000), []),
        (("0" * 5000 + "1:" + "0" * 5000 + "1",), [1]),
    ],
)
def test_the_names_of_throttled_replicas(names: tuple[str, ...], expected: list[int]) -> None:
    is_throttled = throttled_partitions(names, broker_id=1)
    assert [index for index in range(3) if is_throttled(index)] == expected


def test_a_name_without_a_number_is_no_partition_zero_of_broker_zero() -> None:
    assert not throttled_partitions(("", " "), broker_id=0)(0)
    assert throttled_partitions(("0:0",), broker_id=0)(0)


def test_limits_are_those_of_the_broker_itself() -> None:
    config = BrokerConfig.from_properties({"broker.id": "1", "replication.quota.window.num": "2"})
    clock = ManualClock()
    made = ReplicationThrottles(config, clock)
    assert (made.leader.quota.limit, made.follower.quota.limit) == (UNLIMITED, UNLIMITED)
    rates = {"leader.replication.throttled.rate": "100", "follower.replication.throttled.rate": "200"}
    config.update_dynamic(cluster_default=rates)
    made.broker_config_changed(None, rates)
    assert (made.leader.quota.limit, made.follower.quota.limit) == (UNLIMITED, UNLIMITED)
    config.update_dynamic(per_broker=rates)
    made.broker_config_changed(1, rates)
    assert (made.leader.quota.limit, made.follower.quota.limit) == (100, 200)
    made.broker_config_changed(None, {})
    assert (made.leader.quota.limit, made.follower.quota.limit) == (100, 200)
    assert ReplicationThrottles(config, clock).follower.quota.limit == 200
    made.leader.quota.record(150)
    assert made.leader.quota.is_exceeded
    assert not made.follower.quota.is_exceeded
    clock.advance(2000)  # both windows
    assert made.leader.quota.bytes_per_second == 0
    config.update_dynamic(per_broker={})
    made.broker_config_changed(1, {})
    assert made.leader.quota.limit == UNLIMITED


def _throttled_leader(path: Path, limit: int, isr: tuple[int, ...] = (ME,)) -> tuple[Node, ReplicationThrottles]:
    node = Node(path, LogConfig(leader_replication_throttled_replicas=(f"0:{ME}",)))
    made = throttles(ME, node.clock)
    made.leader.quota.limit = limit
    node.replicas.throttle_by(made.leader)
    node.partition(isr=isr, replicas=(ME, FOLLOWER))
    node.replicas.append(TP, batch())
    return node, made


def _read(node: Node, limits: FetchLimits = AS_FOLLOWER) -> int:
    """Fetch and answer; return the bytes of records."""
    reads = read_all(node.replicas, WISH, limits)
    assert [read.error_code for read in reads] == [0]
    node.replicas.count_throttled_bytes([(read.topic_partition, len(read.records)) for read in reads])
    return len(reads[0].records)


def test_a_leader_answers_without_records_while_the_rate_is_above_its_limit(tmp_path: Path) -> None:
    node, _ = _throttled_leader(tmp_path, limit=SIZE // 2)
    assert [_read(node), _read(node)] == [SIZE, 0]
    node.clock.advance(1500)
    assert _read(node) == 0
    node.clock.advance(8000)  # the fields around the records, which count too, are few bytes
    assert _read(node) == SIZE


def test_the_offset_of_a_throttled_follower_is_noted(tmp_path: Path) -> None:
    node, _ = _throttled_leader(tmp_path, limit=0)
    partition = node.replicas.partitions[TP]
    assert _read(node) == SIZE
    assert partition.remotes[FOLLOWER].log_end_offset == 0
    (read,) = read_all(node.replicas, {TP: FetchWish(1, 1 << 20)}, AS_FOLLOWER)
    assert (len(read.records), partition.remotes[FOLLOWER].log_end_offset) == (0, 1)


def test_replicas_in_sync_and_consumers_are_not_throttled_but_replicas_count(tmp_path: Path) -> None:
    node, made = _throttled_leader(tmp_path, limit=1, isr=(ME, FOLLOWER))
    assert [_read(node) for _ in range(3)] == [SIZE] * 3
    assert made.leader.quota.bytes_per_second > 3 * SIZE
    node.replicas.partitions[TP].advance_high_watermark()
    follower_has_it = AS_FOLLOWER._replace(replica_id=FOLLOWER)
    read_all(node.replicas, {TP: FetchWish(1, 1 << 20)}, follower_has_it)
    assert _read(node, AS_FOLLOWER._replace(replica_id=-1)) == SIZE


def test_other_partitions_are_not_throttled_and_do_not_count(tmp_path: Path) -> None:
    node, made = _throttled_leader(tmp_path, limit=1000)
    node.config = LogConfig(leader_replication_throttled_replicas=("1:1", "0:2"))
    node.replicas.partitions[TP].log.update_config(node.config)
    for _ in range(10):
        node.replicas.append(TP, batch(10))
        assert _read(node) > SIZE
    assert made.leader.quota.bytes_per_second < 10 * SIZE


def test_a_throttled_fetch_waits_and_gets_the_records_when_the_rate_has_fallen(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, made = _throttled_leader(tmp_path, limit=SIZE)
        made.leader.quota.record(2 * SIZE)
        late = fetch(node.replicas, WISH, AS_FOLLOWER, lambda reads: [len(read.records) for read in reads])
        assert isinstance(late, asyncio.Future)
        node.replicas.append(TP, batch())
        assert not late.done()
        node.clock.advance(500)
        assert late.result() == [0]
        node.clock.advance(1400)
        waiting = fetch(node.replicas, WISH, AS_FOLLOWER, lambda reads: [len(read.records) for read in reads])
        assert isinstance(waiting, asyncio.Future)
        node.clock.advance(499)
        node.replicas.append(TP, batch())  # the rate is SIZE now, so the records count again
        assert waiting.result() == [3 * SIZE]

    asyncio.run(scenario())


def test_a_new_segment_does_not_end_the_waiting_of_a_throttled_fetch(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, made = _throttled_leader(tmp_path, limit=0)
        made.leader.quota.record(1)
        late = fetch(node.replicas, WISH, AS_FOLLOWER, lambda reads: [len(read.records) for read in reads])
        assert isinstance(late, asyncio.Future)
        node.replicas.partitions[TP].log.roll()
        node.replicas.append(TP, batch())
        assert not late.done()
        late.cancel()

    asyncio.run(scenario())


# the follower

THROTTLED = LogConfig(follower_replication_throttled_replicas=(f"0:{ME}",))


def run(tmp_path: Path, scenario: Callable[[Pair], Awaitable[None]], config: LogConfig = THROTTLED) -> None:
    async def limited() -> None:
        pair = Pair(tmp_path, config)
        pair.leader.lead(isr=(2,))
        await asyncio.wait_for(scenario(pair), 20)
        pair.fetchers.close()
        await pair.settle()

    asyncio.run(limited())


def fetches(pair: Pair) -> int:
    return sum(isinstance(request, FetchRequest) for request in pair.leader.requests)


def test_a_follower_fetches_nothing_while_the_rate_is_above_its_limit(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        quota = pair.throttles.follower.quota
        quota.limit = SIZE
        quota.record(3 * SIZE)
        pair.leader.append()
        pair.follow()
        await pair.settle()
        assert (pair.ends, fetches(pair)) == ((0, 0, 0), 0)
        for _ in range(2):
            pair.clock.advance(BACKOFF_MS)
            await pair.settle()
        assert fetches(pair) == 0
        pair.clock.advance(BACKOFF_MS)  # three seconds
        await pair.settle()
        assert pair.ends[2] == 1
        assert quota.bytes_per_second == 4 * SIZE / 3

    run(tmp_path, scenario)


def test_a_follower_that_has_all_is_not_throttled(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.follow()
        await pair.settle()
        pair.clock.advance(500)
        await pair.settle()
        assert pair.ends == (0, 1, 1)
        quota = pair.throttles.follower.quota
        quota.limit = 0
        assert quota.is_exceeded
        pair.leader.append(2)
        await pair.settle()
        assert pair.ends[2] == 3  # a fetch was waiting
        for _ in range(3):
            pair.leader.append()
            pair.clock.advance(500)
            await pair.settle()
        assert pair.ends[2] == 6
        assert pair.leader.log.high_watermark == 6

    run(tmp_path, scenario)


def test_other_partitions_are_fetched_and_do_not_count(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        quota = pair.throttles.follower.quota
        quota.limit = 0
        quota.record(1)
        pair.leader.append()
        pair.follow()
        await pair.settle()
        assert pair.ends[2] == 1
        assert quota.bytes_per_second == 1

    run(tmp_path, scenario, LogConfig(follower_replication_throttled_replicas=("1:1", "0:2")))


# changes of the configuration

TOPIC, BROKER = 2, 4
"""The kinds of resources."""


async def _alter(cluster: Brokers, kind: int, name: str, **configs: str | None) -> None:
    """Set keys (with ``__`` for each dot), or with None delete them; returns when the broker has them."""
    changes = [
        AlterableConfig(key.replace("__", "."), 1 if value is None else 0, value) for key, value in configs.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)])
    response = await (await cluster.client(int(name) if kind == BROKER else 1)).ask(request, 1)
    assert [each.error_code for each in response.responses] == [0], response.responses[0].error_message


def test_configurations_take_effect_while_the_broker_runs(tmp_path: Path) -> None:
    clock = MovingClock()

    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, clock=clock) as cluster:
            await cluster.create_topic(1, 2)
            await cluster.stop(2)
            await cluster.in_sync(1)
            assert (await cluster.produce(1, batch_of(b"v"), acks=1)).error_code == 0
            client = await cluster.client(1)

            async def fetched() -> list[bytes | None]:
                response = await client.fetch("t", replica_id=2, session_epoch=-1)
                (found,) = response.responses[0].partitions
                assert (found.error_code, found.high_watermark) == (0, 1)
                return values_of(found.records)

            await _alter(cluster, BROKER, "1", leader__replication__throttled__rate="1")
            assert [await fetched() for _ in range(3)] == [[b"v"]] * 3  # the topic is not throttled
            clock.advance(12_000)
            await _alter(cluster, TOPIC, "t", leader__replication__throttled__replicas="0:1")
            assert [await fetched() for _ in range(3)] == [[b"v"], [], []]
            clock.advance(12_000)
            assert [await fetched() for _ in range(2)] == [[b"v"], []]
            await _alter(cluster, TOPIC, "t", leader__replication__throttled__replicas="0:2,1:1")
            assert await fetched() == [b"v"]
            await _alter(cluster, TOPIC, "t", leader__replication__throttled__replicas="*")
            assert await fetched() == []
            await cluster.stop(1)
            await cluster.start(1)
            await cluster.leads(1)
            client = await cluster.client(1)
            assert [await fetched() for _ in range(2)] == [[b"v"], []]
            await _alter(cluster, BROKER, "1", leader__replication__throttled__rate=None)
            assert await fetched() == [b"v"]

    run_cluster(scenario())
