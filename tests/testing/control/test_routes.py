from typing import Any

import pytest

from kafkapy.observe.http.messages import HttpError
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.control.routes import Controlled, ControlRequest, answer
from kafkapy.testing.faults import Faults

ERROR = {"action": "error", "error": "CORRUPT_MESSAGE", "api": "Produce"}


@pytest.fixture
def controlled() -> Controlled:
    return Controlled(Faults(), MovingClock(), lambda: "127.0.0.1:9092")


def _ask(of: Controlled, method: str, path: str, **body: Any) -> Any:
    return answer(of, ControlRequest(method, path, body))[1]


def test_a_rule_is_set_described_and_removed(controlled: Controlled) -> None:
    status, told = answer(controlled, ControlRequest("POST", "/faults", {**ERROR, "topic": "t", "nth": [1, 2]}))
    assert status == 201
    assert (told["id"], told["fired"], told["nth"]) == (1, 0, [1, 2])
    for body in (
        {"action": "delay", "duration_ms": 5, "when": "before"},
        {"action": "drop", "when": "after", "client_id": "c"},
        {"action": "hold", "api": "Fetch"},
        {"action": "pause", "duration_ms": 200, "api": "Fetch", "nth": 2},
        {"action": "pause", "when": "after"},
        {"action": "expire_member", "group": "g"},
        {"action": "expire_member", "member_of": "g", "instance_id": "i", "api": "Produce"},
    ):
        assert _ask(controlled, "POST", "/faults", **body)["action"] == body["action"]
    assert [rule["id"] for rule in _ask(controlled, "GET", "/faults")["faults"]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert _ask(controlled, "GET", "/faults/3")["when"] == "after"
    assert _ask(controlled, "POST", "/faults/4/release")["held"] == 0
    assert _ask(controlled, "GET", "/faults/5")["duration_ms"] == 200
    assert _ask(controlled, "GET", "/faults/8")["instance_id"] == "i"
    assert _ask(controlled, "DELETE", "/faults/1")["error"] == "CORRUPT_MESSAGE"
    assert len(_ask(controlled, "DELETE", "/faults")["faults"]) == 7
    assert _ask(controlled, "GET", "/faults") == {"faults": []}


def test_the_broker_is_paused_and_its_clock_advanced(controlled: Controlled) -> None:
    assert _ask(controlled, "GET", "/broker") == {"bootstrap": "127.0.0.1:9092", "is_paused": False}
    assert _ask(controlled, "POST", "/broker/pause")["is_paused"]
    assert not _ask(controlled, "POST", "/broker/resume")["is_paused"]
    assert _ask(controlled, "POST", "/clock/advance", duration_ms=60_000)["added_ms"] == 60_000
    assert _ask(controlled, "GET", "/clock")["now_ms"] == pytest.approx(controlled.clock.now_ms(), abs=1000)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("GET", "/fault", {}, 404, "there is nothing at /fault; / lists the paths"),
        ("GET", "/faults/7", {}, 404, "there is no fault 7: it was removed, or never set"),
        ("GET", "/faults/x", {}, 404, "there is nothing at /faults/x"),
        ("POST", "/clock", {}, 405, "/clock supports GET"),
        ("GET", "/broker/pause", {}, 405, "/broker/pause supports POST"),
        ("POST", "/faults", {}, 400, "/faults needs action: error, delay, drop, hold, pause or expire_member"),
        (
            "POST",
            "/faults",
            {"action": "explode"},
            400,
            "there is no action 'explode'; there are error, delay, drop, hold, pause, expire_member",
        ),
        ("POST", "/faults", {"action": ["error"]}, 400, "there is no action ['error']"),
        ("POST", "/faults", {"action": "delay"}, 400, "delay needs duration_ms"),
        ("POST", "/faults", {"action": "hold", "when": "before"}, 400, "hold has no when"),
        ("POST", "/faults", {**ERROR, "duration_ms": 5}, 400, "error has no duration_ms"),
        ("POST", "/faults", {**ERROR, "topics": "t"}, 400, "/faults has no field 'topics'; did you mean 'topic'?"),
        ("POST", "/faults", {**ERROR, "error": "X"}, 400, "there is no error 'X'"),
        ("POST", "/faults", {**ERROR, "error": ["X"]}, 400, "there is no error ['X']"),
        ("POST", "/faults", {**ERROR, "when": 5}, 400, "when is 'before' or 'after' the handling, not 5"),
        ("POST", "/faults", {**ERROR, "topic": None}, 400, "topic is null: leave it out instead"),
        ("POST", "/faults", {**ERROR, "topic": 5}, 400, "topic must be a string, not 5"),
        ("POST", "/faults", {**ERROR, "group": "g"}, 400, "requests of Produce name no groups: the rule could never"),
        ("POST", "/faults", {"action": "pause", "duration_ms": None}, 400, "duration_ms is null: leave it out"),
        ("POST", "/faults", {"action": "pause", "duration_ms": -1}, 400, "a pause takes more than 0 and at most"),
        ("POST", "/faults", {"action": "pause", "member_of": "g"}, 400, "pause has no member_of"),
        (
            "POST",
            "/faults",
            {"action": "expire_member", "api": "Produce"},
            400,
            "requests of Produce name no members: give their group as member_of",
        ),
        ("POST", "/faults", {"action": "expire_member", "member_of": 5}, 400, "member_of must be a string, not 5"),
        ("POST", "/clock/advance", {}, 400, "/clock/advance needs duration_ms: by how many milliseconds"),
        ("POST", "/clock/advance", {"duration_ms": "5"}, 400, "duration_ms must be a number, not '5'"),
        ("POST", "/clock/advance", {"duration_ms": True}, 400, "duration_ms must be a number, not True"),
        ("POST", "/clock/advance", {"duration_ms": -5}, 400, "a clock can be advanced by 0 to"),
        ("POST", "/clock/advance", {"duration_ms": 10**400}, 400, "a clock can be advanced by 0 to"),
        ("POST", "/members/expire", {"group": 5}, 400, "group must be a string, not 5"),
        ("POST", "/members/expire", {"group": "g"}, 409, "the broker does not run: it has no members"),
    ],
)
def test_bad_requests_are_refused_with_one_sentence(
    controlled: Controlled, method: str, path: str, body: dict[str, Any], status: int, sentence: str
) -> None:
    with pytest.raises(HttpError) as refusal:
        answer(controlled, ControlRequest(method, path, body))
    assert refusal.value.status == status
    assert str(refusal.value).startswith(sentence)
    assert controlled.faults.rules == ()
    assert controlled.clock.added_ms == 0
