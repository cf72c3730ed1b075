"""A partition as leader and follower."""

from pathlib import Path

import pytest

from kafkapy.cluster.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from kafkapy.cluster.isr import InSyncReplicas
from kafkapy.cluster.partition import ALL_IN_SYNC
from kafkapy.config.log_config import LogConfig
from tests.cluster.logs import ME, Node, batch, state


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
    assert not partition.follower_fetched(2, 0, 0)
    assert partition.follower_fetched(2, 2, 0)
    assert partition.log.high_watermark == 2
    assert not partition.follower_fetched(2, 1, 0)
    assert partition.log.high_watermark == 2


def test_a_follower_that_caught_up_may_join(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(isr=(ME,), replicas=(ME, 2))
    partition.append(batch(2))
    assert partition.replicas_that_may_join() == []
    partition.follower_fetched(2, 2, 0)
    assert partition.replicas_that_may_join() == [2]
    partition.isr = InSyncReplicas((ME,), (ME, 2))
    assert partition.replicas_that_may_join() == []


def test_strangers_can_not_fetch_as_followers(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition()
    with pytest.raises(NotLeaderOrFollowerError):
        partition.follower_fetched(9, 0, 0)


def test_a_follower_neither_appends_nor_reads_nor_acknowledges(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(leader=2, isr=(2, ME), replicas=(2, ME))
    with pytest.raises(NotLeaderOrFollowerError):
        partition.append(batch())
    with pytest.raises(NotLeaderOrFollowerError):
        partition.read(0, 100, up_to_offset=None)
    with pytest.raises(NotLeaderOrFollowerError):
        partition.is_acknowledged(0)


def test_epochs_are_compared(tmp_path: Path) -> None:
    partition = Node(tmp_path).partition(epoch=5)
    partition.append(batch())
    assert len(partition.read(0, 1000, up_to_offset=1, current_leader_epoch=5).records) > 0
    partition.check_leader()
    with pytest.raises(FencedLeaderEpochError):
        partition.check_leader(4)
    with pytest.raises(UnknownLeaderEpochError):
        partition.read(0, 1000, up_to_offset=1, current_leader_epoch=6)


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
