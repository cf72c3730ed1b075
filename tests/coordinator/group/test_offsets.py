from kafkapy.coordinator.group.offsets import CommittedOffset, FetchedOffset, Offsets
from kafkapy.turns import PIECE, finish
from kafkapy.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_replayed_offsets_are_fetched() -> None:
    offsets = Offsets()
    offsets.replay(A, 5, CommittedOffset(10, 2, "m", 100))
    assert offsets.fetch(A) == FetchedOffset(10, 2, "m", 0)
    assert offsets.fetch(B) == FetchedOffset(-1, -1, "", 0)


def test_an_older_record_changes_nothing() -> None:
    offsets = Offsets()
    offsets.replay(A, 5, CommittedOffset(10))
    offsets.replay(A, 4, CommittedOffset(9))
    offsets.replay(A, 4, None)
    assert offsets.fetch(A).offset == 10


def test_a_tombstone_removes_and_a_later_commit_restores() -> None:
    offsets = Offsets()
    offsets.replay(A, 5, CommittedOffset(10))
    offsets.replay(A, 6, None)
    assert offsets.is_empty()
    offsets.replay(A, 7, CommittedOffset(11))
    assert offsets.fetch(A).offset == 11


def test_a_commit_acknowledged_after_a_later_tombstone_stays_removed() -> None:
    offsets = Offsets()
    offsets.append_started([A], 1)
    offsets.replay(A, 6, None)
    offsets.replay(A, 5, CommittedOffset(10))
    offsets.append_ended([A])
    assert offsets.is_empty()
    assert offsets.fetch(A).offset == -1
    assert offsets._position == {}


def test_commits_that_are_being_appended_are_counted() -> None:
    offsets = Offsets()
    offsets.replay(A, 1, CommittedOffset(10))
    assert offsets.has_only([A])
    assert not offsets.has_only([B])
    offsets.append_started([A, B], 1)
    offsets.append_started([A], 1)
    assert (offsets.is_appending(A), offsets.is_appending(B), offsets.has_only([A])) == (True, True, False)
    offsets.append_ended([A, B])
    assert (offsets.is_appending(A), offsets.is_appending(B)) == (True, False)
    assert [offsets.fetch(each, require_stable=True).error_code for each in (A, B)] == [88, 0]
    offsets.append_ended([A])
    assert not offsets.is_appending(A)
    assert offsets.fetch(A).offset == 10


def test_offsets_of_a_transaction_count_from_its_commit() -> None:
    offsets = Offsets()
    offsets.replay_in_transaction(7, A, 1, CommittedOffset(10))
    assert offsets.is_unstable(A)
    assert not offsets.is_empty()
    assert not offsets.has_only([])
    assert offsets.fetch(A).offset == -1
    assert offsets.fetch(A, require_stable=True).error_code == 88
    assert offsets.fetch(B, require_stable=True).error_code == 0
    finish(offsets.end_transaction(7, is_commit=True))
    assert offsets.fetch(A, require_stable=True).offset == 10


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    offsets = Offsets()
    offsets.replay_in_transaction(7, A, 1, CommittedOffset(10))
    offsets.replay_in_transaction(7, B, 2, CommittedOffset(10))
    for position in (3, 4):
        offsets.replay_in_transaction(7, B, position, None)
        assert not offsets.is_unstable(B)
    finish(offsets.end_transaction(7, is_commit=False))
    finish(offsets.end_transaction(8, is_commit=True))
    assert offsets.is_empty()


def test_a_transaction_does_not_overwrite_a_later_commit() -> None:
    offsets = Offsets()
    offsets.replay_in_transaction(7, A, 1, CommittedOffset(10))
    offsets.replay(A, 2, CommittedOffset(20))
    finish(offsets.end_transaction(7, is_commit=True))
    assert offsets.fetch(A).offset == 20


def test_offsets_that_a_transaction_is_appending_are_unstable_too() -> None:
    offsets = Offsets()
    offsets.append_in_transaction_started([A, B], 1)
    offsets.append_in_transaction_started([A], 1)
    offsets.append_in_transaction_ended([A, B])
    assert offsets.is_unstable(A)
    assert not offsets.is_unstable(B)
    assert not offsets.is_empty()
    assert not offsets.has_only([])
    assert not offsets.is_appending(A)
    offsets.append_in_transaction_ended([A])
    assert offsets.is_empty()


