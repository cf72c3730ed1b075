from collections.abc import Callable
from typing import Any

import pytest

from kafkapy.coordinator.transaction.transaction import InitializeCall, ProducerIdAndEpoch
from kafkapy.java_hashing import partition_for
from kafkapy.metadata.errors import NotEnoughReplicasError, NotLeaderOrFollowerError
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import GROUPS, OTHER, SHARD, TransactionWorld, markers
from tests.coordinator.world import TP

NOBODYS = ProducerIdAndEpoch(5, 0)


def test_requests_need_a_transactional_id() -> None:
    world = TransactionWorld()
    assert world.initialize("").error_code == 42
    assert world.add(NOBODYS, name="") == 42
    assert world.end(NOBODYS, name="") == 42


def test_a_transactional_id_must_exist() -> None:
    world = TransactionWorld()
    assert (world.add(NOBODYS), world.end(NOBODYS)) == (49, 49)


def test_a_transactional_id_must_be_kept_by_this_broker() -> None:
    world = TransactionWorld()
    world.resign(TopicPartition("t", 0), 1)
    world.resign(SHARD, 1)
    world.lead(TopicPartition("t", 0), 1)
    assert (world.initialize().error_code, world.add(NOBODYS), world.end(NOBODYS)) == (16, 16, 16)


def test_a_transactional_id_is_described() -> None:
    world = TransactionWorld()
    assert (world.coordinator.describe("x"), world.coordinator.describe("")) == (105, 42)
    producer = world.producer()
    world.add(producer, TP)
    described = world.coordinator.describe("x")
    assert not isinstance(described, int)
    assert (described.producer_id, described.partitions) == (producer.producer_id, (TP,))
    world.resign(SHARD, 1)
    assert world.coordinator.describe("x") == 16


def _listed(world: TransactionWorld, *filters: Any) -> tuple[int, list[str]]:
    states, producer_ids, duration_ms = filters or ((), (), -1)
    code, found = finish(world.coordinator.list(frozenset(states), frozenset(producer_ids), duration_ms))
    return code, [each.transactional_id for each in found]


def test_transactional_ids_are_listed_by_state_producer_and_duration() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.add(producer, TP)
    assert world.initialize("idle").error_code == 0
    assert _listed(world) == (0, ["x", "idle"])
    assert _listed(world, ["Ongoing"], [], -1) == _listed(world, [], [producer.producer_id], -1) == (0, ["x"])
    assert _listed(world, ["Ongoing"], [5], -1) == (0, [])
    assert _listed(world, [], [], 1_000) == (0, ["idle"])
    world.clock.advance(1_001)
    assert _listed(world, [], [], 1_000) == (0, ["x", "idle"])


def test_nothing_is_listed_while_the_coordinator_loads_or_is_stopped() -> None:
    world = TransactionWorld()
    world.producer()
    steps: list[Steps[None]] = []
    world.run = steps.append
    world.coordinator.shutdown()
    assert _listed(world) == (15, [])
    world.start(1)
    assert _listed(world) == (14, [])
    for each in steps:
        finish(each)
    assert _listed(world) == (0, ["x"])


@pytest.mark.parametrize(("timeout_ms", "code"), [(0, 50), (-1, 50), (1, 0), (900_000, 0), (900_001, 50)])
def test_the_time_out_has_a_limit(timeout_ms: int, code: int) -> None:
    assert TransactionWorld().initialize(timeout_ms=timeout_ms).error_code == code


def test_the_number_of_partitions_is_that_of_the_topic_in_the_metadata_store() -> None:
    world = TransactionWorld(leads=False, transaction_state_log_num_partitions=50)
    assert world.coordinator.partition_for("x") == partition_for("x", 50)
    world.broker.set_partition_count(SHARD.topic, 3)
    assert world.coordinator.partition_for("xyz") == partition_for("xyz", 3)
    world.broker.set_partition_count(SHARD.topic, 50)
    assert world.coordinator.partition_for("xyz") == partition_for("xyz", 3)


