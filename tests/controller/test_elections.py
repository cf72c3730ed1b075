"""The elections that were recorded from Apache Kafka 2.7.2, and the laws of all elections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.controller.elections import (
    Elected,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
    without_replica,
)


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "unclean", "expected"),
    [
        pytest.param([3, 1, 2], [3, 1, 2], {1, 2}, False, Elected(1, (1, 2)), id="leader of rf3-0 killed"),
        pytest.param([3, 2], [3, 2], {1, 2}, False, Elected(2, (2,)), id="leader of auto-0 killed"),
        pytest.param([3], [3], {1, 2}, False, None, id="the only replica killed"),
        pytest.param([3], [3], {1, 2, 3}, False, Elected(3, (3,)), id="the only replica back"),
        pytest.param([2, 3], [2], {1, 3}, False, None, id="rf2-1, in sync but dead"),
        pytest.param([2, 3], [2], {1, 3}, True, Elected(3, (3,)), id="rf2-1 elected uncleanly"),
        pytest.param([2, 3], [2], {2, 3}, True, Elected(2, (2,)), id="unclean is not used when clean works"),
        pytest.param([2, 3], [2], {1}, True, None, id="nobody is left"),
        pytest.param([1, 2, 3], [3, 2], {2, 3}, False, Elected(2, (3, 2)), id="assignment's order, ISR's order kept"),
    ],
)
def test_offline(replicas: list[int], isr: list[int], live: set[int], unclean: bool, expected: Elected | None) -> None:
    assert elect_offline(replicas, isr, live, unclean=unclean) == expected


def test_preferred() -> None:
    assert elect_preferred([1, 2], [2, 1], {1, 2}) == Elected(1, (2, 1))
    assert elect_preferred([1, 2], [2], {1, 2}) is None
    assert elect_preferred([1, 2], [2, 1], {2}) is None
    assert elect_preferred([], [], {2}) is None


def test_reassigned() -> None:
    assert elect_reassigned([2, 3], [1, 2, 3], {1, 2, 3}) == Elected(2, (1, 2, 3))
    assert elect_reassigned([2, 3], [1, 3], {1, 2, 3}) == Elected(3, (1, 3))
    assert elect_reassigned([2], [1, 2], {1}) is None


def test_controlled_shutdown() -> None:
    assert elect_controlled_shutdown([2, 3, 1], [2, 1, 3], {1, 2, 3}, {2}) == Elected(3, (1, 3))
    assert elect_controlled_shutdown([2, 3], [2, 3], {1, 2, 3}, {2}) == Elected(3, (3,))
    assert elect_controlled_shutdown([2], [2], {1, 2}, {2}) is None


def test_without_replica() -> None:
    assert without_replica(1, (1, 3), 1) == Elected(-1, (3,))
    assert without_replica(2, (2, 1), 1) == Elected(2, (2,))
    assert without_replica(3, (3,), 3) == Elected(-1, (3,))


BROKERS = st.integers(0, 6)
SETS = st.sets(BROKERS)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    replicas = draw(st.lists(BROKERS, min_size=1, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    return replicas, isr


@given(partitions(), SETS, SETS, st.booleans())
def test_every_election_keeps_the_rules_of_leader_and_isr(
    partition: tuple[list[int], list[int]], live: set[int], stopping: set[int], unclean: bool
) -> None:
    replicas, isr = partition
    clean = [
        elect_offline(replicas, isr, live, unclean=False),
        elect_preferred(replicas, isr, live),
        elect_reassigned(replicas, isr, live),
        elect_controlled_shutdown(replicas, isr, live, stopping),
    ]
    for elected in filter(None, clean):
        assert elected.leader in live
        assert elected.leader in isr
        assert elected.leader in elected.isr
        assert set(elected.isr) <= set(isr)
    shutdown = clean[3]
    assert shutdown is None or not stopping & {shutdown.leader, *shutdown.isr}
    dirty = elect_offline(replicas, isr, live, unclean=unclean)
    assert dirty is None or dirty.leader in dirty.isr
    assert (dirty is not None) == bool(set(isr) & live or (unclean and set(replicas) & live))
    left = without_replica(isr[0], isr, replicas[0])
    assert left.isr
    assert left.leader != replicas[0]