def test_a_tombstone_drops_the_commits_of_open_transactions_before_it() -> None:
    offsets = Offsets()
    offsets.replay_in_transaction(7, A, 1, CommittedOffset(10))
    offsets.replay_in_transaction(7, B, 2, CommittedOffset(11))
    offsets.replay_in_transaction(8, A, 3, CommittedOffset(12))
    assert sorted(set(offsets.partitions())) == [A, B]
    offsets.replay(A, 4, None)
    assert (offsets.is_unstable(A), offsets.has(A), offsets.has(B)) == (False, False, True)
    offsets.replay_in_transaction(8, A, 5, CommittedOffset(13))
    for producer_id in (7, 8):
        finish(offsets.end_transaction(producer_id, is_commit=True))
    assert (offsets.fetch(A).offset, offsets.fetch(B).offset) == (13, 11)


def test_a_transactions_commit_that_is_acknowledged_after_a_later_tombstone_is_dropped() -> None:
    offsets = Offsets()
    offsets.append_in_transaction_started([A], 1)
    assert offsets.has(A)
    offsets.replay(A, 6, None)
    offsets.replay_in_transaction(7, A, 5, CommittedOffset(10))
    offsets.append_in_transaction_ended([A])
    assert not offsets.is_unstable(A)
    finish(offsets.end_transaction(7, is_commit=True))
    assert offsets.is_empty()
    assert offsets._position == {}


def test_a_plain_commit_and_one_in_a_transaction_may_be_appended_at_once() -> None:
    offsets = Offsets()
    offsets.append_started([A], 1)
    offsets.append_in_transaction_started([A], 2)
    offsets.append_ended([A])
    assert list(offsets.partitions()) == [A]
    offsets.replay(A, 2, None)
    offsets.replay_in_transaction(7, A, 1, CommittedOffset(10))
    offsets.append_in_transaction_ended([A])
    assert not offsets.has(A)
    assert offsets._position == {}


def test_a_transaction_ends_in_steps_and_the_next_one_of_its_producer_may_begin_meanwhile() -> None:
    offsets = Offsets()
    partitions = [TopicPartition("t", number) for number in range(3 * PIECE)]
    for position, each in enumerate(reversed(partitions)):
        offsets.replay_in_transaction(7, each, position, CommittedOffset(10))
    steps = offsets.end_transaction(7, is_commit=True)
    next(steps)
    assert len(offsets.committed) == PIECE
    first, deleted, last = partitions[0], partitions[-2], partitions[-1]
    assert [offsets.is_unstable(each) for each in (first, deleted, last)] == [False, True, True]
    assert not offsets.has_only([])
    for position, each in enumerate((first, last), 1_000):
        offsets.replay_in_transaction(7, each, position, CommittedOffset(20))
    offsets.replay(deleted, 1_002, None)
    finish(steps)
    assert offsets.committed == dict.fromkeys((each for each in partitions if each != deleted), CommittedOffset(10))
    assert [offsets.is_unstable(each) for each in (first, deleted, last)] == [True, False, True]
    finish(offsets.end_transaction(7, is_commit=True))
    assert [offsets.fetch(each).offset for each in (first, deleted, last)] == [20, -1, 20]
    assert offsets._in_transactions == {}
    assert offsets._transactions == {}


def test_the_newest_commit_of_a_partition_is_compared_with_an_end_of_the_log() -> None:
    offsets = Offsets()
    assert not offsets.is_committed_since(A, 0)
    offsets.replay(A, 5, CommittedOffset(10))
    assert [offsets.is_committed_since(A, end) for end in (5, 6)] == [True, False]
    for producer_id, position in ((7, 6), (8, 7), (7, 8)):
        offsets.replay_in_transaction(producer_id, A, position, CommittedOffset(11))
    assert [offsets.is_committed_since(A, end) for end in (8, 9)] == [True, False]
    finish(offsets.end_transaction(7, is_commit=False))
    assert [offsets.is_committed_since(A, end) for end in (7, 8)] == [True, False]
    offsets.append_started([A], 9)
    assert [offsets.is_committed_since(A, end) for end in (8, 9)] == [True, False]


def test_a_stable_offset_is_found_among_very_many_open_transactions() -> None:
    """The time does not depend on the number of transactions: with 20,000 the test would take minutes."""
    offsets = Offsets()
    for producer_id in range(20_000):
        offsets.replay_in_transaction(producer_id, A, producer_id, CommittedOffset(1))
    for _ in range(20_000):
        assert not offsets.is_unstable(B)
    for producer_id in range(20_000):
        finish(offsets.end_transaction(producer_id, is_commit=False))
    assert offsets.is_empty()
