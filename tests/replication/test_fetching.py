"""Reading many partitions: limits, waiting, followers. (The handler's tests hold the same through the wire.)"""

import asyncio
from pathlib import Path

import pytest

from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.replication.fetch_sessions import FetchSessionCache
from kafkapy.replication.fetching import TELL_WITHIN_MS, FetchLimits, FetchWish, Reads, read_one
from kafkapy.storage.log.log import Log, LogPosition
from kafkapy.types import NO_BROKER_ID, TopicPartition
from tests.replication.logs import ME, TP, Node, batch, state
from tests.replication.reading import fetch, read_all

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
    assert sizes(read_all(node.replicas, dict(wishes), LIMITS)) == [2 * SIZE] * 3
    assert sizes(read_all(node.replicas, dict(wishes), LIMITS._replace(max_bytes=3 * SIZE))) == [2 * SIZE, SIZE, 0]
    assert sizes(read_all(node.replicas, dict(wishes), LIMITS._replace(max_bytes=0))) == [SIZE, 0, 0]


def test_negative_sizes(tmp_path: Path) -> None:
    """As Apache Kafka 2.7.2 answers them: only what there is to read needs a size, and only the response's first."""
    node = Node(tmp_path)
    node.partition()
    for _ in range(2):
        node.replicas.append(TP, batch())

    def read(limits: FetchLimits, wish: FetchWish) -> list[tuple[int, int]]:
        reads = read_all(node.replicas, {TP: wish}, limits)
        return [(each.error_code, len(each.records)) for each in reads]

    for limits in LIMITS, LIMITS._replace(cuts_first_batch=True), LIMITS._replace(replica_id=2):
        assert read(limits, FetchWish(0, -1)) == [(-1, 0)]
        assert read(limits, FetchWish(2, -1)) == [(0, 0)]
        assert read(limits, FetchWish(3, -1)) == [(1, 0)]
        assert read(limits._replace(max_bytes=-1), FetchWish(0, 100)) == [(-1, 0)]


