from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.server.dispatch.message_places import NamedResource
from kafkapy.testing.faults.expired_members import Target
from kafkapy.testing.faults.rules import FaultAction, Match, Rule


class Owner:
    def __init__(self) -> None:
        self.forgotten: list[Rule] = []
        self.released: list[Rule] = []

    def forget(self, rule: Rule) -> None:
        self.forgotten.append(rule)

    def release(self, rule: Rule) -> None:
        self.released.append(rule)


def _rule(number: int = 1, action: FaultAction = FaultAction.DROP, **match: Any) -> Rule:
    fields: Match = match  # type: ignore[assignment]  # the tests' own
    return Rule(number, action, fields, Owner())


def _turns(rule: Rule, count: int) -> list[int]:
    return [at for at in range(1, count + 1) if rule.takes()]


@pytest.mark.parametrize(
    ("match", "taken"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"nth": [2, 5]}, [2, 5]),
        ({"count": 2}, [1, 2]),
        ({"nth": 2, "count": 4}, [2]),
    ],
)
def test_nth_count_and_probability_select_requests(match: dict[str, Any], taken: list[int]) -> None:
    rule = _rule(**match)
    assert _turns(rule, 6) == taken
    assert rule.fired == len(taken)
    assert rule.is_over == bool(match)


def test_the_same_seed_selects_the_same_requests() -> None:
    runs = [_turns(_rule(probability=0.3), 1000) for _ in range(2)]
    assert runs[0] == runs[1]
    assert 230 < len(runs[0]) < 370
    assert _turns(_rule(probability=0.3, seed=1), 1000) != runs[0]
    assert _turns(_rule(number=2, probability=0.3), 1000) != runs[0]
    limited = _rule(probability=0.3, count=3)
    assert len(_turns(limited, 1000)) == 3
    assert limited.is_over


def test_a_rule_selects_the_names_that_it_has() -> None:
    rule = _rule(topic="a", partition=1)
    assert rule.selects(NamedResource("a", 1))
    assert not rule.selects(NamedResource("a", 2))
    assert not rule.selects(NamedResource("b", 1))
    assert _rule().selects(NamedResource(None, None))
    of_group = _rule(group="g")
    assert of_group.selects(NamedResource(None, None, "g"))
    assert not of_group.selects(NamedResource(None, None, "h"))
    assert of_group.selects(NamedResource("a", 1)), "the request is about one group, and it was its"


def test_a_rule_describes_itself() -> None:
    rule = _rule(4, FaultAction.ERROR, api=0, topic="a", nth=2, probability=0.5)
    rule.error = ErrorCode.CORRUPT_MESSAGE
    told = rule.describe()
    assert told == {
        "id": 4, "action": "error", "when": "before", "error": "CORRUPT_MESSAGE", "api": "Produce", "topic": "a",
        "nth": [2], "probability": 0.5, "matched": 0, "fired": 0, "held": 0, "is_over": False,
    }  # fmt: skip
    assert "error='CORRUPT_MESSAGE'" in repr(rule)
    assert "when" not in _rule(action=FaultAction.HOLD).describe()
    delay = _rule(action=FaultAction.DELAY)
    delay.duration_ms = 5.0
    assert delay.describe()["duration_ms"] == 5
    expiry = _rule(action=FaultAction.EXPIRE_MEMBER, group="g")
    expiry.target = Target("g", instance_id="i")
    told = expiry.describe()
    assert {told[name] for name in ("member_of", "group")} == {"g"}
    assert (told["instance_id"], told.get("member_id")) == ("i", None)


def test_a_rule_is_removed_at_the_end_of_its_block() -> None:
    rule = _rule()
    owner = rule._owner
    assert isinstance(owner, Owner)
    with rule as same:
        assert same is rule
        assert not owner.forgotten
        rule.release()
        assert owner.released == [rule]
    assert owner.forgotten == [rule]
    assert owner.released == [rule, rule]
