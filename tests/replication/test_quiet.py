"""Partitions that a follower's fetches leave out until something happens to them."""

from pathlib import Path

import pytest

from harness.client import batch as records
from kafkapy.replication.fetch_sessions import FetchSessionCache
from kafkapy.replication.fetching import FetchWish
from kafkapy.replication.partition import Partition
from kafkapy.replication.quiet import LOOKED_AT_IN_TURN, TURN_MS, QuietPartitions
from kafkapy.types import TopicPartition
from tests.replication.brokers import brokers
from tests.replication.logs import ME, TP, Node, batch, state
from tests.server.harness import run

FOLLOWER, OTHER = 2, 3
LAG_MS = 1000
"""That of ``Node``."""


class Session:
    """One quiet partition, or not, of a leader with two followers; the first follower has fetched its three records."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path)
        self.node.partition(isr=(ME, FOLLOWER, OTHER), replicas=(ME, FOLLOWER, OTHER))
        self.append(3)
        for broker_id in (FOLLOWER, OTHER):
            self.fetched(broker_id, 3)
        self.woken: list[tuple[TopicPartition, bool]] = []
        self.quiet = self.quiet_of(FOLLOWER)

    def quiet_of(self, broker_id: int) -> QuietPartitions:
        return QuietPartitions(self.node.replicas, broker_id, lambda *told: self.woken.append(told))

    @property
    def partition(self) -> Partition:
        return self.node.replicas.partitions[TP]

    def append(self, count: int = 1) -> None:
        self.node.replicas.append(TP, batch(count))

    def fetched(self, broker_id: int, offset: int) -> None:
        self.node.replicas.follower_fetched(self.partition, broker_id, offset, 0)

    def is_quiet(self, offset: int = 3, high_watermark: int = 3, log_start_offset: int = 0) -> bool:
        return self.quiet.add_if_quiet(TP, offset, high_watermark, log_start_offset)


def test_a_partition_is_quiet_if_its_follower_lacks_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path)
    assert not session.is_quiet(offset=2)
    assert not session.is_quiet(high_watermark=2)
    assert not session.is_quiet(log_start_offset=1)
    assert not session.quiet.add_if_quiet(TopicPartition("t", 7), 0, 0, 0)
    assert not session.quiet_of(9).add_if_quiet(TP, 3, 3, 0)
    assert session.is_quiet()
    assert len(session.quiet) == 1
    session.node.partition(epoch=1, isr=(ME, OTHER), replicas=(ME, FOLLOWER, OTHER))
    assert not session.is_quiet()


def test_a_change_of_the_in_sync_replicas_that_is_not_answered_is_news(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.partition.propose_isr((ME, FOLLOWER))
    assert not session.is_quiet()


@pytest.mark.parametrize("what", ["append", "leader", "gone"])
def test_a_change_ends_the_quiet(tmp_path: Path, what: str) -> None:
    session = Session(tmp_path)
    assert session.is_quiet()
    if what == "append":
        session.append()
    elif what == "leader":
        session.node.partition(leader=OTHER, epoch=1, isr=(OTHER,), replicas=(ME, FOLLOWER, OTHER))
    else:
        session.node.replicas.stop_replica(TP, -2, delete=True)
    assert session.woken == [(TP, False)]
    assert len(session.quiet) == 0
    session.node.replicas.purgatory.check(TP)
    assert session.woken == [(TP, False)]


def test_a_new_high_watermark_alone_can_wait(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.append()
    session.fetched(FOLLOWER, 4)
    assert session.is_quiet(offset=4)
    session.fetched(OTHER, 4)
    assert session.woken == [(TP, True)]


def test_a_follower_of_a_quiet_partition_has_caught_up_at_each_fetch_of_the_session(tmp_path: Path) -> None:
    """Else the first record after a long quiet time would make the follower one that lags."""
    session = Session(tmp_path)
    assert session.is_quiet()
    session.node.clock.advance(10 * LAG_MS)
    session.quiet.fetched(session.node.clock.now_ms())
    session.node.clock.advance(LAG_MS)
    session.append()
    assert session.partition.lagging_replicas() == (OTHER,)
    session.node.clock.advance(1)
    assert set(session.partition.lagging_replicas()) == {FOLLOWER, OTHER}


def test_a_replica_that_has_left_the_in_sync_set_does_not_hold_the_high_watermark_back(tmp_path: Path) -> None:
    """Its last fetch is not long ago, but the leader's new epoch begins without it."""
    session = Session(tmp_path)
    assert session.is_quiet()
    session.quiet.fetched(session.node.clock.now_ms())
    session.node.partition(epoch=1, isr=(ME, OTHER), replicas=(ME, FOLLOWER, OTHER))
    assert [topic_partition for topic_partition, _ in session.woken] == [TP]
    session.append()
    session.fetched(OTHER, 4)
    assert session.partition.log.high_watermark == 4


def test_quiet_partitions_are_looked_at_in_turn(tmp_path: Path) -> None:
    session = Session(tmp_path)
    replicas = session.node.replicas
    several = [TopicPartition("t", number) for number in range(1, 2 * LOOKED_AT_IN_TURN)]
    for each in several:
        replicas.become_leader_or_follower(each, state(isr=(ME, FOLLOWER), replicas=(ME, FOLLOWER)))
        replicas.follower_fetched(replicas.partitions[each], FOLLOWER, 0, 0)
        assert session.quiet.add_if_quiet(each, 0, 0, 0)
    assert session.quiet.take_some() == several[:LOOKED_AT_IN_TURN]
    assert session.quiet.add_if_quiet(several[0], 0, 0, 0)
    session.quiet.fetched(TURN_MS - 1)
    assert session.quiet.take_some() == []
    session.quiet.fetched(TURN_MS)
    assert session.quiet.take_some() == [*several[LOOKED_AT_IN_TURN:], several[0]]
    session.quiet.fetched(2 * TURN_MS)
    assert session.quiet.take_some() == []


def test_a_closed_session_watches_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path)
    assert session.is_quiet()
    session.quiet.clear()
    session.append()
    assert session.woken == []


def test_records_reach_followers_whose_fetches_wait_for_long(tmp_path: Path) -> None:
    """Each fetch would be answered after ten minutes; the partitions are quiet after the first answer."""

    async def scenario() -> None:
        keys = dict.fromkeys(("replica__socket__timeout__ms", "replica__lag__time__max__ms"), "900000")
        async with brokers(tmp_path, 1, 2, 3, replica__fetch__wait__max__ms="600000", **keys) as cluster:
            await cluster.create_topic(1, 2, 3, partitions=3, min__insync__replicas="3")
            client = await cluster.client(1)
            for index in (0, 1, 2, 1, 0):
                answer = await client.produce(TP.topic, records(b"v"), partition=index, acks=-1)
                assert answer.error_code == 0
            assert [cluster.log(3, TopicPartition(TP.topic, index)).log_end_offset for index in range(3)] == [2, 2, 1]

    run(scenario())


def test_a_session_that_has_left_the_cache_watches_nothing(tmp_path: Path) -> None:
    node = Session(tmp_path).node
    cache = FetchSessionCache(node.clock)
    session = cache.create(1, is_follower=True)
    cache.remember(session, [(TP, FetchWish(3, 100, 0, 0))])
    session.partitions[TP].high_watermark, session.partitions[TP].log_start_offset = 3, 0
    cache.remove(session.session_id)
    session.leave_out_quiet(node.replicas, FOLLOWER, [TP])  # its last fetch, which has waited, is answered
    assert session.quiet is None
    assert TP in session.due
