"""Balanced placements of replicas."""

import random
from collections import Counter

import pytest

from kafkapy.clients.errors import ClientError
from kafkapy.clients.placement import Place, balanced

NO_RACKS = dict.fromkeys(range(20))


def on(*brokers: int) -> dict[int, str | None]:
    return {broker: NO_RACKS[broker] for broker in brokers}


def loads(placed: dict[Place, list[int]], brokers: dict[int, str | None]) -> list[int]:
    counted = Counter(broker for replicas in placed.values() for broker in replicas)
    return [counted[broker] for broker in brokers]


def leads(placed: dict[Place, list[int]], brokers: dict[int, str | None]) -> list[int]:
    counted = Counter(replicas[0] for replicas in placed.values())
    return [counted[broker] for broker in brokers]


def moved(before: dict[Place, list[int]], after: dict[Place, list[int]]) -> int:
    return sum(len(set(after[place]) - set(replicas)) for place, replicas in before.items())


EVEN = {("t", index): [index % 3, (index + 1) % 3, (index + 2) % 3] for index in range(6)}


def test_what_is_balanced_stays() -> None:
    assert balanced(EVEN, on(0, 1, 2)) == EVEN


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    placed = balanced(EVEN, on(0, 1, 2, 3))
    assert sorted(loads(placed, on(0, 1, 2, 3))) == [4, 4, 5, 5]
    assert moved(EVEN, placed) == 4
    assert max(leads(placed, on(0, 1, 2, 3))) == 2


def test_a_broker_is_emptied() -> None:
    placed = balanced(EVEN, on(1, 2, 3))
    assert loads(placed, on(0, 1, 2, 3)) == [0, 6, 6, 6]
    assert moved(EVEN, placed) == 6
    assert leads(placed, on(1, 2, 3)) == [2, 2, 2]


def test_the_number_of_replicas_changes() -> None:
    placed = balanced(EVEN, on(0, 1, 2), replication_factor=1)
    assert loads(placed, on(0, 1, 2)) == [2, 2, 2]
    assert moved(EVEN, placed) == 0
    single = {("t", 0): [0], ("t", 1): [0]}
    assert sorted(map(sorted, balanced(single, on(0, 1), replication_factor=2).values())) == [[0, 1], [0, 1]]


def test_replicas_are_on_different_racks() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "b"}
    placed = balanced({("t", index): [0, 1] for index in range(4)}, racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in placed.values())
    assert loads(placed, racks) == [2, 2, 2, 2]
    assert leads(placed, racks) == [1, 1, 1, 1]


def test_three_replicas_in_two_racks_use_both() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "a", 3: "b"}
    placed = balanced({("t", 0): [0, 1, 2]}, racks)
    assert len(placed["t", 0]) == 3
    assert 3 in placed["t", 0]


def test_racks_do_not_count_if_a_broker_has_none() -> None:
    current = {("t", 0): [1, 2], ("t", 1): [0, 3]}
    assert balanced(current, {0: "a", 1: "b", 2: "b", 3: None}) == current
    assert balanced(current, {0: "a", 1: "b", 2: "b", 3: "a"}) != current


def test_each_topic_is_spread() -> None:
    current = {(topic, index): [0] for topic in "abc" for index in range(2)}
    placed = balanced(current, on(0, 1, 2))
    assert loads(placed, on(0, 1, 2)) == [2, 2, 2]
    for topic in "abc":
        assert len({placed[topic, 0][0], placed[topic, 1][0]}) == 2


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ClientError, match="partition t-0 is to have 3 replicas: name at least as many brokers, not 2"):
        balanced(EVEN, on(0, 1))


@pytest.mark.parametrize("seed", range(60))
def test_random_placements_are_even_and_valid(seed: int) -> None:
    chance = random.Random(seed)  # repeatable
    count = chance.randint(1, 12)
    brokers = on(*range(count))
    factor = chance.randint(1, min(3, count))
    current = {
        (f"t{topic}", index): chance.sample(range(count + 2), factor)
        for topic in range(chance.randint(1, 5))
        for index in range(chance.randint(1, 30))
    }
    placed = balanced(current, brokers)
    for place, replicas in placed.items():
        assert len(set(replicas)) == len(replicas) == len(current[place])
        assert set(replicas) <= set(brokers)
    assert max(loads(placed, brokers)) - min(loads(placed, brokers)) <= 1
    assert max(leads(placed, brokers)) - min(leads(placed, brokers)) <= 2
