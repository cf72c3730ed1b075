import asyncio
from collections.abc import Iterable

import pytest

from kafkapy import turns
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.errors import InvalidReplicaAssignmentError, InvalidTopicError
from kafkapy.metadata.topic_rules import (
    TopicNames,
    check_added,
    check_assignment,
    check_name,
    internal_topic_shape,
)
from kafkapy.turns import finish


@pytest.mark.parametrize("name", ["a", "a.b", "a_b", "A-1", "x" * 249, "...", "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a:b"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        check_name(name)


def _names(*names: str) -> TopicNames:
    known = TopicNames()
    _refresh(known, names)
    return known


def _refresh(known: TopicNames, names: Iterable[str]) -> None:
    async def read() -> Iterable[str]:
        return names

    asyncio.run(known.refresh(read))


def test_collisions() -> None:
    _names("a.b").check_collision("ab")
    _names("a.c").check_collision("a.b")
    for name, other in (("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")):
        with pytest.raises(InvalidTopicError, match=other):
            _names("x", other).check_collision(name)


def test_names_are_added_and_removed() -> None:
    known = _names("a.b", "a_b", "c")
    with pytest.raises(InvalidTopicError, match=r"a.b, a_b"):
        known.check_collision("a.b")
    _refresh(known, ["c", "a_b"])
    assert ["a.b" in known, "a_b" in known, "c" in known] == [False, True, True]
    with pytest.raises(InvalidTopicError, match=r": a_b$"):
        known.check_collision("a.b")
    _refresh(known, ["c"])
    known.check_collision("a.b")
    known.discard("never")
    known.add("a_b")
    with pytest.raises(InvalidTopicError):
        known.check_collision("a.b")


def test_refreshes_that_overlap_leave_the_names_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference that is applied with pauses must not be applied to names that another refresh has changed."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    every, odd = [f"t.{number}" for number in range(100)], [f"t.{number}" for number in range(1, 100, 2)]
    in_store = list(every)
    known = _names(*every)

    async def read() -> Iterable[str]:
        return list(in_store)

    async def main() -> None:
        in_store[:] = odd
        shrinking = asyncio.ensure_future(known.refresh(read))
        for _ in range(30):
            await asyncio.sleep(0)
        assert not shrinking.done()
        in_store[:] = every
        growing = asyncio.ensure_future(known.refresh(read))
        for _ in range(5):
            await asyncio.sleep(0)
        known.add("meanwhile")
        in_store.append("meanwhile")
        await asyncio.gather(shrinking, growing)
        assert all(name in known for name in [*every, "meanwhile"])
        in_store[:] = odd
        await asyncio.gather(*(known.refresh(read) for _ in range(3)))
        assert [name in known for name in every] == [name in odd for name in every]

    asyncio.run(main())


def test_refusals_of_assignments_have_the_numbers() -> None:
    with pytest.raises(InvalidReplicaAssignmentError, match="partition 0 has 1, partition 1 has 2"):
        finish(check_assignment({0: [1], 1: [1, 2]}))
    with pytest.raises(InvalidReplicaAssignmentError, match=r"Partition 0 .*: 1, 1"):
        finish(check_assignment({0: [1, 1]}))
    with pytest.raises(InvalidReplicaAssignmentError, match="partition 1 is missing"):
        finish(check_assignment({0: [1], 2: [1]}))
    with pytest.raises(InvalidReplicaAssignmentError, match=r"Partition 2 .* unknown brokers: 7, 9; .*: 1, 2"):
        finish(check_added({2: [1, 9, 7]}, [1, 2], {2, 1}))
    with pytest.raises(InvalidReplicaAssignmentError, match="partition 0 is 2, that of partition 2 is 1"):
        finish(check_added({2: [1]}, [1, 2], {1, 2}))
    with pytest.raises(InvalidReplicaAssignmentError, match="99 and 400 more; available"):
        finish(check_added({2: list(range(500))}, [1], range(1000, 1500)))
    with pytest.raises(InvalidReplicaAssignmentError, match="Partition 2 has 500 replicas; there are 1 brokers"):
        finish(check_added({2: list(range(500))}, [1], {501}))


@pytest.mark.parametrize(
    "assignment", [{0: [1], 1: [1, 2]}, {0: [1, 1]}, {0: [1], 2: [1]}, {1: [1]}, {-1: [1], 0: [1]}, {}]
)
def test_contradictory_assignments(assignment: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignmentError):
        finish(check_assignment(assignment))
    finish(check_assignment({0: [1, 2], 1: [2, 1]}))


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 9], [1]])
def test_contradictory_additions(replicas: list[int]) -> None:
    finish(check_added({2: [2, 1]}, [1, 2], {1, 2}))
    with pytest.raises(InvalidReplicaAssignmentError):
        finish(check_added({2: replicas}, [1, 2], {1, 2}))


def test_internal_topics_have_their_own_shape() -> None:
    """As Apache Kafka 2.7.2 creates them."""
    config = BrokerConfig.from_properties({"zookeeper.connect": "z:1"})
    assert internal_topic_shape("__consumer_offsets", config) == (
        50,
        3,
        {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": "104857600"},
    )
    assert internal_topic_shape("__transaction_state", config) == (
        50,
        3,
        {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": "2",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        },
    )
