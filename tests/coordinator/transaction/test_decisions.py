import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.decisions import (
    add_partitions,
    complete,
    end,
    expired,
    fence,
    initialize,
    new_transaction,
    timed_out,
    verify,
)
from kafkapy.coordinator.transaction.states import TransactionState
from kafkapy.coordinator.transaction.transaction import (
    EPOCH_PER_TRANSACTION,
    MAX_EPOCH,
    NO_ID_AND_EPOCH,
    AddCall,
    EndCall,
    Ended,
    InitializeCall,
    Initialized,
    ProducerIdAndEpoch,
    Transaction,
    TransactionData,
    Transition,
)
from tests.coordinator.transaction.world import OTHER, TransactionWorld
from tests.coordinator.world import TP

NOW_MS = 77
LAST = 32_766
PRODUCER = ProducerIdAndEpoch(10, 3)


def transaction(
    epoch: int = 3, previous: ProducerIdAndEpoch = NO_ID_AND_EPOCH, state: states.TransactionState = states.EMPTY
) -> Transaction:
    made = Transaction("x", TransactionData(10, epoch, 60_000, state))
    made.previous = previous
    return made


def ask(
    made: Transaction, expected: ProducerIdAndEpoch = NO_ID_AND_EPOCH, new_id: int | None = None
) -> tuple[Transition | None, Initialized] | None:
    return initialize(made, InitializeCall("x", 5_000, expected), NOW_MS, new_id)


def given(
    producer_id: int, epoch: int, previous: ProducerIdAndEpoch, id_before: int | None = None
) -> tuple[Transition, Initialized]:
    id_before = previous.producer_id if id_before is None else id_before
    made = TransactionData(producer_id, epoch, 5_000, states.EMPTY, (), NOW_MS, -1, previous_producer_id=id_before)
    return Transition(made, previous), Initialized(0, producer_id, epoch)


def refused(error_code: int) -> tuple[None, Initialized]:
    return None, Initialized(error_code)


def test_a_new_transactional_id_begins_with_epoch_0() -> None:
    made = new_transaction(InitializeCall("x", 5_000), 12, NOW_MS)
    assert ask(made) == given(12, 0, ProducerIdAndEpoch(12, -1))
    assert ask(made, ProducerIdAndEpoch(99, 5)) == given(12, 0, ProducerIdAndEpoch(12, -1))


@pytest.mark.parametrize("state", [states.EMPTY, states.COMPLETE_COMMIT, states.COMPLETE_ABORT])
def test_each_producer_gets_the_next_epoch(state: states.TransactionState) -> None:
    assert ask(transaction(state=state)) == given(10, 4, ProducerIdAndEpoch(10, -1))


def test_a_producer_that_names_itself_gets_the_next_epoch_and_may_repeat() -> None:
    made = transaction()
    assert ask(made, ProducerIdAndEpoch(10, 3)) == given(10, 4, ProducerIdAndEpoch(10, 3))
    made = transaction(4, ProducerIdAndEpoch(10, 3))
    assert ask(made, ProducerIdAndEpoch(10, 3)) == given(10, 4, ProducerIdAndEpoch(10, 3))


@pytest.mark.parametrize(
    "expected",
    [ProducerIdAndEpoch(10, 2), ProducerIdAndEpoch(10, 4), ProducerIdAndEpoch(11, 3), ProducerIdAndEpoch(9, LAST)],
)
def test_a_producer_that_was_replaced_is_fenced(expected: ProducerIdAndEpoch) -> None:
    assert ask(transaction(previous=ProducerIdAndEpoch(10, 1)), expected) == refused(90)


@pytest.mark.parametrize("epoch", [LAST, LAST + 1])
def test_a_new_producer_id_is_needed_when_the_epochs_are_used_up(epoch: int) -> None:
    assert ask(transaction(epoch)) is None
    assert ask(transaction(epoch), new_id=20) == given(20, 0, ProducerIdAndEpoch(10, -1))
    assert ask(transaction(epoch), ProducerIdAndEpoch(10, epoch), 20) == given(20, 0, ProducerIdAndEpoch(10, epoch))


def test_a_producer_without_its_new_id_may_repeat() -> None:
    made = Transaction("x", TransactionData(20, 0, 5_000))
    made.previous = ProducerIdAndEpoch(10, LAST)
    assert ask(made, ProducerIdAndEpoch(10, LAST)) == given(20, 0, ProducerIdAndEpoch(10, LAST), 20)
    assert ask(made, ProducerIdAndEpoch(10, LAST - 1)) == refused(90)


