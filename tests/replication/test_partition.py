"""A partition as leader and follower."""

import errno
from pathlib import Path

import pytest

from kafkapy.config.log_config import LogConfig
from kafkapy.metadata.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.replication.partition import ALL_IN_SYNC, InSyncReplicas
from tests.replication.logs import ME, TP, Node, batch, state


def test_alone_everything_is_replicated_at_once(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition()
    result = partition.append(batch(3))
    assert (result.first_offset, partition.log.high_watermark) == (0, 3)
    assert partition.is_acknowledged(3)
    assert not partition.is_acknowledged(4)


def test_the_high_watermark_follows_the_followers(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(isr=(ME, 2), replicas=(ME, 2))
    partition.append(batch(3), required_acks=ALL_IN_SYNC)
    assert partition.log.high_watermark == 0
    assert partition.follower_fetched(2, 0, 0)  # its log start is known now
    assert not partition.follower_fetched(2, 0, 0)
    assert partition.log.high_watermark == 0
    assert partition.follower_fetched(2, 2, 0)
    assert partition.log.high_watermark == 2
    assert not partition.follower_fetched(2, 1, 0)
    assert partition.log.high_watermark == 2


def test_a_leader_that_stays_the_leader_knows_its_followers_in_the_next_epoch(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = node.partition(isr=(ME, 2, 3), replicas=(ME, 2, 3))
    partition.append(batch(3))
    partition.follower_fetched(2, 3, 0)
    partition.follower_fetched(3, 1, 0)
    assert partition.log.high_watermark == 1
    node.clock.advance(5000)
    partition = node.partition(epoch=1, isr=(ME, 2), replicas=(ME, 2, 3))
    assert partition.log.high_watermark == 3
    assert partition.is_acknowledged(3)
    node.partition(epoch=2, leader=2, isr=(2, ME), replicas=(ME, 2, 3))
    partition = node.partition(epoch=3, isr=(ME, 2), replicas=(ME, 2, 3))
    partition.append(batch())
    assert partition.log.high_watermark == 3


def test_a_follower_that_fetches_from_where_the_epoch_began_was_caught_up_then(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.partition(leader=2, isr=(2, ME), replicas=(ME, 2))
    partition = node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
    node.clock.advance(700)
    partition.append(batch(2))
    partition.follower_fetched(2, 0, 0)
    assert partition.log.high_watermark == 2
    assert partition.remotes[2].last_caught_up_ms == node.clock.now_ms() - 700


def test_the_low_watermark_is_the_lowest_log_start_of_the_live_replicas(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = node.partition(isr=(ME, 2, 3), replicas=(ME, 2, 3))
    partition.append(batch(5))
    for broker_id in (2, 3):
        partition.follower_fetched(broker_id, 5, 0)
    partition.log.advance_log_start_offset(4)
    assert node.replicas.low_watermark(TP) == 0
    assert partition.follower_fetched(2, 5, 3)
    assert not partition.follower_fetched(2, 5, 3)
    assert node.replicas.low_watermark(TP) == 0
    node.dead.add(3)
    assert node.replicas.low_watermark(TP) == 3
    partition.follower_fetched(2, 5, 5)
    assert node.replicas.low_watermark(TP) == 4
    node.partition(epoch=1, leader=2, isr=(2, ME), replicas=(ME, 2, 3))
    with pytest.raises(NotLeaderOrFollowerError):
        node.replicas.low_watermark(TP)


def test_a_follower_that_caught_up_may_join(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(isr=(ME,), replicas=(ME, 2))
    partition.append(batch(2))
    assert not partition.replica_may_join(2)
    partition.follower_fetched(2, 2, 0)
    assert partition.replica_may_join(2)
    assert not partition.replica_may_join(3)
    proposal = partition.propose_isr((ME, 2))
    assert proposal == LeaderIsr(ME, 0, (ME, 2), 1, 0)
    assert not partition.replica_may_join(2)
    partition.withdraw_proposal(proposal)
    assert partition.replica_may_join(2)


def test_a_proposal_counts_for_the_high_watermark_until_it_is_answered(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(isr=(ME, 2), replicas=(ME, 2, 3))
    partition.append(batch(2))
    partition.follower_fetched(2, 2, 0)
    partition.follower_fetched(3, 2, 0)
    shrink = partition.propose_isr((ME,))
    partition.append(batch())
    assert (partition.log.high_watermark, partition.is_acknowledged(2)) == (2, True)
    assert partition.isr_answered(shrink, shrink._replace(zk_version=1))
    assert (partition.isr.maximal, partition.zk_version) == ((ME,), 1)
    assert not partition.isr_answered(shrink, shrink._replace(zk_version=2))
    partition.withdraw_proposal(shrink)
    assert partition.zk_version == 1


def test_the_high_watermark_moves_when_a_lagging_member_has_left(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = node.partition(isr=(ME, 2), replicas=(ME, 2))
    partition.append(batch(2))
    node.clock.advance(1001)
    assert partition.lagging_replicas() == (2,)
    shrink = partition.propose_isr((ME,))
    assert partition.lagging_replicas() == ()
    assert partition.log.high_watermark == 0
    partition.isr_answered(shrink, shrink._replace(zk_version=1))
    assert partition.log.high_watermark == 2


def test_another_leader_and_isr_replaces_a_proposal(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = node.partition(isr=(ME,), replicas=(ME, 2))
    expansion = partition.propose_isr((ME, 2))
    node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
    assert partition.isr.maximal == (ME,)
    assert not partition.isr_answered(expansion, expansion._replace(zk_version=1))


def test_strangers_can_not_fetch_as_followers(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition()
    with pytest.raises(NotLeaderOrFollowerError):
        partition.follower_fetched(9, 0, 0)


def test_a_follower_neither_appends_nor_reads_nor_acknowledges(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(leader=2, isr=(2, ME), replicas=(2, ME))
    with pytest.raises(NotLeaderOrFollowerError):
        partition.append(batch())
    with pytest.raises(NotLeaderOrFollowerError):
        partition.check_leader()
    with pytest.raises(NotLeaderOrFollowerError):
        partition.is_acknowledged(0)


def test_epochs_are_compared(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(epoch=5)
    partition.append(batch())
    partition.check_leader(5)
    partition.check_leader()
    with pytest.raises(FencedLeaderEpochError):
        partition.check_leader(4)
    with pytest.raises(UnknownLeaderEpochError):
        partition.check_leader(6)


def test_too_few_in_sync_replicas_before_and_after(tmp_path: Path) -> None:
    partition = Node(tmp_path, LogConfig(min_insync_replicas=2)).partition(isr=(ME, 2), replicas=(ME, 2))
    partition.append(batch(), required_acks=ALL_IN_SYNC)
    partition.follower_fetched(2, 1, 0)
    assert partition.is_acknowledged(1)
    partition.isr = InSyncReplicas((ME,))
    with pytest.raises(NotEnoughReplicasAfterAppendError):
        partition.is_acknowledged(1)
    with pytest.raises(NotEnoughReplicasError):
        partition.append(batch(), required_acks=ALL_IN_SYNC)
    assert partition.append(batch(), required_acks=1).first_offset == 1


def test_a_new_term_begins_at_the_logs_end(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition()
    partition.append(batch(4))
    partition.make_leader(state(epoch=3, isr=(ME, 2), replicas=(ME, 2)))
    assert (partition.epoch_start_offset, partition.leader_epoch) == (4, 3)
    assert partition.log.leader_epochs.end_offset_for(0) == (0, 4)
    assert partition.log.high_watermark == 4
    remote = partition.remotes[2]
    partition.make_leader(state(epoch=3, isr=(ME,), replicas=(ME, 2)))
    assert partition.remotes[2] is remote
    partition.make_follower(state(leader=-1, epoch=4))
    assert (partition.is_leader, partition.remotes) == (False, {})


def test_on_a_full_disk_it_leads_and_the_first_record_notes_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    node.partition().append(batch())
    files = node.logs.storage.files
    refused = OSError(errno.ENOSPC, "No space left on device")

    def refuse(*_: object, **__: object) -> None:
        raise refused

    with monkeypatch.context() as full:
        full.setattr(files, "replace", refuse)
        partition = node.partition(epoch=1)
        partition.check_leader()
        assert partition.log.read(0, 1000).records
        with pytest.raises(KafkaStorageError):
            partition.append(batch())
    assert partition.append(batch()).first_offset == 1
    assert partition.log.leader_epochs.entries == [(0, 0), (1, 1)]
    refused = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(files, "replace", refuse)
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        node.partition(epoch=2)
    assert (partition.leader_epoch, partition.epoch_start_offset) == (1, 1)
    node.clock.advance(0)
    assert node.logs.directories.online == []