def test_unknown_partitions_come_last_in_the_response(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.partition()
    wishes = [(TopicPartition("nowhere", 0), FetchWish(0, 10)), (TP, FetchWish(0, 10))]
    assert [read.topic_partition for read in read_all(node.replicas, dict(wishes), LIMITS)] == [TP, ("nowhere", 0)]


def test_when_a_fetch_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition()
        wish = [(TP, FetchWish(0, 1 << 20))]
        assert fetch(node.replicas, dict(wish), LIMITS._replace(max_wait_ms=0), sizes) == [0]
        assert fetch(node.replicas, dict(wish), LIMITS._replace(min_bytes=0), sizes) == [0]
        assert fetch(node.replicas, {}, LIMITS, sizes) == []
        unknown = [*wish, (TopicPartition("nowhere", 0), FetchWish(0, 10))]
        assert fetch(node.replicas, dict(unknown), LIMITS, sizes) == [0, 0]
        late = fetch(node.replicas, dict(wish), LIMITS, sizes)
        assert isinstance(late, asyncio.Future)
        node.clock.advance(500)
        assert late.result() == [0]

    asyncio.run(scenario())


def test_a_waiting_fetch_ends_at_min_bytes_or_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition()
        wish = [(TP, FetchWish(0, 1 << 20))]
        two = fetch(node.replicas, dict(wish), LIMITS._replace(min_bytes=2 * SIZE), sizes)
        assert isinstance(two, asyncio.Future)
        node.replicas.append(TP, batch())
        assert not two.done()
        node.replicas.append(TP, batch())
        assert two.result() == [2 * SIZE]
        deposed = fetch(node.replicas, {TP: FetchWish(2, 1 << 20)}, LIMITS, lambda reads: reads[0].error_code)
        assert isinstance(deposed, asyncio.Future)
        node.partition(leader=2, epoch=1, replicas=(ME, 2))
        assert deposed.result() == 6

    asyncio.run(scenario())


FOLLOWER, OTHER = 2, 3
TWO = TP, TopicPartition("t", 1)


class Follower:
    """A follower's fetches of two partitions, each continuing its session; another follower is in sync, too."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path)
        for each in TWO:
            replicas = (ME, FOLLOWER, OTHER)
            self.node.replicas.become_leader_or_follower(each, state(isr=replicas, replicas=replicas))
        self._sessions = FetchSessionCache(self.node.clock)
        session = self._sessions.create(len(TWO), is_follower=True)
        assert session is not None
        self.session = session

    def fetch(self, *offsets: int) -> "asyncio.Future[list[tuple[int, int]]]":
        """A fetch that waits; its response as the bytes and the high watermark of each partition that has news."""
        wishes = {each: FetchWish(offset, 1 << 20) for each, offset in zip(TWO, offsets, strict=True)}
        self._sessions.touch(self.session)
        assert self._sessions.remember(self.session, wishes.items())
        limits = LIMITS._replace(replica_id=FOLLOWER)
        waiting = fetch(self.node.replicas, self.session.wishes(), limits, self._news, self.session)
        assert isinstance(waiting, asyncio.Future)
        return waiting

    def _news(self, reads: Reads) -> list[tuple[int, int]]:
        news = []
        for read in reads:
            size, offsets = len(read.records), (read.high_watermark, read.log_start_offset)
            known = self.session.partitions[read.topic_partition]
            if known.is_news(size=size, error_code=0, high_watermark=offsets[0], log_start_offset=offsets[1]):
                news.append((size, read.high_watermark))
        self.session.leave_out_quiet(
            self.node.replicas, FOLLOWER, [read.topic_partition for read in reads if not read.records]
        )
        return news

    async def caught_up(self) -> None:
        """The follower and the other one have the first batch of each partition, and know that both have it."""
        for each in TWO:
            self.node.replicas.append(each, batch())
            self.other_has(each, 1)
        waiting = self.fetch(1, 1)
        self.node.clock.advance(TELL_WITHIN_MS)
        assert await waiting == [(0, 1), (0, 1)]

    def other_has(self, topic_partition: TopicPartition, offset: int) -> None:
        self.node.replicas.follower_fetched(self.node.replicas.partitions[topic_partition], OTHER, offset, 0)


def test_batches_that_arrive_together_make_one_response_for_a_follower(tmp_path: Path) -> None:
    async def scenario() -> None:
        follower = Follower(tmp_path)
        await follower.caught_up()
        for is_quiet in True, False:
            at = 1 if is_quiet else 2
            waiting = follower.fetch(at, at)
            if is_quiet:
                follower.session.leave_out_quiet(follower.node.replicas, FOLLOWER, TWO)
                assert not follower.session.due
            for each in TWO:
                follower.node.replicas.append(each, batch())
                assert not waiting.done()
            assert [size for size, _ in await waiting] == [SIZE, SIZE]

    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["by this fetch", "while it waits", "while the partition is quiet"])
def test_a_follower_is_told_a_new_high_watermark_soon(tmp_path: Path, when: str) -> None:
    """Also when the fetch that moved it is this one, of the last follower that lacked the records."""

    async def scenario() -> None:
        follower = Follower(tmp_path)
        await follower.caught_up()
        follower.node.replicas.append(TP, batch())
        if when == "by this fetch":
            follower.other_has(TP, 2)
        waiting = follower.fetch(2, 1)
        if when == "while the partition is quiet":
            follower.session.leave_out_quiet(follower.node.replicas, FOLLOWER, TWO)
        if when != "by this fetch":
            follower.other_has(TP, 2)
        follower.node.clock.advance(TELL_WITHIN_MS - 1)
        await asyncio.sleep(0)
        assert not waiting.done()
        follower.node.clock.advance(1)
        assert await waiting == [(0, 2)]

    asyncio.run(scenario())


def test_a_new_high_watermark_goes_with_records_that_come_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        follower = Follower(tmp_path)
        await follower.caught_up()
        follower.node.replicas.append(TP, batch())
        follower.other_has(TP, 2)
        waiting = follower.fetch(2, 1)
        follower.node.replicas.append(TWO[1], batch())
        assert sorted(await waiting) == [(0, 2), (SIZE, 1)]
        later = follower.fetch(2, 2)
        follower.node.clock.advance(TELL_WITHIN_MS)
        await asyncio.sleep(0)
        assert not later.done()
        follower.node.clock.advance(LIMITS.max_wait_ms)
        assert await later == []

    asyncio.run(scenario())


def test_followers_read_to_the_end_and_wake_consumers(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition(isr=(ME, 2), replicas=(ME, 2))
        node.replicas.append(TP, batch())
        consumer = fetch(node.replicas, {TP: FetchWish(0, 1 << 20)}, LIMITS, sizes)
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


@pytest.mark.parametrize("replica_id", [2, NO_BROKER_ID])
def test_diverging_readers(tmp_path: Path, replica_id: int) -> None:
    """A consumer that tells the epoch of its last record is told, too, where that record is not in the log any more."""
    node = Node(tmp_path)
    node.partition(isr=(ME, 2), replicas=(ME, 2))
    node.replicas.append(TP, batch())
    node.partition(epoch=4, isr=(ME, 2), replicas=(ME, 2))
    node.replicas.append(TP, batch())
    node.replicas.partitions[TP].follower_fetched(2, 2, 0)
    reader = LIMITS._replace(replica_id=replica_id)

    def diverging(offset: int, epoch: int) -> tuple[tuple[int, int] | None, int]:
        read = read_one(node.replicas, TP, FetchWish(offset, 1 << 20, last_fetched_epoch=epoch), reader, 1 << 20)
        return read.diverging, read.error_code

    assert diverging(1, 0) == (None, 0)
    assert diverging(2, 4) == (None, 0)
    assert diverging(2, 0) == ((0, 1), 0)
    assert diverging(2, 3) == ((0, 1), 0)
    assert diverging(2, 9) == (None, 1)


def small_segments() -> LogConfig:
    """Two batches of ``SIZE`` bytes in each segment."""
    return LogConfig(segment_bytes=2 * SIZE)


def is_waiting(answer: object) -> bool:
    return isinstance(answer, asyncio.Future) and not answer.done()


def test_a_fetch_from_an_older_segment_does_not_wait_for_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, small_segments())
        node.partition()
        much = LIMITS._replace(min_bytes=1 << 20)
        for _ in range(5):
            node.replicas.append(TP, batch())

        def ask(offset: int, limits: FetchLimits = much) -> object:
            return fetch(node.replicas, {TP: FetchWish(offset, 1 << 20)}, limits, sizes)

        assert [ask(offset) for offset in range(4)] == [[2 * SIZE], [SIZE], [2 * SIZE], [SIZE]]
        assert is_waiting(ask(4))
        assert ask(0, much._replace(replica_id=2)) is not None
        assert is_waiting(ask(0, much._replace(replica_id=2))), "it is no replica: it is given nothing"

    asyncio.run(scenario())


def test_a_roll_ends_the_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, small_segments())
        node.partition()
        much = LIMITS._replace(min_bytes=1 << 20)
        for _ in range(2):
            node.replicas.append(TP, batch())
        answers = [fetch(node.replicas, {TP: FetchWish(at, 1 << 20)}, much, sizes) for at in (1, 2)]
        assert all(is_waiting(answer) for answer in answers)
        node.replicas.partitions[TP].log.roll()
        node.replicas.purgatory.check(TP)
        assert [is_waiting(answer) for answer in answers] == [False, True], "the end has not moved"
        node.replicas.append(TP, batch())
        assert [answer.result() for answer in answers if isinstance(answer, asyncio.Future)] == [[SIZE], [SIZE]]

    asyncio.run(scenario())


def test_the_last_stable_offset_is_the_end_for_read_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition()
        node.replicas.append(TP, batch())
        open_transaction = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        node.replicas.append(TP, open_transaction)
        node.replicas.partitions[TP].log.roll()
        for _ in range(2):
            node.replicas.append(TP, batch())
        limits = LIMITS._replace(min_bytes=1 << 20, read_committed=True)

        def ask(offset: int) -> object:
            return fetch(node.replicas, {TP: FetchWish(offset, 1 << 20)}, limits, sizes)

        assert [is_waiting(ask(offset)) for offset in (0, 1)] == [True, True]
        assert ask(2) == ask(3) == [0], "they are in a later segment than the last stable offset"
        assert fetch(node.replicas, {TP: FetchWish(1, 1 << 20)}, limits._replace(read_committed=False), sizes) == [
            len(open_transaction)
        ]

    asyncio.run(scenario())


def test_the_partitions_limit_counts_towards_min_bytes(tmp_path: Path) -> None:
    """The partition's limit does, even of a batch that is larger; the limit of the response does not."""

    async def scenario() -> None:
        node = Node(tmp_path)
        other = TopicPartition("t", 1)
        for topic_partition in (TP, other):
            node.replicas.become_leader_or_follower(topic_partition, state())
        limited = fetch(node.replicas, {TP: FetchWish(0, 10)}, LIMITS._replace(min_bytes=SIZE), sizes)
        for topic_partition in (TP, other):
            node.replicas.append(topic_partition, batch())
        assert is_waiting(limited)
        both = [(TP, FetchWish(0, 1 << 20)), (other, FetchWish(0, 1 << 20))]
        limits = LIMITS._replace(min_bytes=2 * SIZE - 1, max_bytes=2 * SIZE - 1)
        assert fetch(node.replicas, dict(both), limits, sizes) == [SIZE, 0]
        assert is_waiting(fetch(node.replicas, dict(both), limits._replace(min_bytes=2 * SIZE + 1), sizes))

    asyncio.run(scenario())


def test_a_start_that_moves_does_not_end_the_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        log = node.partition().log
        node.replicas.append(TP, batch())
        answer = fetch(
            node.replicas, {TP: FetchWish(0, 1 << 20)}, LIMITS._replace(min_bytes=1 << 20),
            lambda reads: reads[0].error_code,
        )  # fmt: skip
        log.advance_log_start_offset(1)
        node.replicas.append(TP, batch())
        assert is_waiting(answer)
        node.clock.advance(500)
        assert isinstance(answer, asyncio.Future)
        assert answer.result() == 1

    asyncio.run(scenario())


def test_a_follower_that_diverges_while_it_waits_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        log = node.partition(isr=(ME, 2), replicas=(ME, 2)).log
        for _ in range(2):
            node.replicas.append(TP, batch())
        wish = FetchWish(2, 1 << 20, last_fetched_epoch=0)
        limits = LIMITS._replace(replica_id=2)
        answer = fetch(node.replicas, {TP: wish}, limits, lambda reads: reads[0].diverging or (0, 0))
        assert is_waiting(answer)
        log.truncate_to(1)
        node.partition(epoch=1, isr=(ME, 2), replicas=(ME, 2))
        log.append_as_leader(batch(), 1)
        node.replicas.purgatory.check(TP)
        assert isinstance(answer, asyncio.Future)
        assert answer.result() == (0, 1)

    asyncio.run(scenario())


def test_a_position_that_the_disk_refuses_ends_the_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        node.partition()
        node.replicas.append(TP, batch())
        limits = LIMITS._replace(min_bytes=1 << 20)
        early, late = (fetch(node.replicas, {TP: FetchWish(at, 1 << 20)}, limits, sizes) for at in (0, 1))
        assert is_waiting(early)
        assert is_waiting(late)

        def refuse(_log: Log, _offset: int) -> LogPosition:
            raise KafkaStorageError("an input/output error")

        monkeypatch.setattr(Log, "locate", refuse)
        assert fetch(node.replicas, {TP: FetchWish(0, 1 << 20)}, limits, sizes) == [SIZE]
        node.replicas.append(TP, batch())
        assert isinstance(early, asyncio.Future)
        assert early.result() == [2 * SIZE]

    asyncio.run(scenario())
