from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.controller.elections import Placement, assign_replicas, check_placement, interleave_racks
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidPartitionsError, InvalidReplicationFactorError

NO_RACKS: dict[int, str | None] = dict.fromkeys(range(5))
RACKS: dict[int, str | None] = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}


def _lists(racks: dict[int, str | None], placement: Placement) -> dict[int, list[int]]:
    check_placement(racks, placement)
    return {index: list(found.replicas) for index, found in assign_replicas(racks, placement, Random(0))}


def test_ten_partitions_on_five_brokers() -> None:
    assert _lists(NO_RACKS, Placement(10, 3, 0)) == {
        0: [0, 1, 2], 1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 0], 4: [4, 0, 1],
        5: [0, 2, 3], 6: [1, 3, 4], 7: [2, 4, 0], 8: [3, 0, 1], 9: [4, 1, 2],
    }  # fmt: skip


def test_added_partitions_continue_the_placement() -> None:
    assert _lists({1: None, 2: None, 3: None}, Placement(2, 2, 0, 2)) == {2: [3, 1], 3: [1, 3]}


def test_racks_take_turns() -> None:
    assert interleave_racks(RACKS) == [0, 3, 1, 5, 4, 2]
    assert interleave_racks({0: "a", 1: "a", 2: "b"}) == [0, 2, 1]
    assert _lists(RACKS, Placement(7, 3, 0)) == {
        0: [0, 3, 1], 1: [3, 1, 5], 2: [1, 5, 4], 3: [5, 4, 2], 4: [4, 2, 0], 5: [2, 0, 3], 6: [0, 4, 2],
    }  # fmt: skip


def test_a_single_broker_gets_all_replicas() -> None:
    assert _lists({7: None}, Placement(3, 1)) == {0: [7], 1: [7], 2: [7]}


@pytest.mark.parametrize(
    ("racks", "placement", "error", "code"),
    [
        (NO_RACKS, Placement(0, 1), InvalidPartitionsError, 37),
        (NO_RACKS, Placement(1, 0), InvalidReplicationFactorError, 38),
        (NO_RACKS, Placement(1, 6), InvalidReplicationFactorError, 38),
        ({}, Placement(1, 1), InvalidReplicationFactorError, 38),
        ({0: "a", 1: None}, Placement(1, 1), BrokerError, -1),
    ],
)
def test_impossible_placements_are_refused(
    racks: dict[int, str | None], placement: Placement, error: type[BrokerError], code: int
) -> None:
    with pytest.raises(error) as refused:
        check_placement(racks, placement)
    assert refused.value.error_code == code


@st.composite
def clusters(draw: st.DrawFn) -> dict[int, str | None]:
    brokers = draw(st.sets(st.integers(0, 20), min_size=1, max_size=8))
    if draw(st.booleans()):
        return dict.fromkeys(brokers)
    return {broker: draw(st.sampled_from(["a", "b", "c"])) for broker in brokers}


@given(clusters(), st.data(), st.integers(1, 60), st.integers())
def test_replicas_are_distinct_and_spread_over_brokers_and_racks(
    racks: dict[int, str | None], data: st.DataObject, partitions: int, seed: int
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    placed = dict(assign_replicas(racks, Placement(partitions, factor), Random(seed)))
    assert sorted(placed) == list(range(partitions))
    for found in placed.values():
        assert len(set(found.replicas)) == factor
        assert set(found.replicas) <= set(racks)
        known = {racks[broker] for broker in found.replicas}
        assert len(known) == (1 if None in racks.values() else min(factor, len(set(racks.values()))))
    leaders = Counter(found.replicas[0] for found in placed.values())
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in racks) <= 1
