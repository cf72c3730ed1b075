import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace

import pytest

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.transaction.marker_channel import MarkerErrors
from kafkapy.coordinator.transaction.marker_sender import DELETED, NAMED_PARTITIONS, OTHERS_AT_ONCE, OWN_AT_ONCE
from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from kafkapy.network.peer import RETRY_MS
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.errors import RecordTooLargeError
from kafkapy.storage.errors import InvalidProducerEpochError, TransactionCoordinatorFencedError
from kafkapy.turns import Steps, finish
from kafkapy.types import NO_LEADER, TopicPartition
from tests.coordinator.transaction.world import (
    ELSEWHERE,
    GROUPS,
    HERE,
    OTHER,
    SHARD,
    TransactionWorld,
    image,
    markers,
)
from tests.coordinator.world import TP


def waiting(world: TransactionWorld) -> int:
    return len(world.coordinator._runtime.markers)


@pytest.mark.parametrize(("commit", "name"), [(True, "COMMIT"), (False, "ABORT")])
def test_a_transaction_has_ended_when_its_end_is_answered(commit: bool, name: str) -> None:
    world = TransactionWorld()
    producer = world.producer()
    assert world.add(producer, TP, OTHER, GROUPS) == 0
    assert world.end(producer, commit=commit) == 0
    assert world.states() == ["EMPTY", "ONGOING", f"PREPARE_{name}", f"COMPLETE_{name}"]
    for tp in (TP, OTHER, GROUPS):
        assert markers(world.broker.log(tp)) == [(int(commit), *producer, 0)]
    assert world.add(producer) == 0  # not CONCURRENT_TRANSACTIONS
    assert world.clock.pending_timers() == world.groups.clock.pending_timers()
    assert world.coordinator._runtime.markers._timer is None


@pytest.mark.parametrize("commit", [True, False])
def test_the_answer_leaves_before_the_markers_are_written(commit: bool) -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP, GROUPS)
    steps: list[Callable[[], None]] = []
    world.soon = steps.append
    assert world.end(producer, commit=commit) == 0
    assert (markers(world.broker.log(TP)), world.states()[-1][:8], waiting(world)) == ([], "PREPARE_", 1)
    assert (world.add(producer), world.end(producer, commit=commit)) == (51, 51)  # the log says how it ends
    steps.pop()()
    assert steps == []
    for tp in (TP, GROUPS):
        assert markers(world.broker.log(tp)) == [(int(commit), *producer, 0)]
    assert (world.states()[-1][:9], waiting(world), world.add(producer)) == ("COMPLETE_", 0, 0)


@pytest.mark.parametrize("meanwhile", ["stop", "led elsewhere", "tried again"])
def test_markers_that_are_sent_too_late(meanwhile: str) -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP)
    steps: list[Callable[[], None]] = []
    world.soon = steps.append
    assert world.end(producer) == 0
    if meanwhile == "stop":
        world.stop()
    elif meanwhile == "led elsewhere":
        world.resign(SHARD, 1)
    else:
        world.coordinator._runtime.markers.try_again()
    written = markers(world.broker.log(TP))
    assert len(written) == (meanwhile == "tried again")
    steps.pop()()
    assert (markers(world.broker.log(TP)), waiting(world)) == (written, 0)


def test_the_answer_does_not_wait_for_markers() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP, OTHER)
    world.broker.slow.add(OTHER)
    assert world.end(producer) == 0
    assert (world.add(producer), world.end(producer), world.initialize().error_code) == (51, 51, 51)
    world.clock.advance(RETRY_MS * 3)
    assert len(markers(world.broker.log(OTHER))) == 1  # no second marker while the first is being appended
    world.broker.acknowledge()
    assert waiting(world) == 0
    assert (world.states()[-1], world.end(producer)) == ("COMPLETE_COMMIT", 0)


