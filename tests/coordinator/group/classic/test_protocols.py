import tracemalloc

import pytest

from kafkapy.coordinator.group.classic.protocols import CommonProtocols, Protocols


def protocols(names: str) -> Protocols:
    return tuple((name, name.encode()) for name in names.split())


def counted(lists: list[str]) -> CommonProtocols:
    common = CommonProtocols()
    for names in lists:
        common.add(protocols(names))
    return common


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        (["a"], "a"),
        (["a b", "b a", "b"], "b"),
        (["a b c", "a b c", "b a c"], "a"),
        (["x a b", "y b a", "b a"], "b"),
        (["a b", "b a"], "a"),
        (["a a b", "b"], "b"),
        (["a a b"], "b"),
        (["a a b", "a b"], "b"),
    ],
)
def test_the_common_protocol_with_the_most_votes(lists: list[str], chosen: str) -> None:
    assert counted(lists).select([protocols(names) for names in lists]) == chosen


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        (["range roundrobin", "roundrobin range"], "roundrobin"),
        (["roundrobin range", "range roundrobin"], "roundrobin"),
        (["sticky range", "range sticky"], "range"),
        (["range cooperative-sticky", "cooperative-sticky range"], "cooperative-sticky"),
        (["b a", "a b"], "a"),
        (
            ["😀 stream polygenelubricants", "stream polygenelubricants 😀", "polygenelubricants 😀 stream"],
            "polygenelubricants",
        ),
    ],
)
def test_hashes_decide_between_protocols_with_equal_votes(lists: list[str], chosen: str) -> None:
    """Answered by Apache Kafka 2.7.2's own ``GroupMetadata.selectProtocol``."""
    assert counted(lists).select([protocols(names) for names in lists]) == chosen


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        (["a a"], "a"),
        (["a a b b", "b a"], "a"),
        (["a a b", "b", "a b"], "b"),
    ],
)
def test_a_protocol_is_chosen_where_kafkas_group_never_becomes_stable(lists: list[str], chosen: str) -> None:
    assert counted(lists).select([protocols(names) for names in lists]) == chosen


@pytest.mark.parametrize(
    ("lists", "newcomer", "accepted"),
    [
        ([], "a", True),
        (["a b", "b"], "a", False),
        (["a b", "b"], "c b", True),
        (["a"], "a a", True),
        (["a a"], "a", False),
        (["a a b"], "a c", False),
        (["a a b"], "a b", True),
        (["a a b", "b"], "a", False),  # Kafka takes it in, and its group is stuck: nothing is common
    ],
)
def test_a_protocol_that_a_member_names_twice_counts_twice(lists: list[str], newcomer: str, accepted: bool) -> None:
    assert counted(lists).accept(protocols(newcomer)) is accepted


def test_a_protocol_counted_twice_is_subtracted_twice() -> None:
    common = counted(["a a b", "b"])
    common.remove(protocols("a a b"))
    common.add(protocols("b a"))
    common.remove(protocols("b"))
    assert common.accept(protocols("a"))
    assert common.all_support("b")
    common.remove(protocols("b a"))
    common.add(protocols("a a"))
    assert not common.accept(protocols("a"))


def test_protocols_that_no_member_names_take_no_memory() -> None:
    common = counted(["a"])
    tracemalloc.start()
    for number in range(1000):
        mine = ((f"{number}" * 1000, b""), ("a", b""))
        common.add(mine)
        assert common.all_support("a")
        common.remove(mine)
        del mine
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 100_000
    assert common.accept(protocols("a"))
    assert not common.all_support("0" * 1000)
