import pytest

from kafkapy.cluster.errors import InvalidReplicaAssignmentError, InvalidTopicError
from kafkapy.cluster.topic_rules import (
    check_added,
    check_assignment,
    check_collision,
    check_name,
    internal_topic_shape,
)
from kafkapy.config.broker_config import BrokerConfig


@pytest.mark.parametrize("name", ["a", "a.b", "a_b", "A-1", "x" * 249, "...", "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a:b"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        check_name(name)


def test_collisions() -> None:
    check_collision("ab", ["a.b"])
    check_collision("a.b", ["a.c"])
    for name, other in (("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")):
        with pytest.raises(InvalidTopicError, match=other):
            check_collision(name, ["x", other])


@pytest.mark.parametrize(
    "assignment", [{0: [1], 1: [1, 2]}, {0: [1, 1]}, {0: [1], 2: [1]}, {1: [1]}, {-1: [1], 0: [1]}, {}]
)
def test_contradictory_assignments(assignment: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignmentError):
        check_assignment(assignment)
    check_assignment({0: [1, 2], 1: [2, 1]})


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 9], [1]])
def test_contradictory_additions(replicas: list[int]) -> None:
    check_added({2: [2, 1]}, [1, 2], {1, 2})
    with pytest.raises(InvalidReplicaAssignmentError):
        check_added({2: replicas}, [1, 2], {1, 2})


def test_internal_topics_have_their_own_shape() -> None:
    """As a running 2.7.2 made them."""
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
