"""Each invariant refuses what it forbids."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.metadata.store import Create, Delete, SetData
from kafkapy.metadata.tree import Tree
from kafkapy.metadata.znodes import LeaderIsr, PartitionStateZNode
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition
from tests.simulation.cluster.invariants import Invariants, Violation

TP = TopicPartition("t", 0)
PATH = PartitionStateZNode.path(TP)


def record_batch(base: int, epoch: int = 0, producer: int = -1, sequence: int = -1) -> bytes:
    records = [Record(offset=base, timestamp=1, key=None, value=b"v", headers=())]
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if producer >= 0 else {}
    content = bytearray(encode_batch(records, **fields))  # type: ignore[arg-type]  # the fields are whole numbers
    content[:8], content[12:16] = base.to_bytes(8, "big"), epoch.to_bytes(4, "big")
    return bytes(content)


class Replica:
    """The state of a partition and its log that the invariants check."""

    def __init__(self, *batches: bytes) -> None:
        self.batches = list(batches)
        self.high_watermark = 0
        self.log = self
        self.leader_epoch = 0
        self.is_leader = False
        self.isr = SimpleNamespace(committed=(1, 2))

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    def read(self, offset: int, size: int) -> Any:
        return SimpleNamespace(records=b"".join(self.batches[offset:]))


class Cluster:
    def __init__(self) -> None:
        self.tree = Tree()
        self.laws = Invariants(SimpleNamespace(tree=self.tree), TP, lambda _: None)  # type: ignore[arg-type]
        parts = PATH.split("/")[1:]
        for depth in range(1, len(parts)):
            self.tree.apply([Create("/" + "/".join(parts[:depth]))], 0, 0)
        self.tree.apply([Create(PATH, PartitionStateZNode.encode(LeaderIsr(1, 0, (1, 2), 1, 0)))], 0, 0)
        self.leader, self.follower = Replica(), Replica()
        self.leader.is_leader = True

    def store(self, leader: int, epoch: int, *isr: int) -> None:
        self.tree.apply([SetData(PATH, PartitionStateZNode.encode(LeaderIsr(leader, epoch, isr, 1, 0)))], 0, 0)
        self.laws.store_changed()

    def look(self) -> None:
        self.laws.broker_changed(2, self.follower)  # type: ignore[arg-type]  # what is looked at
        self.laws.broker_changed(1, self.leader)  # type: ignore[arg-type]

    def commit(self, *batches: bytes) -> None:
        """Both replicas have the batches, and the leader knows it."""
        for replica in (self.leader, self.follower):
            replica.batches += batches
        self.leader.high_watermark = self.leader.log_end_offset
        self.look()


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.laws.store_changed()
    made.look()
    return made


def test_a_cluster_that_keeps_them_is_not_refused(cluster: Cluster) -> None:
    cluster.commit(record_batch(0, producer=7, sequence=0), record_batch(1))
    cluster.laws.record_acknowledged(7, 0, 0)
    assert cluster.laws.records_read(record_batch(0, producer=7, sequence=0) + record_batch(1)[:20]) == 1
    cluster.leader.batches.append(record_batch(2))
    cluster.look()
    cluster.laws.broker_ended(1)
    cluster.store(2, 1, 2)
    cluster.follower.is_leader, cluster.follower.leader_epoch = True, 1
    cluster.follower.isr.committed = (2,)
    cluster.laws.broker_changed(2, cluster.follower)  # type: ignore[arg-type]
    cluster.leader.is_leader, cluster.leader.leader_epoch = False, 1
    del cluster.leader.batches[2]
    cluster.laws.broker_changed(1, cluster.leader)  # type: ignore[arg-type]
    cluster.store(2, 1, 2, 1)
    assert cluster.laws.isr_changes == 2


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ((1, 0, (2,)), "LeaderInIsr"),
        ((1, 0, ()), "empty"),
        ((2, 0, (1, 2)), "two leaders"),
        ((1, 0, (1, 2, 3)), "StrongIsr: replica 3 .* has nothing, committed is 0-0@0"),
    ],
)
def test_states_of_the_store(cluster: Cluster, state: tuple[int, int, tuple[int, ...]], words: str) -> None:
    cluster.commit(record_batch(0))
    leader, epoch, isr = state
    with pytest.raises(Violation, match=words):
        cluster.store(leader, epoch, *isr)


def test_the_leader_epoch_of_the_store_grows(cluster: Cluster) -> None:
    cluster.store(1, 3, 1, 2)
    with pytest.raises(Violation, match="went back from 3 to 2"):
        cluster.store(1, 2, 1, 2)


def test_the_controller_epoch_grows(cluster: Cluster) -> None:
    cluster.tree.apply([Create("/controller_epoch", b"2")], 0, 0)
    cluster.laws.store_changed()
    cluster.tree.apply([SetData("/controller_epoch", b"1")], 0, 0)
    with pytest.raises(Violation, match="controller epoch went back"):
        cluster.laws.store_changed()
    cluster.tree.apply([Delete(PATH)], 0, 0)


def test_a_high_watermark_needs_every_replica_in_sync(cluster: Cluster) -> None:
    cluster.leader.batches.append(record_batch(0))
    cluster.leader.high_watermark = 1
    with pytest.raises(Violation, match="StrongIsr: replica 2 is in the ISR and has nothing"):
        cluster.look()


def test_a_leaders_own_isr_has_what_is_below_its_high_watermark(cluster: Cluster) -> None:
    cluster.commit(record_batch(0))
    cluster.leader.isr.committed = (1, 2, 3)
    cluster.leader.leader_epoch = 1
    with pytest.raises(Violation, match="WeakIsr: replica 3"):
        cluster.look()


def test_a_replica_in_sync_loses_nothing_committed(cluster: Cluster) -> None:
    cluster.commit(record_batch(0), record_batch(1))
    cluster.follower.batches.pop()
    with pytest.raises(Violation, match="StrongIsr: replica 2"):
        cluster.look()


def test_high_watermarks(cluster: Cluster) -> None:
    cluster.commit(record_batch(0), record_batch(1))
    cluster.follower.high_watermark = 3
    with pytest.raises(Violation, match="above its end"):
        cluster.look()
    cluster.follower.high_watermark = 2
    cluster.leader.high_watermark = 1
    with pytest.raises(Violation, match="went back from 2 to 1"):
        cluster.look()


def test_a_broker_does_not_go_back_to_an_older_epoch(cluster: Cluster) -> None:
    cluster.follower.leader_epoch = 2
    cluster.look()
    cluster.follower.leader_epoch = 1
    with pytest.raises(Violation, match="from leader epoch 2 to 1"):
        cluster.look()


def test_replicas_agree_below_their_high_watermarks(cluster: Cluster) -> None:
    cluster.store(1, 0, 1)
    cluster.leader.isr.committed = (1,)
    cluster.leader.batches.append(record_batch(0))
    cluster.leader.high_watermark = 1
    cluster.look()
    cluster.follower.batches.append(record_batch(0, epoch=5))
    cluster.look()
    cluster.follower.high_watermark = 1
    with pytest.raises(Violation, match="broker 2 has other batches below its high watermark 1"):
        cluster.look()


def test_producers_batches_come_once_and_in_order(cluster: Cluster) -> None:
    cluster.commit(record_batch(0, producer=7, sequence=0))
    with pytest.raises(Violation, match="producer 7 has sequence 0 at offset 1, 1 was to come"):
        cluster.commit(record_batch(1, producer=7, sequence=0))


def test_acknowledged_records_are_committed(cluster: Cluster) -> None:
    cluster.commit(record_batch(0, producer=7, sequence=0))
    for producer, sequence, offset in ((7, 0, 1), (7, 1, 0), (8, 0, 0)):
        with pytest.raises(Violation, match="not below a high watermark"):
            cluster.laws.record_acknowledged(producer, sequence, offset)


def test_consumers_read_what_is_committed(cluster: Cluster) -> None:
    cluster.commit(record_batch(0))
    for content in (record_batch(1), record_batch(0, epoch=3)):
        with pytest.raises(Violation, match="a consumer has read offset"):
            cluster.laws.records_read(content)


def test_a_log_that_can_not_be_read_up_to_its_end(cluster: Cluster) -> None:
    class Short(Replica):
        @property
        def log_end_offset(self) -> int:
            return len(self.batches) + 1

    with pytest.raises(Violation, match="can't be read"):
        cluster.laws.broker_changed(3, Short(record_batch(0)))  # type: ignore[arg-type]
