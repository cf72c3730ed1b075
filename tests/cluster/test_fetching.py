"""Reading many partitions: limits, waiting, followers. (The handler's tests hold the same through the wire.)"""

import asyncio
from pathlib import Path

from kafkapy.cluster.fetching import FetchLimits, FetchWish, Reads, fetch, read_all, read_one
from kafkapy.types import TopicPartition
from tests.cluster.logs import ME, TP, Node, batch, state

SIZE = len(batch())
LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)


def sizes(reads: Reads) -> list[int]:
    return [len(read.records) for read in reads]


def test_limits(tmp_path: Path) -> None:
    node = Node(tmp_path)
    wishes = []
    for index in range(3):
        topic_partition = TopicPartition("t", index)
        node.replicas.become_leader_or_follower(topic_partition, state())
        for _ in range(2):
            node.replicas.append(topic_partition, batch())
        wishes.append((topic_partition, FetchWish(0, 1 << 20)))
    assert sizes(read_all(node.replicas, wishes, LIMITS)) == [2 * SIZE] * 3
    assert sizes(read_all(node.replicas, wishes, LIMITS._replace(max_bytes=3 * SIZE))) == [2 * SIZE, SIZE, 0]
    assert sizes(read_all(node.replicas, wishes, LIMITS._replace(max_bytes=0))) == [SIZE, 0, 0]


def test_negative_sizes(tmp_path: Path) -> None:
    """As Apache Kafka 2.7.2 answers them: only what there is to read needs a size, and only the response's first."""
    node = Node(tmp_path)
    node.partition()
    for _ in range(2):
        node.replicas.append(TP, batch())

    def read(limits: FetchLimits, *wishes: FetchWish) -> list[tuple[int, int]]:
        reads = read_all(node.replicas, [(TP, wish) for wish in wishes], limits)
        return [(each.error_code, len(each.records)) for each in reads]

    for limits in LIMITS, LIMITS._replace(cuts_first_batch=True), LIMITS._replace(replica_id=2):
        assert read(limits, FetchWish(0, -1)) == [(-1, 0)]
        assert read(limits, FetchWish(2, -1)) == [(0, 0)]
        assert read(limits, FetchWish(3, -1)) == [(1, 0)]
        assert read(limits._replace(max_bytes=-1), FetchWish(0, 100)) == [(-1, 0)]


def test_what_does_not_exist_is_answered_last(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.partition()
    wishes = [(TopicPartition("nowhere", 0), FetchWish(0, 10)), (TP, FetchWish(0, 10))]
    assert [read.topic_partition for read in read_all(node.replicas, wishes, LIMITS)] == [TP, ("nowhere", 0)]


def test_when_a_fetch_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition()
        wish = [(TP, FetchWish(0, 1 << 20))]
        assert fetch(node.replicas, wish, LIMITS._replace(max_wait_ms=0), sizes) == [0]
        assert fetch(node.replicas, wish, LIMITS._replace(min_bytes=0), sizes) == [0]
        assert fetch(node.replicas, [], LIMITS, sizes) == []
        unknown = [*wish, (TopicPartition("nowhere", 0), FetchWish(0, 10))]
        assert fetch(node.replicas, unknown, LIMITS, sizes) == [0, 0]
        late = fetch(node.replicas, wish, LIMITS, sizes)
        assert isinstance(late, asyncio.Future)
        node.clock.advance(500)
        assert late.result() == [0]

    asyncio.run(scenario())


def test_what_ends_the_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition()
        wish = [(TP, FetchWish(0, 1 << 20))]
        two = fetch(node.replicas, wish, LIMITS._replace(min_bytes=2 * SIZE), sizes)
        assert isinstance(two, asyncio.Future)
        node.replicas.append(TP, batch())
        assert not two.done()
        node.replicas.append(TP, batch())
        assert two.result() == [2 * SIZE]
        deposed = fetch(node.replicas, [(TP, FetchWish(2, 1 << 20))], LIMITS, lambda reads: reads[0].error_code)
        assert isinstance(deposed, asyncio.Future)
        node.partition(leader=2, epoch=1, replicas=(ME, 2))
        assert deposed.result() == 6

    asyncio.run(scenario())


def test_followers_read_to_the_end_and_wake_consumers(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition(isr=(ME, 2), replicas=(ME, 2))
        node.replicas.append(TP, batch())
        consumer = fetch(node.replicas, [(TP, FetchWish(0, 1 << 20))], LIMITS, sizes)
        assert isinstance(consumer, asyncio.Future)
        follower = LIMITS._replace(replica_id=2)
        assert follower.is_follower
        assert len(read_one(node.replicas, TP, FetchWish(0, 1 << 20), follower, 1 << 20).records) == SIZE
        assert not consumer.done()
        read_one(node.replicas, TP, FetchWish(1, 1 << 20), follower, 1 << 20)
        assert consumer.result() == [SIZE]

    asyncio.run(scenario())


def test_a_broker_that_is_no_replica_is_given_no_records_but_told_that_its_offset_is_not_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.partition()
    node.replicas.append(TP, batch())
    stranger = LIMITS._replace(replica_id=3)
    reads = [read_one(node.replicas, TP, FetchWish(offset, 1 << 20), stranger, 1 << 20) for offset in (0, 1, 2, -1)]
    assert [(len(read.records), read.error_code, read.high_watermark) for read in reads] == [
        (0, 0, 1), (0, 0, 1), (0, 1, -1), (0, 1, -1),
    ]  # fmt: skip


def test_diverging_followers(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.partition(isr=(ME, 2), replicas=(ME, 2))
    node.replicas.append(TP, batch())
    node.partition(epoch=4, isr=(ME, 2), replicas=(ME, 2))
    node.replicas.append(TP, batch())
    follower = LIMITS._replace(replica_id=2)

    def diverging(offset: int, epoch: int) -> tuple[tuple[int, int] | None, int]:
        read = read_one(node.replicas, TP, FetchWish(offset, 1 << 20, last_fetched_epoch=epoch), follower, 1 << 20)
        return read.diverging, read.error_code

    assert diverging(1, 0) == (None, 0)
    assert diverging(2, 4) == (None, 0)
    assert diverging(2, 0) == ((0, 1), 0)
    assert diverging(2, 3) == ((0, 1), 0)
    assert diverging(2, 9) == (None, 1)