@pytest.mark.parametrize(
    "error",
    [
        UnknownTopicOrPartitionError(),
        NotLeaderOrFollowerError(),
        NotEnoughReplicasError(),
        RequestTimedOutError(),
        KafkaStorageError(),
    ],
)
def test_temporary_errors_are_retried(error: BrokerError, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP, OTHER)
    world.broker.errors[OTHER] = error
    assert world.end(producer) == 0
    world.clock.advance(RETRY_MS * 2)
    assert (world.states()[-1], world.add(producer)) == ("PREPARE_COMMIT", 51)
    del world.broker.errors[OTHER]
    world.clock.advance(RETRY_MS)
    assert world.states()[-1] == "COMPLETE_COMMIT"
    assert len(markers(world.broker.log(TP))) == 1  # this partition had its marker already
    assert caplog.text.count("The end of the transaction of x waits for markers in t-1") == 1


@pytest.mark.parametrize("error", [InvalidProducerEpochError(), TransactionCoordinatorFencedError()])
def test_a_fenced_marker_ends_the_attempts(error: BrokerError, caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP, OTHER)
    world.broker.errors[TP] = error
    assert world.end(producer) == 0
    assert "refused the marker of Transaction('x'" in caplog.text
    world.broker.errors.clear()
    world.clock.advance(RETRY_MS)
    assert (waiting(world), world.add(producer)) == (0, 51)
    world.restart()
    assert world.add(producer) == 0


def test_partitions_in_an_old_format_get_no_marker() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.log(TP).policy.magic = 1
    world.end(producer)
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_partitions_that_were_deleted_are_left_out() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP, OTHER)
    world.broker.absent[OTHER] = UnknownTopicOrPartitionError()
    world.broker.image = image({SHARD: HERE, TP: HERE})  # type: ignore[assignment]  # a real one
    world.end(producer)
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_a_partition_without_leader_is_retried() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.absent[TP] = UnknownTopicOrPartitionError()
    world.broker.image = image({SHARD: HERE, TP: -1})  # type: ignore[assignment]  # a real one
    world.end(producer)
    assert waiting(world) == 1
    del world.broker.absent[TP]
    for listener in world.broker.metadata_listeners:
        listener(world.broker.image, [])
    assert waiting(world) == 0


@pytest.mark.parametrize("error", [NotEnoughReplicasError(), KafkaStorageError("No space left on device")])
def test_the_completing_record_is_tried_again(error: BrokerError) -> None:
    """A broker with a full disk still leads the partition; the transaction must not wait until that changes."""
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.slow.add(TP)
    world.end(producer)
    world.broker.errors[SHARD] = error
    world.broker.acknowledge()
    assert (world.states()[-1], world.add(producer)) == ("PREPARE_COMMIT", 51)
    world.clock.advance(RETRY_MS)
    world.broker.errors.clear()
    world.clock.advance(RETRY_MS)
    assert (world.states()[-1], world.add(producer)) == ("COMPLETE_COMMIT", 0)


def test_a_completing_record_that_can_not_be_written(caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.slow.add(TP)
    world.end(producer)
    world.broker.errors[SHARD] = RecordTooLargeError("the record is too large")
    world.broker.acknowledge()
    assert waiting(world) == 0
    assert "Could not complete Transaction('x'" in caplog.text


def test_a_restart_ends_prepared_transactions() -> None:
    world = TransactionWorld()
    committing, aborting = world.producer("c"), world.producer("a")
    world.add(committing, TP, OTHER, name="c")
    world.add(aborting, TP, name="a")
    world.producer("idle")
    world.broker.errors[TP] = NotLeaderOrFollowerError()
    world.end(committing, name="c")
    world.end(aborting, name="a", commit=False)
    world.restart(leader_epoch=3)
    assert world.add(committing, name="c") == 51
    world.broker.errors.clear()
    world.clock.advance(RETRY_MS)
    assert markers(world.broker.log(TP)) == [(1, *committing, 3), (0, *aborting, 3)]
    assert markers(world.broker.log(OTHER)) == [(1, *committing, 0), (1, *committing, 3)]
    assert world.add(committing, name="c") == 0
    assert waiting(world) == 0


def test_the_next_coordinator_ends_prepared_transactions() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP, OTHER)
    world.broker.slow.add(TP)
    world.broker.errors[OTHER] = NotLeaderOrFollowerError()
    world.end(producer)
    world.resign(SHARD, 1)
    assert waiting(world) == 0
    world.broker.errors.clear()
    world.broker.acknowledge()  # too late to matter
    world.clock.advance(RETRY_MS)
    assert world.states()[-1] == "PREPARE_COMMIT"
    assert markers(world.broker.log(OTHER)) == []


