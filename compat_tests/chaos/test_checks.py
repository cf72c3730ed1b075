"""Each check finds the violation that it is for, and is silent about a log that keeps the rules."""

from compat_tests.chaos.checks import (
    Committed,
    Observations,
    Outcome,
    Position,
    Transaction,
    broken_transactions,
    changed_producer,
    doubled_and_reordered,
    gaps,
    lost_and_moved,
    lost_commit,
    make_value,
    misplaced,
    not_copied_once,
    not_processed,
    partition_of,
    wrong_coordinators,
)

A, B, C = (make_value("p", number, 3) for number in range(3))
LOG = {0: [(0, A), (1, B), (2, C)]}


def test_a_log_that_keeps_the_rules() -> None:
    assert lost_and_moved("t", {0: {A: 0, B: None, C: 2}}, LOG) == []
    assert doubled_and_reordered("t", LOG) == []
    assert gaps("t", LOG) == []
    assert not_copied_once(LOG, {0: [(0, A), (3, B)]}) == []
    assert not_processed({0: [0, 1, 2]}, LOG) == []


def test_acknowledged_records_that_are_lost_or_elsewhere() -> None:
    (lost,) = lost_and_moved("t", {0: {A: 0, B: 1, C: None}}, {0: [(0, A)]})
    assert lost == "lost: 2 acknowledged records of t-0, such as ['p.1', 'p.2']"
    (moved,) = lost_and_moved("t", {0: {B: 0}}, LOG)
    assert moved == "moved: 1 acknowledged records of t-0, such as ['p.1 from 0 to 1']"


def test_records_that_are_there_twice_or_in_another_order() -> None:
    (doubled,) = doubled_and_reordered("t", {0: [(0, A), (1, B), (2, A)]})
    assert "p.0 at 0 and 2" in doubled
    (reordered,) = doubled_and_reordered("t", {0: [(0, B), (1, A)]})
    assert "p.0 at 1 after 1" in reordered
    assert gaps("t", {0: [(0, A), (2, B)]}) != []


def test_reads_that_contradict_each_other_or_the_log() -> None:
    observations = Observations("t")
    observations.add(0, 1, B)
    observations.add(0, 1, B)
    assert observations.violations == []
    assert observations.not_in(LOG) == []
    observations.add(0, 1, C)
    assert observations.violations == ["inconsistent offset: t-0@1 was p.1, then p.2"]
    observations.add(0, 3, B)
    assert observations.not_in(LOG) == ["read of what is not kept: t-0@3 was p.1"]


def test_reads_that_skip_or_repeat() -> None:
    position = Position("reader", has_gaps=False)
    for offset in (5, 6, 8, 8):
        position.read(offset)
    assert position.violations == [
        "skipped read: reader got 8 where 7 is next",
        "repeated read: reader got 8 where 9 is next",
    ]
    with_markers = Position("reader", has_gaps=True)
    for offset in (5, 7, 6):
        with_markers.read(offset)
    assert with_markers.violations == ["repeated read: reader got 6 where 8 is next"]


def test_a_member_may_go_back_but_not_skip() -> None:
    position = Position("member", has_gaps=False, may_repeat=True)
    for offset in (5, 6, 5, 7):
        position.read(offset)
    assert position.violations == ["skipped read: member got 7 where 6 is next"]


def test_transactions_that_are_torn_or_read_although_aborted() -> None:
    transactions = {"one": Transaction([(0, A), (0, B)], Outcome.COMMITTED), "two": Transaction([(0, C)])}
    assert broken_transactions("t", transactions, {0: [(0, A), (1, B)]}) == []
    assert broken_transactions("t", transactions, LOG) == []
    (torn,) = broken_transactions("t", transactions, {0: [(0, A)]})
    assert torn == "torn: t shows 1 of 2 records of one, which is committed"
    transactions["one"].outcome = Outcome.UNKNOWN
    assert broken_transactions("t", transactions, {0: [(0, A)]}) != []
    assert broken_transactions("t", transactions, {0: []}) == []
    transactions["two"].outcome = Outcome.ABORTED
    (aborted,) = broken_transactions("t", transactions, LOG)
    assert aborted == "aborted read: t shows ['p.2'] of aborted two"


def test_copies_that_are_not_exactly_once() -> None:
    assert not_copied_once(LOG, {0: [(0, A), (2, A)]}) != []
    assert not_copied_once(LOG, {0: [(0, B)]}) != []
    assert not_copied_once({0: []}, {0: [(0, A)]}) != []


def test_records_that_a_group_never_got() -> None:
    assert not_processed({0: [0, 2]}, LOG) == ["skipped: the group never got 1 offsets of 0, such as [1]"]


def test_the_partition_of_a_name_is_that_of_apache_kafka() -> None:
    assert [partition_of(name, 50) for name in ("", "a", "group", "name-0", "polygenelubricants")] == [0, 47, 47, 26, 0]
    assert partition_of("cp6-0", 10) == 8


def test_coordinators_that_are_not_the_leader_of_the_partition_of_a_name() -> None:
    leaders = {index: index % 3 for index in range(10)}
    names = [f"name-{number}" for number in range(50)]
    right = {name: leaders[partition_of(name, 10)] for name in names}
    by_seven = {name: leaders[partition_of(name, 7)] for name in names}
    assert wrong_coordinators("t", leaders, {1: right, 2: right}) == []
    (wrong,) = wrong_coordinators("t", leaders, {1: right, 2: by_seven})
    assert "broker 2 names" in wrong
    assert "[7] partitions explain them all" in wrong


def test_names_in_the_partitions_of_others() -> None:
    assert misplaced("t", 10, {8: ["cp6-0"], 1: []}) == []
    assert misplaced("t", 10, {8: ["cp6-0"], 4: ["cp6-0"]}) == [
        "misplaced: t-4 has records of 1 names, such as ['cp6-0']"
    ]


def test_commits_that_are_gone_and_producers_that_are_not_fenced() -> None:
    assert lost_commit("g", Committed(3, 5), 4) == []
    assert lost_commit("g", Committed(), -1) == []
    (lost,) = lost_commit("g", Committed(3, 5), -1)
    assert "3 was acknowledged" in lost
    assert lost_commit("g", Committed(3, 5), 6)
    assert changed_producer("p", None, (7, 0)) == []
    assert changed_producer("p", (7, 0), (7, 2)) == []
    assert changed_producer("p", (7, 0), (8, 0))
    assert changed_producer("p", (7, 1), (7, 1))
