"""Reading from the closest replica (KIP-392): whom the leader names, and what a follower answers consumers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import batch as batch_of
from harness.client import values_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.replication.fetching import FetchLimits, FetchWish, read_one
from kafkapy.types import TopicPartition
from tests.replication.brokers import TP, Brokers, brokers
from tests.replication.leader import Pair
from tests.replication.logs import ME, Node, batch
from tests.replication.reading import fetch
from tests.server.harness import run

CONSUMER = FetchLimits(500, 1, 1 << 20, from_any_replica=True, rack="b", listener="PLAINTEXT")
RACKS = {ME: "a", 2: "b", 3: "b", 4: "c", 5: None}
ALL = (ME, 2, 3, 4, 5)


def _leader(path: Path, racks: dict[int, str | None] | None = None) -> Node:
    """A leader with ten records whose followers have the offsets 0 to 5 each."""
    node = Node(path)
    node.replicas.send_readers_to_their_racks(lambda _place, _listener: RACKS if racks is None else racks)
    partition = node.partition(isr=(ME,), replicas=ALL)
    node.replicas.append(TP, batch(10))
    for follower in ALL[1:]:
        partition.follower_fetched(follower, 5, 0)
    return node


def _preferred(node: Node, offset: int = 0, **limits: Any) -> int:
    read = read_one(node.replicas, TP, FetchWish(offset, 100), CONSUMER._replace(**limits), 100)
    assert read.error_code == 0
    assert bool(read.records) == (read.preferred_read_replica < 0 and offset < 10)
    return read.preferred_read_replica


def test_the_leader_names_the_follower_of_the_clients_rack_that_has_most(tmp_path: Path) -> None:
    node = _leader(tmp_path)
    partition = node.replicas.partitions[TP]
    assert [_preferred(node, rack=rack) for rack in ("a", "b", "c", "d", "")] == [-1, 3, 4, -1, -1]
    partition.follower_fetched(2, 6, 0)
    assert _preferred(node) == 2
    partition.follower_fetched(3, 6, 0)
    assert _preferred(node) == 3
    partition.remotes[2].last_caught_up_ms += 1
    assert _preferred(node) == 2


def test_a_follower_that_lacks_the_offset_is_not_named(tmp_path: Path) -> None:
    node = _leader(tmp_path)
    partition = node.replicas.partitions[TP]
    assert [_preferred(node, offset) for offset in (5, 6)] == [3, -1]
    partition.follower_fetched(3, 5, 2)
    assert [_preferred(node, offset) for offset in (1, 2)] == [2, 3]
    partition.follower_fetched(3, 10, 2)
    assert [_preferred(node, offset) for offset in (9, 10)] == [3, 3]
    assert read_one(node.replicas, TP, FetchWish(11, 100), CONSUMER, 100).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_nobody_is_named_to_others_than_consumers_of_a_rack(tmp_path: Path) -> None:
    node = _leader(tmp_path)
    assert _preferred(node, from_any_replica=False, rack="") == -1
    read = read_one(node.replicas, TP, FetchWish(0, 100), CONSUMER._replace(replica_id=2, rack=""), 100)
    assert (read.preferred_read_replica, bool(read.records)) == (-1, True)
    assert _preferred(_leader(tmp_path / "gone", {ME: "a", 4: "c"})) == -1


def test_the_answer_comes_at_once_and_without_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = _leader(tmp_path)
        reads = fetch(node.replicas, {TP: FetchWish(0, 100)}, CONSUMER, tuple)
        assert isinstance(reads, tuple)
        (read,) = reads
        assert (read.preferred_read_replica, len(read.records), read.high_watermark) == (3, 0, 10)

    asyncio.run(scenario())


def test_a_wrong_epoch_is_an_error_before_anybody_is_named(tmp_path: Path) -> None:
    node = _leader(tmp_path)
    read = read_one(node.replicas, TP, FetchWish(0, 100, current_leader_epoch=7), CONSUMER, 100)
    assert (read.error_code, read.preferred_read_replica) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)


def test_a_follower_answers_consumers_below_its_high_watermark(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.leader.lead(isr=(2,))
        pair.leader.append(4)
        pair.follow()
        await pair.settle()
        replicas = pair.node.replicas

        def read(offset: int, **limits: Any) -> tuple[int, int, bool]:
            found = read_one(replicas, TP, FetchWish(offset, 1000), CONSUMER._replace(**limits), 1000)
            assert found.preferred_read_replica == -1
            return found.error_code, found.high_watermark, bool(found.records)

        assert read(0) == (0, 4, True)
        assert read(4) == (0, 4, False)
        pair.log.append_as_follower(batch(2, base_offset=4, leader_epoch=0))
        assert [read(4), read(5), read(6)] == [(0, 4, False)] * 3  # the log has them, consumers must not
        assert read(7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, False)
        assert read(0, from_any_replica=False) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, False)
        for epoch, code in ((0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            assert read_one(replicas, TP, FetchWish(0, 1000, epoch), CONSUMER, 1000).error_code == code
        pair.fetchers.close()
        await pair.settle()

    asyncio.run(scenario())


def test_a_consumer_waits_at_a_follower_for_its_high_watermark(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.leader.lead()
        pair.follow()
        await pair.settle()
        waiting = fetch(pair.node.replicas, {TP: FetchWish(0, 1000)}, CONSUMER._replace(max_wait_ms=10**6), list)
        assert isinstance(waiting, asyncio.Future)
        pair.leader.append(3)
        await pair.settle()
        assert pair.ends == (0, 0, 3)
        assert not waiting.done()
        pair.clock.advance(500)
        await pair.settle()
        assert pair.ends == (0, 3, 3)
        (read,) = waiting.result()
        assert (read.error_code, read.high_watermark, bool(read.records)) == (0, 3, True)
        pair.fetchers.close()
        await pair.settle()

    asyncio.run(scenario())


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def _ask(cluster: Brokers, broker_id: int, offset: int, *, version: int = 11, **fields: Any) -> Any:
    response = await (await cluster.client(broker_id)).fetch("t", offset, version=version, **fields)
    (found,) = response.responses[0].partitions
    return found


def test_consumers_find_the_replica_of_their_rack(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, replica__selector__class=SELECTOR) as cluster:
            await cluster.start(1, broker__rack="a")
            await cluster.start(2, broker__rack="b")
            await cluster.create_topic(1, 2)
            assert (await cluster.produce(1, batch_of(b"1", b"2"))).error_code == 0
            await cluster.same_end(1, 2)
            for version in (11, 12):
                sent = await _ask(cluster, 1, 0, version=version, rack_id="b")
                assert (sent.error_code, sent.preferred_read_replica, sent.high_watermark) == (0, 2, 2)
                assert bytes(sent.records) == b""
                read = await _ask(cluster, 2, 0, version=version, rack_id="b")
                assert (read.error_code, read.preferred_read_replica) == (0, -1)
                assert values_of(read.records) == [b"1", b"2"]
                near = await _ask(cluster, 1, 1, version=version, rack_id="a")
                assert (near.preferred_read_replica, values_of(near.records)) == (-1, [b"1", b"2"])
            assert (await _ask(cluster, 2, 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await _ask(cluster, 2, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await _ask(cluster, 2, 0, replica_id=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await _ask(cluster, 1, 0, replica_id=2, rack_id="b")).preferred_read_replica == -1

    run(scenario())


def test_a_session_is_told_of_the_preferred_read_replica_each_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, replica__selector__class=SELECTOR) as cluster:
            await cluster.start(1, broker__rack="a")
            await cluster.start(2, broker__rack="b")
            await cluster.create_topic(1, 2)
            # acknowledged by both, so the leader knows that the follower reaches offset 0
            assert (await cluster.produce(1, batch_of(b"1"))).error_code == 0
            client = await cluster.client(1)
            first = await client.fetch("t", rack_id="b", session_epoch=0)
            assert first.session_id > 0
            for epoch in (1, 2):
                fields = {"session_id": first.session_id, "session_epoch": epoch}
                again = await client.fetch("t", rack_id="b", **fields)
                assert again.responses[0].partitions[0].preferred_read_replica == 2

    run(scenario())


@pytest.mark.parametrize("replicas", [(1, 2), (2, 1)])
def test_without_a_selector_the_leader_answers_all_racks(tmp_path: Path, replicas: tuple[int, ...]) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, broker__rack="a") as cluster:
            await cluster.start(2, broker__rack="b")
            await cluster.create_topic(*replicas, name="u")
            place = TopicPartition("u", 0)
            assert (await cluster.produce(replicas[0], batch_of(b"1"), topic="u")).error_code == 0
            await cluster.same_end(1, 2, topic_partition=place)
            for broker_id in replicas:
                response = await (await cluster.client(broker_id)).fetch("u", rack_id="b")
                (found,) = response.responses[0].partitions
                assert (found.preferred_read_replica, values_of(found.records)) == (-1, [b"1"])

    run(scenario())