def test_a_shard_unloaded_while_the_completing_record_is_written() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.slow.add(TP)
    world.end(producer)
    world.broker.slow.add(SHARD)
    world.broker.acknowledge()
    world.resign(SHARD, 1)
    world.broker.acknowledge()
    assert waiting(world) == 0


def test_forgetting_one_shard_keeps_the_transactions_of_others() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.slow.add(TP)
    world.end(producer)
    world.coordinator._runtime.markers.forget(SimpleNamespace())  # type: ignore[arg-type]  # another shard
    assert waiting(world) == 1


def test_stopping_leaves_no_timer() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer)
    world.broker.errors[TP] = NotLeaderOrFollowerError()
    world.end(producer)
    world.stop()
    world.groups.coordinator.shutdown()
    assert world.clock.pending_timers() == 0


MANY = [TopicPartition("many", index) for index in range(300)]


def ending() -> tuple[TransactionWorld, list[Steps[None]]]:
    """A world in which a transaction of 300 partitions is being ended, and the running steps."""
    world = TransactionWorld()
    world.broker.image = image(dict.fromkeys([SHARD, *MANY], HERE))  # type: ignore[assignment]  # a real one
    producer = world.producer()
    assert world.add(producer, *MANY) == 0
    running: list[Steps[None]] = []
    world.run = running.append
    world.coordinator._runtime.markers._run = world.run
    assert world.end(producer) == 0
    return world, running


def marked(world: TransactionWorld) -> int:
    return sum(len(markers(world.broker.log(tp))) for tp in MANY)


def test_markers_of_many_partitions_are_written_in_steps() -> None:
    world, (sending,) = ending()
    per_step = []
    for _ in sending:
        per_step.append(marked(world))
    assert max(after - before for before, after in pairwise([0, *per_step])) <= OWN_AT_ONCE
    assert (marked(world), waiting(world), world.states()[-1]) == (len(MANY), 0, "COMPLETE_COMMIT")
    assert len(per_step) > len(MANY) // OWN_AT_ONCE


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("end", ["led elsewhere", "stop"])
def test_the_shard_is_unloaded_between_two_steps(end: str, steps: int) -> None:
    world, (sending,) = ending()
    for _ in range(steps):
        next(sending)
    before = marked(world)
    if end == "stop":
        world.stop()
    else:
        world.resign(SHARD, 1)
    finish(sending)
    assert (marked(world), waiting(world), world.states()[-1]) == (before, 0, "PREPARE_COMMIT")


def test_markers_that_are_being_sent_are_not_sent_again() -> None:
    world, running = ending()
    for _ in range(5):
        next(running[0])
    world.coordinator._runtime.markers.try_again()
    world.coordinator._runtime.markers.try_again()
    assert len(running) == 2
    finish(running[1])
    assert 0 < marked(world) < len(MANY)
    finish(running[0])
    assert (marked(world), world.states()[-1]) == (len(MANY), "COMPLETE_COMMIT")


def test_a_retry_that_is_requested_during_a_retry() -> None:
    world, running = ending()
    world.broker.errors = dict.fromkeys(MANY, NotLeaderOrFollowerError())
    finish(running.pop())
    world.coordinator._runtime.markers.try_again()
    trying = running.pop()
    for _ in range(5):
        next(trying)
    world.broker.errors.clear()
    world.coordinator._runtime.markers.try_again()
    assert running == []
    finish(trying)
    assert (marked(world), world.states()[-1]) == (len(MANY), "COMPLETE_COMMIT")