def test_a_producer_without_its_last_epoch_may_repeat() -> None:
    made = transaction(LAST, ProducerIdAndEpoch(10, LAST - 1))
    assert ask(made, ProducerIdAndEpoch(10, LAST - 1)) == given(10, LAST, ProducerIdAndEpoch(10, LAST - 1))


def test_an_open_transaction_is_aborted_first() -> None:
    fenced = TransactionData(10, 4, 60_000, states.PREPARE_ABORT, (), NOW_MS, previous_producer_id=10)
    aborted = Transition(fenced, NO_ID_AND_EPOCH)
    for expected in (NO_ID_AND_EPOCH, ProducerIdAndEpoch(10, 3)):
        made = transaction(state=states.ONGOING)
        assert ask(made, expected) == (aborted, Initialized(51))
        assert made.producer_epoch == 4  # the producer is fenced at once
    assert ask(transaction(state=states.ONGOING), ProducerIdAndEpoch(9, 3)) == refused(90)


@pytest.mark.parametrize("state", sorted(states.PREPARED))
def test_a_prepared_transaction_is_concurrent(state: states.TransactionState) -> None:
    assert ask(transaction(state=state)) == refused(51)


def test_a_pending_transition_is_concurrent() -> None:
    made = transaction()
    made.has_pending_transition = True
    assert ask(made, ProducerIdAndEpoch(9, 9)) == refused(51)


def test_the_transition_has_the_new_producer() -> None:
    world = TransactionWorld()
    assert world.initialize() == (0, 1000, 0)
    assert world.initialize(timeout_ms=7) == (0, 1000, 1)
    world.restart()
    assert world.initialize() == (0, 1000, 2)
    assert [each and each.timeout_ms for each in world.written()] == [60_000, 7, 60_000]


# AddPartitionsToTxn


def with_partitions(state: states.TransactionState, *partitions: object) -> Transaction:
    return Transaction("x", TransactionData(10, 3, 60_000, state, partitions, 5, 4))  # type: ignore[arg-type]  # partitions


def call(*partitions: object, producer: ProducerIdAndEpoch = PRODUCER) -> AddCall:
    return AddCall("x", producer, partitions)  # type: ignore[arg-type]  # partitions


@pytest.mark.parametrize("state", [states.EMPTY, states.COMPLETE_COMMIT, states.COMPLETE_ABORT])
def test_the_first_partition_begins_the_transaction(state: states.TransactionState) -> None:
    expected = TransactionData(10, 3, 60_000, states.ONGOING, (TP,), 9, 9, previous_producer_id=10)
    assert add_partitions(with_partitions(state), call(TP), 9) == (Transition(expected), 0)


def test_more_partitions_keep_the_start_time() -> None:
    expected = TransactionData(10, 3, 60_000, states.ONGOING, (TP, OTHER), 9, 4, previous_producer_id=10)
    assert add_partitions(with_partitions(states.ONGOING, TP), call(OTHER, TP), 9) == (Transition(expected), 0)


def test_known_partitions_need_no_record() -> None:
    assert add_partitions(with_partitions(states.ONGOING, TP, OTHER), call(OTHER), 9) == (None, 0)


@pytest.mark.parametrize("state", sorted(states.PREPARED))
def test_no_partitions_are_added_to_a_prepared_transaction(state: states.TransactionState) -> None:
    assert add_partitions(with_partitions(state, TP), call(OTHER), 9) == (None, 51)


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (ProducerIdAndEpoch(11, 3), 49),
        (ProducerIdAndEpoch(10, 2), 90),
        (ProducerIdAndEpoch(10, 4), 90),
        (ProducerIdAndEpoch(-1, -1), 49),
    ],
)
def test_partitions_are_added_only_for_the_present_producer(producer: ProducerIdAndEpoch, code: int) -> None:
    assert add_partitions(with_partitions(states.PREPARE_ABORT, TP), call(OTHER, producer=producer), 9) == (None, code)


def test_no_partitions_are_added_while_a_transition_is_pending() -> None:
    made = with_partitions(states.ONGOING, TP)
    made.has_pending_transition = True
    assert add_partitions(made, call(TP), 9) == (None, 51)


