from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.testing.faults import checks
from kafkapy.testing.faults.checks import api_key, check_target, checked, duration, error_code, moment
from kafkapy.testing.faults.expired_members import Target
from kafkapy.testing.faults.rules import FaultAction, InvalidFaultError, When


@pytest.mark.parametrize("name", ["FindCoordinator", "FIND_COORDINATOR", "find_coordinator", "findcoordinator", 10])
def test_an_api_is_found_in_any_spelling(name: str | int) -> None:
    assert api_key(name) == 10


@pytest.mark.parametrize(
    ("action", "match", "sentence"),
    [
        (FaultAction.DROP, {"api": "Prodce"}, "there is no API 'Prodce'; did you mean 'Produce'?"),
        (
            FaultAction.DROP,
            {"api": "DescribeQuorum"},
            "this broker does not serve DescribeQuorum: the rule could never match",
        ),
        (FaultAction.DROP, {"api": 4711}, "this broker serves no API with the key 4711"),
        (FaultAction.DROP, {"api": True}, "api must be a string or an integer, not True"),
        (FaultAction.DROP, {"topics": "t"}, "a rule can't match by 'topics'; did you mean 'topic'?"),
        (FaultAction.DROP, {"topic": 1}, "topic must be a string, not 1"),
        (FaultAction.ERROR, {"topic": "t"}, "an error needs an api: each API has its own answer"),
        (FaultAction.DROP, {"api": "Heartbeat", "topic": "t"}, "requests of Heartbeat name no topics"),
        (
            FaultAction.DROP,
            {"api": "CreateTopics", "topic": "t", "partition": 0},
            "requests of CreateTopics name no part",
        ),
        (FaultAction.DROP, {"group": 1}, "group must be a string, not 1"),
        (
            FaultAction.DROP,
            {"api": "Produce", "group": "g"},
            "requests of Produce name no groups: the rule could never",
        ),
        (FaultAction.ERROR, {"api": "Heartbeat", "group": "g", "topic": "t"}, "requests of Heartbeat name no topics"),
        (FaultAction.DROP, {"partition": 0}, "a partition needs a topic"),
        (FaultAction.DROP, {"topic": "t", "partition": -1}, "there is no partition -1"),
        (FaultAction.DROP, {"nth": 0}, "nth counts from 1: there is no 0"),
        (FaultAction.DROP, {"nth": []}, r"nth must be an integer or a list of integers, not \[\]"),
        (FaultAction.DROP, {"nth": [1, "2"]}, "nth must be an integer or a list of integers"),
        (FaultAction.DROP, {"nth": [1, True]}, "nth must be an integer or a list of integers"),
        (FaultAction.DROP, {"count": 0}, "a rule with count 0 could never fire"),
        (FaultAction.DROP, {"nth": [2, 3], "count": 2}, "nth 3 is after count 2: the rule would be over by then"),
        (FaultAction.DROP, {"probability": 0}, "a probability is above 0 and at most 1, not 0"),
        (FaultAction.DROP, {"probability": 1.5}, "a probability is above 0 and at most 1, not 1.5"),
        (FaultAction.DROP, {"probability": float("nan")}, "a probability is above 0 and at most 1, not nan"),
    ],
)
def test_rules_that_could_never_match_are_refused(action: FaultAction, match: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidFaultError, match=sentence):
        checked(action, match)


def test_a_valid_rule_gets_the_key_of_its_api() -> None:
    match = {"api": "Metadata", "topic": "t", "partition": 1, "nth": [1, 2], "count": 2, "probability": 1, "seed": 3}
    assert checked(FaultAction.ERROR, match) == {**match, "api": 3}
    assert checked(FaultAction.HOLD, {}) == {}


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "not_leader_or_follower", "NOT_LEADER_FOR_PARTITION", 6])
def test_an_error_is_found_by_kafkas_names_and_codes(error: str | int) -> None:
    assert error_code(error) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("NOT_LEADER", "there is no error 'NOT_LEADER'; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ("zzz", "there is no error 'zzz'$"),
        (4711, "there is no error 4711"),
        (True, "there is no error True"),
        ("NONE", "NONE is no error"),
    ],
)
def test_an_unknown_error_is_refused(error: Any, sentence: str) -> None:
    with pytest.raises(InvalidFaultError, match=sentence):
        error_code(error)


@pytest.mark.parametrize(
    ("target", "api", "sentence"),
    [
        (Target(), "Produce", "requests of Produce name no members: give their group as member_of"),
        (Target(), "DescribeGroups", "requests of DescribeGroups name no members: give their group as member_of"),
        (Target(None, "m"), 0, "requests of Produce name no groups: give the member's group as member_of"),
        (Target(), "LeaveGroup", "a member that has left its group has no session: the rule could never fire"),
        (Target(""), None, "member_of is empty: there is no such group"),
        (Target("g", instance_id=""), None, "instance_id is empty: there is no such member"),
        (Target("g", 5), None, "member_id must be a string, not 5"),  # type: ignore[arg-type]  # JSON may have this type
        (Target(), "Prodce", "there is no API 'Prodce'; did you mean 'Produce'?"),
    ],
)
def test_a_target_that_no_request_could_name_is_refused(target: Target, api: str | int | None, sentence: str) -> None:
    with pytest.raises(InvalidFaultError, match=sentence):
        check_target(target, api, When.AFTER)


@pytest.mark.parametrize(
    ("target", "api"),
    [
        (Target(), None),
        (Target(), "Heartbeat"),
        (Target(None, "m"), "DescribeGroups"),
        (Target("g"), "Produce"),
        (Target("g", "m"), "LeaveGroup"),
    ],
)
def test_a_target_that_requests_can_name_is_accepted(target: Target, api: str | None) -> None:
    check_target(target, api, When.AFTER)
    check_target(Target(), "LeaveGroup", When.BEFORE)


def test_invalid_moments_and_durations_are_refused() -> None:
    assert moment("after") is When.AFTER
    with pytest.raises(InvalidFaultError, match="when is 'before' or 'after' the handling, not 'later'"):
        moment("later")
    assert duration(5) == 5
    with pytest.raises(InvalidFaultError, match="a pause takes more than 0 and at most 86400000 ms, not 0"):
        duration(0, "pause")
    for wrong in (0, -1, float("nan"), float("inf"), checks.LONGEST_DELAY_MS + 1, "5", True):
        with pytest.raises(InvalidFaultError, match=r"delay takes|must be a number"):
            duration(wrong)