def test_a_producer_id_is_only_requested_when_it_is_needed() -> None:
    world = TransactionWorld()
    assert world.coordinator.initialize(InitializeCall("x", 1)) is None
    world.producer()
    assert world.coordinator.initialize(InitializeCall("x", 1)) is not None
    world.transaction().data = world.transaction().data._replace(producer_epoch=32_766)
    assert world.coordinator.initialize(InitializeCall("x", 1)) is None
    assert world.initialize() == (0, 1001, 0)


def test_an_id_that_the_log_refused_is_kept_for_the_next_attempt() -> None:
    world = TransactionWorld()
    world.broker.error = NotEnoughReplicasError()
    assert world.initialize() == (15, -1, -1)
    world.broker.error = None
    assert world.initialize() == (0, 1000, 0)


def test_a_new_producer_aborts_the_open_transaction_of_its_predecessor() -> None:
    world = TransactionWorld()
    old = world.producer()
    world.add(old, TP, GROUPS)
    world.write(old, b"left")
    world.commit_offset(old, 7)
    assert world.initialize() == (51, -1, -1)
    assert markers(world.broker.log(TP)) == [(0, old.producer_id, 1, 0)]
    assert (world.add(old), world.end(old)) == (90, 90)
    new = world.producer()
    assert new == (old.producer_id, 2)
    assert world.states() == ["EMPTY", "ONGOING", "PREPARE_ABORT", "COMPLETE_ABORT", "EMPTY"]
    assert (world.committed(), world.groups.fetch()) == ([], -1)


def test_a_fencing_that_the_log_refuses_fences_nevertheless() -> None:
    world = TransactionWorld()
    old = world.producer()
    world.add(old)
    world.broker.errors[SHARD] = NotEnoughReplicasError()
    assert world.initialize().error_code == 15
    assert world.end(old) == 90
    assert world.initialize().error_code == 15
    world.broker.errors.clear()
    assert world.initialize().error_code == 51
    assert world.producer() == (old.producer_id, 2)


def test_requests_while_a_fencing_is_being_appended() -> None:
    world = TransactionWorld()
    old = world.producer()
    world.add(old)
    world.broker.slow.add(SHARD)
    first = world.ask_initialize()
    assert not first.is_set
    assert (world.initialize().error_code, world.end(old), world.add(old)) == (51, 90, 90)
    world.broker.slow.clear()
    world.broker.acknowledge()
    assert first.value == (51, -1, -1)
    assert world.states()[-1] == "COMPLETE_ABORT"


def test_a_new_producer_id_follows_the_last_epoch() -> None:
    world = TransactionWorld()
    world.producer()
    world.transaction().data = world.transaction().data._replace(producer_epoch=32_765)
    last = world.producer()
    assert last == (1000, 32_766)
    world.add(last)
    assert world.initialize().error_code == 51
    assert world.transaction().data.producer_epoch == 32_767
    assert world.producer() == (1001, 0)
    assert world.add(last) == 49


def test_an_open_transaction_is_aborted_when_its_time_is_over() -> None:
    world = TransactionWorld()
    producer = world.producer(timeout_ms=4_000)
    world.clock.advance(7_000)
    world.add(producer, TP, OTHER)
    world.clock.advance(3_000)  # the check after 10 s: not timed out yet
    assert world.states()[-1] == "ONGOING"
    world.clock.advance(9_999)
    assert world.states()[-1] == "ONGOING"
    world.clock.advance(1)
    assert world.states()[-2:] == ["PREPARE_ABORT", "COMPLETE_ABORT"]
    assert markers(world.broker.log(OTHER)) == [(0, producer.producer_id, 1, 0)]
    assert world.end(producer) == 90
    assert world.producer().epoch == 2


def test_a_transaction_with_a_pending_transition_is_not_aborted() -> None:
    world = TransactionWorld()
    producer = world.producer(timeout_ms=1)
    world.add(producer)
    world.broker.slow.add(SHARD)
    ended = world.ask_end(producer)
    world.clock.advance(20_000)
    world.broker.slow.clear()
    world.broker.acknowledge()
    assert (ended.value.error_code, world.states()[-1]) == (0, "COMPLETE_COMMIT")