def test_the_log_line_names_only_some_of_the_missing_partitions(caplog: pytest.LogCaptureFixture) -> None:
    world, running = ending()
    world.broker.errors = dict.fromkeys(MANY, NotLeaderOrFollowerError())
    with caplog.at_level(logging.INFO):
        finish(running.pop())
    assert caplog.text.count("many-") == NAMED_PARTITIONS
    assert f"and {len(MANY) - NAMED_PARTITIONS} more" in caplog.text


class Remote:
    """Other brokers, which answer when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Ending, list[TopicPartition], Answer[MarkerErrors]]] = []

    def send(self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition]) -> Answer[MarkerErrors]:
        answer: Answer[MarkerErrors] = Answer()
        self.asked.append((broker_id, ending, list(partitions), answer))
        return answer


def elsewhere(*partitions: TopicPartition) -> tuple[TransactionWorld, Remote]:
    """A world in which the broker of a partition's number, plus ``ELSEWHERE``, leads it."""
    world, remote = TransactionWorld(), Remote()
    world.coordinator._runtime.markers._channel = remote  # type: ignore[assignment]  # without a network
    world.broker.absent = dict.fromkeys(partitions, NotLeaderOrFollowerError())
    leaders = {SHARD: HERE} | {each: ELSEWHERE + each.partition for each in partitions}
    world.broker.image = image(leaders)  # type: ignore[assignment]  # a real one
    return world, remote


def test_each_leader_gets_one_request(caplog: pytest.LogCaptureFixture) -> None:
    first = TopicPartition("u", 0)
    world, remote = elsewhere(TP, first, OTHER)
    producer = world.producer()
    world.add(producer, TP, first, OTHER)
    with caplog.at_level(logging.ERROR):
        world.end(producer, commit=False)
    assert [(broker, ending.is_commit, tps) for broker, ending, tps, _ in remote.asked] == [
        (ELSEWHERE, False, [TP, first]),
        (ELSEWHERE + 1, False, [OTHER]),
    ]
    remote.asked[0][3].set({TP: 0, first: 6})
    remote.asked[1][3].set({OTHER: 0})
    world.clock.advance(RETRY_MS)
    assert [tps for _, _, tps, _ in remote.asked[2:]] == [[first]]
    remote.asked[2][3].set({first: 0})
    assert world.states()[-1] == "COMPLETE_ABORT"
    assert caplog.text == ""


def test_one_request_has_a_bounded_number_of_markers() -> None:
    partitions = [TopicPartition(f"u{number}", 0) for number in range(OTHERS_AT_ONCE + 1)]
    world, remote = elsewhere(*partitions)
    producer = world.producer()
    world.add(producer, *partitions)
    world.end(producer)
    assert [len(tps) for _, _, tps, _ in remote.asked] == [OTHERS_AT_ONCE, 1]


def test_the_leader_of_a_partition() -> None:
    world, third = TransactionWorld(), TopicPartition("u", 0)
    world.broker.image = image({SHARD: HERE, OTHER: ELSEWHERE})  # type: ignore[assignment]  # a real one
    for tp in (OTHER, third):
        world.broker.absent[tp] = NotLeaderOrFollowerError()
    leader_of = world.coordinator._runtime.markers.leader_of
    assert leader_of(TP) == HERE  # as the log says, though the cluster's metadata does not yet
    assert leader_of(OTHER) == ELSEWHERE
    assert leader_of(third) == DELETED


def test_a_partial_image_shows_no_deleted_topics() -> None:
    world = TransactionWorld()
    world.broker.image = image({SHARD: HERE, OTHER: HERE})  # type: ignore[assignment]  # a real one
    world.broker.absent[TP] = NotLeaderOrFollowerError()
    world.broker.is_whole = False
    leader_of = world.coordinator._runtime.markers.leader_of
    assert leader_of(TP) == NO_LEADER
    world.broker.is_whole = True
    assert leader_of(TP) == DELETED