def test_no_partitions_are_added_for_a_producer_that_is_being_fenced() -> None:
    made = with_partitions(states.ONGOING, TP)
    made.fenced_at = 4
    assert add_partitions(made, call(TP), 9) == (None, 90)


# EndTxn, fencing, completion


def to_end(state: TransactionState, epoch: int = 3) -> Transaction:
    return Transaction("x", TransactionData(10, epoch, 60_000, state, (TP,), 5, 4))


def data(state: TransactionState, epoch: int = 3) -> TransactionData:
    return TransactionData(10, epoch, 60_000, state, (TP,), 9, 4, previous_producer_id=10)


@pytest.mark.parametrize(("is_commit", "target"), [(True, states.PREPARE_COMMIT), (False, states.PREPARE_ABORT)])
def test_an_open_transaction_is_committed_or_aborted(is_commit: bool, target: TransactionState) -> None:
    assert end(to_end(states.ONGOING), EndCall("x", PRODUCER, is_commit), 9) == (Transition(data(target)), Ended(0))


@pytest.mark.parametrize("state", [each for each in TransactionState if each is not states.ONGOING])
@pytest.mark.parametrize("is_commit", [True, False])
def test_ending_in_other_states_makes_no_transition(state: TransactionState, is_commit: bool) -> None:
    expected = (states.COMMIT if is_commit else states.ABORT)[state]
    assert end(to_end(state), EndCall("x", PRODUCER, is_commit), 9) == (None, Ended(expected))


@pytest.mark.parametrize(("producer", "code"), [(ProducerIdAndEpoch(11, 3), 49), (ProducerIdAndEpoch(10, 2), 90)])
def test_only_the_present_producer_may_end(producer: ProducerIdAndEpoch, code: int) -> None:
    assert end(to_end(states.ONGOING), EndCall("x", producer, is_commit=True), 9) == (None, Ended(code))


def test_fencing_aborts_in_the_next_epoch() -> None:
    made = to_end(states.ONGOING)
    assert fence(made, 9) == Transition(data(states.PREPARE_ABORT, 4), NO_ID_AND_EPOCH)
    assert made.producer_epoch == 4


def test_a_refused_epoch_is_used_again() -> None:
    made = to_end(states.ONGOING)
    fence(made, 9)
    assert fence(made, 9) == Transition(data(states.PREPARE_ABORT, 4), NO_ID_AND_EPOCH)


def test_there_is_no_epoch_after_the_last() -> None:
    assert fence(to_end(states.ONGOING, MAX_EPOCH), 9).data.producer_epoch == MAX_EPOCH


@pytest.mark.parametrize(
    ("state", "target"),
    [(states.PREPARE_COMMIT, states.COMPLETE_COMMIT), (states.PREPARE_ABORT, states.COMPLETE_ABORT)],
)
def test_a_prepared_transaction_completes(state: TransactionState, target: TransactionState) -> None:
    assert complete(to_end(state), 9) == Transition(data(target)._replace(partitions=()))


# Transaction version 2: an epoch for each transaction


def of_version_2(state: TransactionState, epoch: int = 3, client_version: int = EPOCH_PER_TRANSACTION) -> Transaction:
    made = to_end(state, epoch)
    made.data = made.data._replace(client_version=client_version, previous_producer_id=10)
    return made


def ask_end(
    made: Transaction, epoch: int = 3, *, commit: bool = True, producer_id: int = 10, new_id: int | None = None
) -> tuple[Transition | None, Ended] | None:
    call = EndCall("x", ProducerIdAndEpoch(producer_id, epoch), commit, EPOCH_PER_TRANSACTION)
    return end(made, call, 9, new_id)


@pytest.mark.parametrize("client_version", [0, EPOCH_PER_TRANSACTION])
def test_the_end_gives_the_next_epoch(client_version: int) -> None:
    opened = of_version_2(states.ONGOING, client_version=client_version)
    prepared = data(states.PREPARE_COMMIT, 4)._replace(client_version=EPOCH_PER_TRANSACTION)
    assert ask_end(opened) == (Transition(prepared, PRODUCER), Ended(0, ProducerIdAndEpoch(10, 4)))