def test_a_time_out_that_the_log_refuses_is_tried_at_the_next_check(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = TransactionWorld()
    producer = world.producer(timeout_ms=1)
    world.add(producer)
    world.broker.errors[SHARD] = NotLeaderOrFollowerError()
    world.clock.advance(10_000)
    assert "Aborted the transaction of x after its time-out: error 16" in caplog.text
    world.broker.errors.clear()
    world.clock.advance(10_000)
    assert world.states()[-1] == "COMPLETE_ABORT"
    assert markers(world.broker.log(TP)) == [(0, producer.producer_id, 1, 0)]


def test_the_time_out_continues_after_a_restart() -> None:
    world = TransactionWorld()
    world.add(world.producer(timeout_ms=15_000))
    world.clock.advance(9_000)
    world.restart()
    world.clock.advance(10_000)
    assert world.states()[-1] == "COMPLETE_ABORT"


def test_offsets_and_records_are_committed_together() -> None:
    world = TransactionWorld()
    producer = world.producer()
    for number, commit in enumerate([True, False, True]):
        world.add(producer, TP)
        world.add(producer, GROUPS)
        world.write(producer, b"%d" % number)
        assert world.commit_offset(producer, number) == 0
        assert finish(world.groups.coordinator.fetch_offsets("g", [TP], require_stable=True))[1][TP].error_code == 88
        assert world.end(producer, commit=commit) == 0
        assert world.groups.fetch() == (number if commit else 0)
    assert world.committed() == [b"0", b"2"]


def test_a_transaction_continues_after_a_restart() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.restart()
    assert world.add(producer) == 0
    world.stop()
    assert world.add(producer) == 16


def test_stopping_while_loading() -> None:
    world = TransactionWorld()
    for number in range(3):
        world.initialize(f"x{number}")
    world.log.one_batch_per_read = True
    later: list[Steps[None]] = []
    world.run = later.append
    world.restart()
    (load,) = later
    next(load)
    world.stop()
    assert list(load) == []
    assert not world.coordinator._runtime.loading


def test_timed_out_transactions_are_aborted_in_pieces_until_an_unload() -> None:
    world = TransactionWorld()
    later: list[Steps[None]] = []
    world.run = later.append
    world.restart()
    finish(later.pop())
    for number in range(130):
        producer = world.producer(f"x{number}", timeout_ms=1)
        assert world.add(producer, name=f"x{number}") == 0
    world.clock.advance(10_000)
    (steps,) = later
    next(steps)
    assert [each.data.state.name for each in world.shard.transactions.values()].count("PREPARE_ABORT") == 1
    written = len(world.log.batches)
    world.resign(SHARD, 9)
    for each in later:
        finish(each)
    assert len(world.log.batches) == written


@pytest.mark.parametrize("is_acknowledged_later", [False, True])
def test_a_transaction_that_its_producer_ends_between_two_time_outs_is_not_aborted(is_acknowledged_later: bool) -> None:
    """The other timed-out transactions are aborted; the commit waits for the replicas of its record, or does not."""
    world = TransactionWorld()
    steps_later: list[Steps[None]] = []
    world.run = steps_later.append
    soon: list[Callable[[], None]] = []
    world.soon = soon.append
    world.restart()
    finish(steps_later.pop())
    for name in ("a", "x", "z"):
        producer = world.producer(name, timeout_ms=1)
        assert world.add(producer, TP, OTHER, name=name) == 0
        if name == "x":
            ended = producer
    world.write(ended, b"X")
    world.clock.advance(10_000)
    (time_outs,) = steps_later
    steps_later.clear()
    if is_acknowledged_later:
        world.broker.slow.add(SHARD)
    next(time_outs)
    answer = world.ask_end(ended, commit=True, name="x")
    finish(time_outs)
    for _ in range(5):
        world.broker.acknowledge()
        for step in [*soon]:
            soon.remove(step)
            step()
        for steps in [*steps_later]:
            steps_later.remove(steps)
            finish(steps)
    assert answer.value.error_code == 0
    assert world.committed() == [b"X"]
    states = {name: each.data.state.name for name, each in world.shard.transactions.items()}
    assert states == {"a": "COMPLETE_ABORT", "x": "COMPLETE_COMMIT", "z": "COMPLETE_ABORT"}