def test_the_last_epoch_gives_another_id_when_the_transaction_is_complete() -> None:
    opened = of_version_2(states.ONGOING, LAST)
    assert ask_end(opened, LAST) is None
    decided = ask_end(opened, LAST, new_id=20)
    assert decided is not None
    transition, ended = decided
    assert transition is not None
    assert ended == Ended(0, ProducerIdAndEpoch(20, 0))
    assert (transition.data.producer_epoch, transition.data.next_producer_id) == (MAX_EPOCH, 20)
    opened.replay(transition.data)
    assert ask_end(opened, LAST) == (None, Ended(51))
    opened.replay(complete(opened, 9).data)
    assert (opened.data.producer_id, opened.data.producer_epoch, opened.data.next_producer_id) == (20, 0, -1)
    assert ask_end(opened, LAST) == (None, Ended(0, ProducerIdAndEpoch(20, 0)))
    assert ask_end(opened, LAST, commit=False) == (None, Ended(48))
    assert ask_end(opened, LAST - 1) == (None, Ended(49))


def test_an_abort_without_a_transaction_gives_the_next_epoch() -> None:
    for state in (states.EMPTY, states.COMPLETE_COMMIT, states.COMPLETE_ABORT):
        assert ask_end(of_version_2(state)) == (None, Ended(48))
        decided = ask_end(of_version_2(state), commit=False)
        assert decided is not None
        assert decided[0] is not None
        assert decided[0].data[:7] == (10, 4, 60_000, states.PREPARE_ABORT, (TP,), 9, 9)


@pytest.mark.parametrize("state", sorted(states.PREPARED | states.COMPLETE))
def test_a_repeated_end_has_the_epoch_before(state: TransactionState) -> None:
    for is_commit in (True, False):
        code = (states.COMMIT if is_commit else states.ABORT)[state]
        producer = ProducerIdAndEpoch() if code else PRODUCER
        assert ask_end(of_version_2(state), 2, commit=is_commit) == (None, Ended(code, producer))
    assert ask_end(of_version_2(state), 1) == (None, Ended(90))
    assert ask_end(of_version_2(state, client_version=0), 2) == (None, Ended(90))


def test_an_end_is_refused_as_in_version_1() -> None:
    assert ask_end(of_version_2(states.PREPARE_COMMIT)) == (None, Ended(90))
    assert ask_end(of_version_2(states.ONGOING), 2) == (None, Ended(90))
    assert ask_end(of_version_2(states.ONGOING), producer_id=11) == (None, Ended(49))
    made = of_version_2(states.ONGOING)
    made.has_pending_transition = True
    assert ask_end(made) == (None, Ended(51))
    made.fenced_at = 4
    assert ask_end(made) == (None, Ended(90))


def test_a_fenced_producer_of_version_2_may_go_on_with_the_next_epoch() -> None:
    made = of_version_2(states.ONGOING)
    transition = fence(made, 9)
    assert transition.previous == PRODUCER
    made.replay(complete(Transaction("x", transition.data), 9).data)
    made.previous = PRODUCER
    assert ask_end(made, commit=False) == (None, Ended(0, ProducerIdAndEpoch(10, 4)))
    decided = ask(made, PRODUCER)
    assert decided is not None
    assert decided[1] == Initialized(0, 10, 4)


def test_only_partitions_of_the_open_transaction_are_verified() -> None:
    made = with_partitions(states.ONGOING, TP)
    made.has_pending_transition = True
    assert [verify(made, call(TP)), verify(made, call(TP, OTHER))] == [0, 120]
    assert verify(made, call(TP, producer=ProducerIdAndEpoch(11, 3))) == 49
    assert verify(made, call(TP, producer=ProducerIdAndEpoch(10, 2))) == 90
    assert verify(with_partitions(states.PREPARE_COMMIT, TP), call(TP)) == 51
    assert verify(with_partitions(states.COMPLETE_COMMIT), call(TP)) == 120


# Time-outs and expiration


def last_updated(state: TransactionState) -> Transaction:
    return Transaction("x", TransactionData(10, 3, 100, state, (), last_update_ms=1_000, start_ms=500))


@pytest.mark.parametrize("state", TransactionState)
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    made = last_updated(state)
    assert timed_out([made], 600) == []
    assert timed_out([made], 601) == ([made] if state is states.ONGOING else [])
    made.has_pending_transition = True
    assert timed_out([made], 601) == []


@pytest.mark.parametrize("state", TransactionState)
def test_only_idle_transactional_ids_expire(state: TransactionState) -> None:
    made = last_updated(state)
    assert expired([made], 1_049, 50) == []
    assert expired([made], 1_050, 50) == ([made] if state in states.IDLE else [])
    made.has_pending_transition = True
    assert expired([made], 1_050, 50) == []
